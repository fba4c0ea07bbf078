# SPDX-License-Identifier: Apache-2.0
"""What the manifest of a `.tw` file may say, and how its parts must fit together."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from tilewright.host.common.plain_values import (
    PlainValueError,
    each,
    integer,
    mapping,
    optional,
    plain,
    real,
    record,
)
from tilewright.host.compiler.lower.executable import ProgramStep, RegionExecutable, Wire
from tilewright.host.compiler.lower.region_program import Folding, RegionProgram, TensorBuffer
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import blocks_of

MAX_NAME: Final = 1024
MAX_PROGRAM_MEMORY: Final = 1 << 31
"""Bytes of one program: more than any board has contiguous."""

MAX_STEPS: Final = 100_000
DTYPES: Final = frozenset((
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64",
))  # fmt: skip
"""Element types of a network's inputs, outputs and constants."""

_MAX_OFFSET: Final = 1 << 40
_MAX_WORK: Final = 1 << 50
_MAX_SIZE: Final = 1 << 24
_MAX_ELEMENTS: Final = 1 << 30


def _name(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_NAME:
        raise PlainValueError(f"{str(value)[:60]!r} where a name is expected")
    return value


def _dtype(value: Any) -> str:
    if value not in DTYPES:
        raise PlainValueError(f"{str(value)[:60]!r} where a type of elements is expected")
    return str(value)


_count = integer(0, _MAX_OFFSET)
_offset = integer(0, _MAX_OFFSET)
_work = integer(0, _MAX_WORK)
_size = integer(1, _MAX_SIZE)
_pad = integer(0, _MAX_SIZE)
_four = each(_size, 4)
_shape = each(_size, 16)
_names = each(_name, MAX_STEPS)


def _plain_tree(value: Any) -> Any:
    """Workloads, schedules, configurations and conditions: their own readers check the fields."""
    return plain(dict)(value)


_port = record(
    name=_name, shape=_shape, dtype=_dtype, scale=optional(real), zero_point=integer(-128, 127)
)
_placed = record(
    name=_name,
    kind=_name,
    where=_name,
    reason=_name,
    region=optional(_count),
    macs=_work,
    bytes=_work,
    crossing_bytes=_work,
)
_tensor = record(name=_name, shape=_four, scale=real, zero_point=integer(-128, 127))
_spread = each(integer(0, _MAX_SIZE), 6)
_wire = record(inner=_name, tensor=_name, channel=integer(0, _MAX_SIZE), spread=optional(_spread))
_folding = record(
    kernel_w=_size,
    stride_w=_size,
    dilation_w=_size,
    pad_left=_pad,
    pad_right=_pad,
    out_width=_size,
    pad_value=integer(-128, 127),
)
_buffer = record(
    tensor=_name,
    shape=_four,
    offset=_offset,
    nbytes=integer(0, MAX_PROGRAM_MEMORY),
    block=_size,
    planes=_size,
    folding=optional(_folding),
)
_layer = record(
    name=_name,
    workload=_plain_tree,
    schedule=_plain_tree,
    first=_count,
    count=_count,
    operators=_names,
    macs_tiles=_count,
    bytes_read=_count,
    bytes_written=_count,
)
_program = record(
    name=_name,
    regions=mapping(_name, record(offset=_offset, nbytes=integer(0, MAX_PROGRAM_MEMORY))),
    memory_bytes=integer(0, MAX_PROGRAM_MEMORY),
    inputs=each(_buffer, MAX_STEPS),
    outputs=each(_buffer, MAX_STEPS),
    activation_peak=_count,
    layers=each(_layer, MAX_STEPS),
)
_step = record(program=_program, reads=each(_wire, MAX_STEPS), writes=each(_wire, MAX_STEPS))
_region = record(
    name=_name,
    inputs=_names,
    outputs=_names,
    tensors=each(_tensor, MAX_STEPS),
    model_shapes=mapping(_name, _shape),
    aliases=mapping(_name, _name),
    views=_names,
    steps=each(_step, MAX_STEPS),
)

MANIFEST: Final = record(
    format=plain(int),
    name=_name,
    hw=_plain_tree,
    inputs=each(_port, MAX_STEPS),
    outputs=each(_port, MAX_STEPS),
    placements=each(_placed, MAX_STEPS),
    conversion_bytes=_work,
    conditions=_plain_tree,
    regions=each(_region, MAX_STEPS),
)
"""The whole manifest as plain values."""


def check_region(region: RegionExecutable, hw: HwConfig) -> None:
    """Refuse a region whose programs, tensors and wires do not fit together."""
    known = set(region.tensors)
    for name in (*region.inputs, *region.outputs, *region.aliases.values()):
        _require(name in known, f"tensor {name[:60]!r} is not described")
    for tensor in region.tensors.values():
        n, channels, height, width = tensor.shape
        _require(n * channels * height * width <= _MAX_ELEMENTS, f"{tensor.name[:60]} is too large")
    written = set(region.inputs)
    for step in region.steps:
        _check_program(step.program, hw)
        _check_wires(step, region, written)
    _check_views(region)
    for name in region.outputs:
        _require(
            name in written or region.aliases.get(name) in written,
            f"output {name[:60]!r} is not computed",
        )


def _check_views(region: RegionExecutable) -> None:
    together = {
        buffer.tensor
        for step in region.steps
        for buffer in step.program.outputs
        if buffer.channels_together and step.program.hw.batch == 1
    }
    for name in region.views:
        _require(
            name in region.outputs and name in together,
            f"output {name[:60]!r} cannot be seen where it lies",
        )


def _check_wires(step: ProgramStep, region: RegionExecutable, written: set[str]) -> None:
    inputs = {buffer.tensor: buffer.shape for buffer in step.program.inputs}
    outputs = {buffer.tensor: buffer.shape for buffer in step.program.outputs}
    _require({wire.inner for wire in step.reads} == set(inputs), "a program lacks an input")
    for wire in step.reads:
        _require(
            wire.tensor in written, f"tensor {wire.tensor[:60]!r} is read before it is written"
        )
        _require(wire.spread is None, "an input is spread")
        _check_wire(wire, inputs, region, reshapes=True)
    for wire in step.writes:
        _check_wire(wire, outputs, region)
        written.add(wire.tensor)


def _check_wire(
    wire: Wire, shapes: dict[str, Any], region: RegionExecutable, *, reshapes: bool = False
) -> None:
    tensor = region.tensors.get(wire.tensor)
    _require(
        tensor is not None and wire.inner in shapes, f"wire {wire.inner[:60]!r} leads to nothing"
    )
    assert tensor is not None
    n, channels, height, width = shapes[wire.inner]
    pixels = (height, width)
    if wire.spread is not None:
        spread = wire.spread
        _require(spread.row_step > 0 and spread.column_step > 0, "a spread must have steps")
        rows = len(range(spread.first_row, tensor.shape[2], spread.row_step))
        columns = len(range(spread.first_column, tensor.shape[3], spread.column_step))
        _require(height <= rows and width <= columns, f"wire {wire.inner[:60]!r} has another size")
        pixels = tensor.shape[2:]
    # What is read may be another shape of the pixels; what is written fills them as they are.
    same = prod(pixels) == prod(tensor.shape[2:]) if reshapes else pixels == tensor.shape[2:]
    _require(
        same and n == tensor.shape[0] and wire.channel + channels <= tensor.shape[1],
        f"wire {wire.inner[:60]!r} has another size",
    )


def _check_program(code: RegionProgram, hw: HwConfig) -> None:
    instructions = code.program.instruction_count
    for layer in code.layers:
        _require(
            layer.count > 0 and layer.first + layer.count <= instructions,
            f"layer {layer.name[:60]!r} has no instructions",
        )
    for buffer in (*code.inputs, *code.outputs):
        _check_buffer(buffer, hw)


def _check_buffer(buffer: TensorBuffer, hw: HwConfig) -> None:
    """Packing a tensor must take the bytes that are reserved for it, and no detour of more."""
    n, channels, height, width = buffer.shape
    if buffer.folding is not None:
        channels, width = _folded_size(buffer.folding, channels, width)
    images = blocks_of(n, hw.batch)
    needed = images * buffer.planes * height * width * hw.batch * buffer.block
    _require(
        needed == buffer.nbytes and channels <= buffer.planes * buffer.block,
        f"tensor {buffer.tensor[:60]!r} does not fit its place",
    )


def _folded_size(folding: Folding, channels: int, width: int) -> tuple[int, int]:
    """Channels and columns of an input whose kernel columns are unrolled."""
    f = folding
    padded = f.pad_left + width + f.pad_right
    span = (f.out_width - 1) * f.stride_w + (f.kernel_w - 1) * f.dilation_w + 1
    reach = f.kernel_w * f.dilation_w
    _require(
        span <= padded and max(f.pad_left, f.pad_right) <= reach,
        "an input does not fit its folding",
    )
    return channels * f.kernel_w, f.out_width


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise PlainValueError(what)
