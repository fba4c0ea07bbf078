# SPDX-License-Identifier: Apache-2.0
"""`RegionProgram`: a region that was lowered, with what packs its inputs and unpacks its outputs.

Boards run it: it knows nothing of how layers become instructions (`host.compiler.lower.region`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.network.layout import fold_activations, pack_activations, unpack_activations
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.host.runtime.device import Device, RunResult

Bytes = npt.NDArray[np.uint8]
Int8Array = npt.NDArray[np.int8]


@dataclass(frozen=True, kw_only=True)
class Folding:
    """How the host unrolls the kernel columns of a first layer into channels."""

    kernel_w: int
    stride_w: int
    dilation_w: int
    pad_left: int
    pad_right: int
    out_width: int
    pad_value: int


@dataclass(frozen=True, kw_only=True)
class TensorBuffer:
    """A tensor of the host's in the program's memory.

    Attributes:
        offset, nbytes: where its packed form lies in region ``activations``.
        folding: how it is unrolled, for an input that only a folded layer reads.
    """

    tensor: str  # its name
    shape: tuple[int, int, int, int]  # NCHW
    offset: int
    nbytes: int
    block: int  # channels of its stored block (`host.network.layout`)
    planes: int  # stored blocks of an image, at least those that its channels need
    folding: Folding | None = None

    @property
    def channels_together(self) -> bool:
        """Whether all channels of a pixel of one image lie together, before those of the next."""
        return self.planes == 1 and self.shape[0] == 1 and self.folding is None


@dataclass(frozen=True, kw_only=True)
class LayerCode:
    """A layer in the instruction stream.

    Attributes:
        workload: as the accelerator computes it (channels of a block that other layers fill count).
        first, count: its instructions.
        bytes_read, bytes_written: by LOAD and STORE.
    """

    name: str  # label of the layer
    workload: Workload
    schedule: Schedule  # how
    first: int
    count: int
    operators: tuple[str, ...]  # names of the model's operators
    macs_tiles: int  # tile products
    bytes_read: int
    bytes_written: int


@dataclass(frozen=True, kw_only=True, eq=False)
class RegionProgram:
    """A region as one program.

    Attributes:
        inputs, outputs: the region's tensors; a tensor that is read folded and plain occurs twice.
    """

    hw: HwConfig  # the configuration
    name: str  # label of the region
    program: Program  # regions ``activations``, ``weights``, ``uop``, ``insn``
    inputs: tuple[TensorBuffer, ...]
    outputs: tuple[TensorBuffer, ...]
    layers: tuple[LayerCode, ...]  # in stream order
    activation_peak: int  # bytes that no placement of the activations can undercut

    def image(self, inputs: Mapping[str, Int8Array]) -> Bytes:
        """The memory image of a run: program, constants and packed inputs."""
        memory = self.program.image()
        self.write_inputs(memory, inputs)
        return memory

    def write_inputs(self, memory: Bytes, inputs: Mapping[str, Int8Array]) -> None:
        """Pack inputs into a memory image."""
        base = self.program.regions["activations"].offset
        for buffer in self.inputs:
            data = inputs.get(buffer.tensor)
            if data is None or data.dtype != np.int8 or data.shape != buffer.shape:
                raise WorkloadError(
                    f"must be int8 of shape {buffer.shape}",
                    field=f"{self.name}.{buffer.tensor}",
                    value=None if data is None else f"{data.dtype} of shape {data.shape}",
                )
            if buffer.folding is not None:
                data = _folded(data, buffer.folding)
            packed = pack_activations(
                data,
                batch=self.hw.batch,
                block=buffer.block,
                channel_blocks=buffer.planes,
            )
            memory[base + buffer.offset : base + buffer.offset + packed.size] = packed

    def read_outputs(self, memory: Bytes) -> dict[str, Int8Array]:
        """The outputs in a memory image after a run, int8 NCHW by name.

        Nothing is moved where all channels of a pixel lie together: the output is a view, without
        the channels that fill up the stored block.
        """
        base = self.program.regions["activations"].offset
        return {
            buffer.tensor: self._output(
                buffer, memory[base + buffer.offset : base + buffer.offset + buffer.nbytes]
            )
            for buffer in self.outputs
        }

    def _output(self, buffer: TensorBuffer, packed: Bytes) -> Int8Array:
        n, channels, height, width = buffer.shape
        if buffer.channels_together and self.hw.batch == 1:
            pixels = packed.view(np.int8).reshape(n, height, width, buffer.block)
            return pixels[..., :channels].transpose(0, 3, 1, 2)
        return unpack_activations(packed, buffer.shape, batch=self.hw.batch, block=buffer.block)

    def run(
        self, device: Device, inputs: Mapping[str, Int8Array]
    ) -> tuple[dict[str, Int8Array], RunResult]:
        """Run on a device; the outputs by name, and what the device said."""
        result = device.run(self.program, self.image(inputs))
        return self.read_outputs(result.memory), result


def _folded(data: Int8Array, folding: Folding) -> Int8Array:
    columns = (folding.pad_left, folding.pad_right)
    data = np.pad(data, ((0, 0), (0, 0), (0, 0), columns), constant_values=folding.pad_value)
    return fold_activations(
        data,
        kernel_w=folding.kernel_w,
        stride_w=folding.stride_w,
        dilation_w=folding.dilation_w,
        pad_left=0,
        out_width=folding.out_width,
    )
