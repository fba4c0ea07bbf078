# SPDX-License-Identifier: Apache-2.0
"""A network's CPU part in NumPy, for machines without TVM: a board runs what stays simple.

Few operators are here: those that surround the regions of a network that the accelerator runs
whole (quantise, dequantise, moves of data, element-wise arithmetic, the conditions of masks,
softmax). A CPU part with others is refused by name before it is sent to a board. `HostProgram`
runs every CPU part.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import TilewrightError, WorkloadError, reason_of
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.run.host_arguments import (
    HostTimes,
    RegionRunner,
    checked_inputs,
    checked_result,
)

Array = npt.NDArray[Any]

FORMAT: Final = 2
"""Version of `HostModule.to_json` that is read."""

_PREFIX: Final = "relax."
_MAX_ELEMENTS: Final = 1 << 28
_MAX_VALUES: Final = 100_000


def _dtype(name: str) -> np.dtype[Any]:
    """The type of numbers that has a name."""
    found = np.dtype(name)
    if found.kind not in "biuf":
        raise ValueError(f"numbers of type {str(name)[:20]}")
    return found


def _scaled(parameter: Array, data: Array, axis: int) -> Array:
    """A scale or zero point of each channel, shaped so that it meets its axis of the data."""
    if parameter.ndim == 0:
        return parameter
    if parameter.size not in (1, data.shape[axis]):
        raise ValueError(f"{parameter.size} scales for {data.shape[axis]} channels")
    shape = [1] * data.ndim
    shape[axis] = parameter.size
    return parameter.reshape(shape)


def _quantize(data: Array, scale: Array, zero_point: Array, **attributes: Any) -> Array:
    dtype, axis = _dtype(attributes["out_dtype"]), attributes["axis"]
    limits = np.iinfo(dtype)
    with np.errstate(over="ignore"):  # masks are far below: infinity is clipped, too
        steps = np.rint(data / _scaled(scale, data, axis))
    steps = steps + _scaled(zero_point, data, axis).astype(steps.dtype)
    return np.asarray(np.clip(steps, limits.min, limits.max).astype(dtype))


def _dequantize(data: Array, scale: Array, zero_point: Array, **attributes: Any) -> Array:
    dtype, axis = _dtype(attributes["out_dtype"]), attributes["axis"]
    steps = data.astype(np.int32) - _scaled(zero_point, data, axis).astype(np.int32)
    return np.asarray(steps.astype(dtype) * _scaled(scale, data, axis).astype(dtype))


def _softmax(data: Array, *, axis: int) -> Array:
    powers = np.exp(data - data.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def _axes(axes: Sequence[int] | int | None) -> Any:
    return tuple(axes) if isinstance(axes, list | tuple) else axes


_PLAIN: Final[Mapping[str, Callable[..., Array]]] = {
    "add": np.add,
    "clip": np.clip,
    "divide": np.divide,
    "equal": np.equal,
    "flatten": np.ravel,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "isnan": np.isnan,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "nn.batch_flatten": lambda data: data.reshape(data.shape[0], -1),
    "nn.relu": lambda data: np.maximum(data, np.zeros((), data.dtype)),
    "not_equal": np.not_equal,
    "reshape": np.reshape,
    "subtract": np.subtract,
    "where": np.where,
}
"""Of arguments alone: what a file says besides reaches no option of NumPy."""

_WITH_ATTRIBUTES: Final[Mapping[str, Callable[..., Array]]] = {
    "astype": lambda data, *, dtype: data.astype(_dtype(dtype)),
    "concat": lambda parts, *, axis: np.concatenate(parts, axis=axis or 0),
    "dequantize": _dequantize,
    "expand_dims": lambda data, *, axis: np.expand_dims(data, _axes(axis)),
    "nn.softmax": _softmax,
    "permute_dims": lambda data, *, axes: np.transpose(data, _axes(axes)),
    "quantize": _quantize,
    "squeeze": lambda data, *, axis: np.squeeze(data, _axes(axis)),
}

OPERATORS: Final = frozenset({*_PLAIN, *_WITH_ATTRIBUTES})
"""By their names in Relax, without the prefix."""


class NumpyHost:
    """A CPU part that NumPy runs; runs like `HostProgram`."""

    def __init__(self, text: str) -> None:
        self.times = HostTimes()
        try:
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise ValueError(f"format {data['format']!r}")
            self.inputs: Final = tuple(map(Argument.from_mapping, data["inputs"]))
            self.outputs: Final = tuple(map(Argument.from_mapping, data["outputs"]))
            self._values: Final = list(data["module"]["values"])
            self._result: Final = int(data["module"]["result"])
            if len(self._values) > _MAX_VALUES:
                raise ValueError("too many values")
            lacking = _lacking(self._values)
            self._constants: Final = {
                number: _constant(value)
                for number, value in enumerate(self._values, len(self.inputs))
                if "constant" in value
            }
        except (
            *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
        ) as error:
            raise _damaged(error) from error
        if lacking:
            raise WorkloadError(
                f"must have only operators that NumPy runs ({', '.join(sorted(OPERATORS))})",
                field="CPU part of the network",
                value=", ".join(lacking[:16]),
                remedy="change the model, or keep the CPU's part on this machine with "
                "'tilewright run --device board --agent'",
            )

    def close(self) -> None:
        """Nothing: it holds arrays alone."""

    def run(self, inputs: Mapping[str, Array], regions: RegionRunner) -> dict[str, Array]:
        """Run once; see `HostProgram.run`."""
        times = HostTimes()
        started = time.perf_counter()
        known: list[Any] = list(checked_inputs(self.inputs, inputs))
        try:
            for value in self._values:
                known.append(self._computed(value, known, regions, times))
            result = known[self._result]
            arrays = [result] if len(self.outputs) == 1 else list(result)
            found = [(str(array.dtype), array.shape) for array in arrays]
            if found != [(o.dtype, o.shape) for o in self.outputs]:
                raise ValueError("other outputs than it states")
        except TilewrightError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise _damaged(error) from error
        times.cpu = time.perf_counter() - started - times.regions
        self.times = times
        return {o.name: array for o, array in zip(self.outputs, arrays, strict=True)}

    def _computed(
        self, value: Mapping[str, Any], known: list[Any], regions: RegionRunner, times: HostTimes
    ) -> Any:
        result: Any
        match value:
            case {"call": operator, "arguments": numbers, "attributes": attributes}:
                arguments = [known[number] for number in numbers]
                name = operator.removeprefix(_PREFIX)
                _check_size(arguments, together=name in _PLAIN)
                if name in _PLAIN:
                    result = _PLAIN[name](*arguments)
                else:
                    result = _WITH_ATTRIBUTES[name](*arguments, **attributes)
            case {"region": number, "arguments": numbers, "shapes": shapes}:
                started = time.perf_counter()
                try:
                    results = regions(number, [known[each] for each in numbers])
                finally:
                    times.regions += time.perf_counter() - started
                result = [
                    checked_result(number, array, tuple(shape))
                    for array, shape in zip(results, shapes, strict=True)
                ]
                result = result if len(result) > 1 else result[0]
            case {"constant": _}:
                result = self._constants[len(known)]
            case {"tuple": numbers}:
                result = [known[number] for number in numbers]
            case {"item": number, "index": index}:
                result = known[number][index]
            case {"shape_of_sizes": sizes}:
                result = tuple(sizes)
            case {"number": number, "dtype": dtype}:
                result = _dtype(dtype).type(number)
            case _:
                raise ValueError(f"a value of unknown kind ({str(value)[:40]})")
        return result


def _lacking(values: Sequence[Mapping[str, Any]]) -> list[str]:
    """Operators that are not here, each with the value that it computes."""
    lacking = []
    for value in values:
        if "onnx" in value:
            lacking.append(f"{', '.join(map(str, value['operators']))} ({value['name']})")
        elif "call" in value and value["call"].removeprefix(_PREFIX) not in OPERATORS:
            lacking.append(f"{value['call'].removeprefix(_PREFIX)} ({value['name']})")
    return lacking


def _constant(value: Mapping[str, Any]) -> Array:
    content = base64.b64decode(value["constant"], validate=True)
    return np.frombuffer(content, _dtype(value["dtype"])).reshape(value["shape"])


def _check_size(arguments: Sequence[Any], *, together: bool) -> None:
    """Refuse a result that would not fit memory, before it is computed."""
    arrays = [one for each in arguments for one in (each if isinstance(each, list) else [each])]
    shapes = [array.shape for array in arrays if isinstance(array, np.ndarray)]
    if any(isinstance(each, list) for each in arguments):
        elements = sum(map(prod, shapes))
    elif together:
        elements = prod(np.broadcast_shapes(*shapes))
    else:
        elements = max(map(prod, shapes))
    if elements > _MAX_ELEMENTS:
        raise ValueError(f"a tensor of more than {_MAX_ELEMENTS} elements")


def _damaged(error: Exception) -> WorkloadError:
    return WorkloadError(
        f"must be a saved CPU part of a network ({reason_of(error, 80)})",
        field="host module",
        remedy="compile the network again",
    )
