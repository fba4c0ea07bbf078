# SPDX-License-Identifier: Apache-2.0
"""The part of a network that runs on the CPU: a Relax module that calls out to regions."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tvm
import tvm_ffi
from tvm import relax

from tilewright.host.common.errors import DeviceError, WorkloadError, reason_of
from tilewright.host.compiler.divide.relax_calls import BUILDING
from tilewright.host.compiler.divide.relax_onnx import (
    ONNX_FUNCTION,
    is_onnx_call,
    parts_of_call,
    session_of,
)
from tilewright.host.compiler.divide.relax_writer import REGION_FUNCTION
from tilewright.host.compiler.pack.relax_saved import from_values, to_values
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.run.host_arguments import (
    HostTimes,
    RegionRunner,
    checked_inputs,
    checked_result,
)

Array = npt.NDArray[Any]
_FORMAT: Final = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class HostModule:
    """What the CPU runs, not yet compiled.

    Attributes:
        inputs, outputs: of ``main``, in order.
    """

    module: tvm.IRModule  # Relax; ``main`` calls `REGION_FUNCTION` for every region
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]

    def to_json(self) -> str:
        """Text from which `from_json` makes the same module again."""
        return json.dumps(
            {
                "format": _FORMAT,
                "inputs": [vars(argument) for argument in self.inputs],
                "outputs": [vars(argument) for argument in self.outputs],
                "module": to_values(self.module),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> HostModule:
        """Read what `to_json` wrote, as untrusted input (see `relax_saved`)."""
        try:
            data = json.loads(text)
            if data["format"] != _FORMAT:
                raise ValueError(f"format {data['format']!r}")
            inputs, outputs = (
                tuple(map(Argument.from_mapping, data["inputs"])),
                tuple(map(Argument.from_mapping, data["outputs"])),
            )
            module = from_values(data["module"], inputs, outputs)
        except WorkloadError:
            raise
        except Exception as error:  # the reader of TVM raises kinds of its own
            raise WorkloadError(
                f"must be a saved CPU part of a network ({reason_of(error, 80)})",
                field="host module",
                remedy="compile the network again",
            ) from error
        return cls(module=module, inputs=inputs, outputs=outputs)


@dataclass(kw_only=True, eq=False)
class _Call:
    """What the registered function needs to know of the run in progress."""

    runner: RegionRunner
    times: HostTimes
    sessions: Mapping[int, Any]
    error: BaseException | None = None


class _Running(threading.local):
    """Runs in progress in this thread, the innermost last."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []


_running: Final = _Running()


@tvm_ffi.register_global_func(REGION_FUNCTION, override=True)  # type: ignore[untyped-decorator]  # untyped
def _run_region(number: int, inputs: int, *tensors: Any) -> None:
    """Called by the compiled module: so many inputs, then the outputs, which are written."""
    call = _running.calls[-1]
    started = time.perf_counter()
    try:
        results = call.runner(number, [tensor.numpy() for tensor in tensors[:inputs]])
        for tensor, result in zip(tensors[inputs:], results, strict=True):
            tensor.copyfrom(checked_result(number, result, tuple(tensor.shape)))
    except BaseException as error:
        call.error = error
        raise
    finally:
        call.times.regions += time.perf_counter() - started


@tvm_ffi.register_global_func(ONNX_FUNCTION, override=True)  # type: ignore[untyped-decorator]  # untyped
def _run_part(number: int, inputs: int, _model: Any, *tensors: Any) -> None:
    """Called by the compiled module for what ONNX Runtime computes."""
    call = _running.calls[-1]
    session = call.sessions[number]
    names = [value.name for value in session.get_inputs()]
    given = {name: each.numpy() for name, each in zip(names, tensors[:inputs], strict=True)}
    try:
        results = session.run(None, given)
    except Exception as error:  # ONNX Runtime raises kinds of its own
        call.error = DeviceError(
            f"ONNX Runtime failed in the CPU part ({reason_of(error)})",
            remedy="check the inputs: an index or a size among them may not fit the model",
        )
        raise call.error from error
    for tensor, result in zip(tensors[inputs:], results, strict=True):
        if result.shape != tuple(tensor.shape) or str(result.dtype) != str(tensor.dtype):
            call.error = DeviceError(
                "a result of ONNX Runtime in the CPU part has another shape than when the network "
                f"was compiled ({result.shape} for {tuple(tensor.shape)})",
                remedy="export the model so that the sizes of its results do not depend on data",
            )
            raise call.error
        tensor.copyfrom(np.asarray(result, order="C"))


@contextmanager
def _entered(call: _Call) -> Iterator[None]:
    _running.calls.append(call)
    try:
        yield
    finally:
        _running.calls.pop()


@dataclass(kw_only=True, eq=False)
class HostProgram:
    """A compiled `HostModule`; runs in one thread at a time."""

    module: HostModule  # what was compiled
    times: HostTimes = field(default_factory=HostTimes)  # of the last run

    def __post_init__(self) -> None:
        """Compile for this machine."""
        self._machine = _compiled(self.module.module)
        self._sessions = _sessions(self.module.module)

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """Of the module."""
        return self.module.outputs

    def run(self, inputs: Mapping[str, Array], regions: RegionRunner) -> dict[str, Array]:
        """Run the network once.

        Args:
            inputs: by name, in the shapes and types of `HostModule.inputs`.
            regions: runs the regions.
        """
        arguments = [tvm.runtime.tensor(a) for a in checked_inputs(self.module.inputs, inputs)]
        call = _Call(runner=regions, times=HostTimes(), sessions=self._sessions)
        started = time.perf_counter()
        with _entered(call):
            try:
                result = self._machine["main"](*arguments)
            except Exception as error:
                if call.error is not None:
                    raise call.error from None
                raise DeviceError(
                    f"the CPU part of a network failed ({reason_of(error)})"
                ) from error
        call.times.cpu = time.perf_counter() - started - call.times.regions
        self.times = call.times
        results = [result] if len(self.module.outputs) == 1 else list(result)
        return {
            argument.name: tensor.numpy()
            for argument, tensor in zip(self.module.outputs, results, strict=True)
        }

    def close(self) -> None:
        """Nothing: the compiled module lives as long as this object."""


def _sessions(module: tvm.IRModule) -> dict[int, Any]:
    """Of the parts that ONNX Runtime computes, by number."""
    found = {}
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            if is_onnx_call(binding.value):
                number, model, _ = parts_of_call(binding.value)
                try:
                    found[number] = session_of(model)
                except ValueError as error:
                    raise WorkloadError(
                        f"must be something that the CPU can compute ({error})",
                        field="CPU part of the network",
                        remedy="compile the network again with this version of ONNX Runtime",
                    ) from error
    return found


def _compiled(module: tvm.IRModule) -> Any:
    try:
        with BUILDING:
            executable = tvm.compile(module, target="llvm")
            return relax.VirtualMachine(executable, tvm.cpu())
    except Exception as error:  # the compiler raises kinds of its own
        raise WorkloadError(
            f"must be something that TVM can compile ({reason_of(error, 200)})",
            field="CPU part of the network",
            remedy="simplify or replace the operators that stay on the CPU",
        ) from error
