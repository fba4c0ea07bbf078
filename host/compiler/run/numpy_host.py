# SPDX-License-Identifier: Apache-2.0
"""A network's CPU part in NumPy, for machines without TVM: a board runs what stays simple.

A CPU part with operators that `numpy_operators` has not is refused by name before it is sent to a
board. `HostProgram` runs every CPU part.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
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
from tilewright.host.compiler.run.numpy_operators import (
    OPERATORS,
    PLAIN,
    WITH_ATTRIBUTES,
    check_size,
    dtype_of,
)

Array = npt.NDArray[Any]

FORMAT: Final = 2
"""Version of `HostModule.to_json` that is read."""

_PREFIX: Final = "relax."
_MAX_VALUES: Final = 100_000
_MOST_ALL: Final = 1 << 27
"""Elements of all results: they are kept to the end."""


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
                "must have only operators that NumPy runs on a board (docs/how-to/deploy.md)",
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
            elements = 0
            for value in self._values:
                known.append(self._computed(value, known, regions, times))
                made = known[-1] if isinstance(known[-1], list) else [known[-1]]
                elements += sum(np.size(each) for each in made) if "call" in value else 0
                if elements > _MOST_ALL:
                    raise ValueError(f"tensors of more than {_MOST_ALL} elements together")
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
                # a number takes the type of the tensors beside it
                arguments = [a.item() if isinstance(a, np.generic) else a for a in arguments]
                if name in PLAIN:
                    if any(isinstance(each, list) for each in arguments):
                        raise ValueError(f"several tensors for {name}")
                    arrays = [each for each in arguments if isinstance(each, np.ndarray)]
                    check_size(np.broadcast_shapes(*(array.shape for array in arrays)))
                    result = PLAIN[name](*arguments)
                else:
                    result = WITH_ATTRIBUTES[name](*arguments, **attributes)
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
                result = dtype_of(dtype).type(number)
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
    return np.frombuffer(content, dtype_of(value["dtype"])).reshape(value["shape"])


def _damaged(error: Exception) -> WorkloadError:
    return WorkloadError(
        f"must be a saved CPU part of a network ({reason_of(error, 80)})",
        field="host module",
        remedy="compile the network again",
    )
