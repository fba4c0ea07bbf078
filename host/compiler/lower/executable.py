# SPDX-License-Identifier: Apache-2.0
"""`RegionExecutable`: the programs of a region and the tensors that they pass on.

Where layers chain (`host.network.layout.chains`) a region is one program. Otherwise each layer is
one, and the host unpacks and packs between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tilewright.host.compiler.lower.qgraph import (
    QTensor,
    from_normal_form,
    to_normal_form,
)
from tilewright.host.compiler.lower.region_program import RegionProgram
from tilewright.host.network.layout import Spread
from tilewright.host.runtime.device import Device, RunResult

Int8Array = npt.NDArray[np.int8]


@dataclass(frozen=True, kw_only=True)
class Wire:
    """A tensor of a program and the part of the region's tensor that it is."""

    inner: str  # name in the program
    tensor: str  # name in the region
    channel: int  # its first channel there
    spread: Spread | None = None  # the pixels that it fills there, if not all


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramStep:
    """One program, with the tensors that it takes from the region and gives back."""

    program: RegionProgram
    reads: tuple[Wire, ...]
    writes: tuple[Wire, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class RegionExecutable:
    """A region, ready to run.

    Attributes:
        inputs, outputs: tensor names, in the order of the region's arguments and results.
        model_shapes: shapes that the model gives inputs and outputs, where they differ.
        aliases: outputs that no step writes under their names, and whose elements they have.
        views: outputs that the caller gets where they lie in the memory of the run, with whatever
            strides that takes. All others are copied into the model's order.
    """

    name: str  # label
    steps: tuple[ProgramStep, ...]  # programs in order
    tensors: Mapping[str, QTensor]  # shapes of the tensors that pass between steps and the host
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    model_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    views: frozenset[str] = frozenset()

    def run(
        self, device: Device, arguments: list[Int8Array]
    ) -> tuple[list[Int8Array], list[RunResult]]:
        """Run on a device.

        Args:
            device: of the region's configuration.
            arguments: one int8 array an input, in the model's shape.

        Returns:
            The outputs in the model's shapes, and what the device said of each program. Those of
            `views` share the memory that the device returned.
        """
        values = {
            name: to_normal_form(argument, self.tensors[name].shape)
            for name, argument in zip(self.inputs, arguments, strict=True)
        }
        results = []
        for step in self.steps:
            operands = {wire.inner: self._part(step, wire, values) for wire in step.reads}
            found, result = step.program.run(device, operands)
            results.append(result)
            for wire in step.writes:
                part = found[wire.inner]
                if part.shape == self.tensors[wire.tensor].shape:
                    values[wire.tensor] = part
                else:
                    whole = values.setdefault(
                        wire.tensor, np.zeros(self.tensors[wire.tensor].shape, dtype=np.int8)
                    )
                    target = whole[:, wire.channel : wire.channel + part.shape[1]]
                    if wire.spread is not None:
                        target = wire.spread.pixels(target, *part.shape[2:])
                    target[...] = part
        return [self._output(name, values) for name in self.outputs], results

    @property
    def viewed_bytes(self) -> int:
        """Bytes that the outputs take up that are views: with what fills up stored blocks."""
        buffers = {buffer.tensor: buffer for step in self.steps for buffer in step.program.outputs}
        return sum(buffers[name].nbytes for name in self.views)

    def _output(self, name: str, values: Mapping[str, Int8Array]) -> Int8Array:
        shape = self.tensors[name].shape
        array = values[name if name in values else self.aliases[name]].reshape(shape)
        found = from_normal_form(array, self.model_shapes.get(name, shape))
        return found if name in self.views else np.ascontiguousarray(found)

    def _part(self, step: ProgramStep, wire: Wire, values: Mapping[str, Int8Array]) -> Int8Array:
        shape = next(b.shape for b in step.program.inputs if b.tensor == wire.inner)
        array = values[wire.tensor]
        if array.shape == shape:
            return array
        part = array[:, wire.channel : wire.channel + shape[1]]
        return np.ascontiguousarray(part).reshape(shape)
