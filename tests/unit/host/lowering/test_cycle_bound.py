# SPDX-License-Identifier: Apache-2.0
"""Bounds against the design's figures and against brute force."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.lowering import default_schedule, lower
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.workload import Kind, Workload, conv2d, dense, depthwise, maxpool

PYNQ = HwConfig()
IDEAL = load_memory("ideal")

# VTA's conformance layers: size, channels in and out, kernel, padding, stride, count.
LAYERS = {
    "C2": (56, 64, 64, 3, 1, 1, 4), "C3": (56, 64, 128, 3, 1, 2, 1),
    "C4": (56, 64, 128, 1, 0, 2, 1), "C5": (28, 128, 128, 3, 1, 1, 3),
    "C6": (28, 128, 256, 3, 1, 2, 1), "C7": (28, 128, 256, 1, 0, 2, 1),
    "C8": (14, 256, 256, 3, 1, 1, 3), "C9": (14, 256, 512, 3, 1, 2, 1),
    "C10": (14, 256, 512, 1, 0, 2, 1), "C11": (7, 512, 512, 3, 1, 1, 3),
}  # fmt: skip


def layer(name: str) -> Workload:
    return conv2d(name, *LAYERS[name][:6])


def test_resnet18_layers_sum_to_the_published_ideal():
    bounds = {name: bound(PYNQ, layer(name), IDEAL) for name in LAYERS}
    assert all(b.limiter == "mac" for b in bounds.values())
    assert [bounds[n].cycles for n in ("C4", "C7", "C10", "C11")] == [25088, 25088, 25088, 451584]
    assert sum(bounds[n].cycles * LAYERS[n][6] for n in LAYERS) == 6_623_232


@settings(max_examples=60, deadline=None)
@given(
    height=st.integers(1, 12), kernel=st.integers(1, 5), stride=st.integers(1, 4),
    top=st.integers(0, 6), bottom=st.integers(0, 6),
)  # fmt: skip
def test_passes_of_a_pool_equal_enumeration(*, height, kernel, stride, top, bottom):
    if height + top + bottom < kernel:
        return
    pool = replace(
        maxpool("P", 8, 16, 1, 0, 1), height=height, kernel_h=kernel, stride_h=stride,
        pad_top=top, pad_bottom=bottom,
    )  # fmt: skip
    passes = 0
    for out in range(pool.out_height):
        rows = range(out * stride - top, out * stride - top + kernel)
        passes += max(sum(0 <= row < height for row in rows), 1) + 1
    assert bound(PYNQ, pool, IDEAL).vector_cycles == 8 * passes


def test_a_bound_costs_no_more_on_a_larger_image():
    """A damaged file may name any size; sets of its rows took gigabytes."""
    wide = replace(conv2d("w", 9, 1, 1, 3, 1, 1), width=2**31 - 1)
    assert bound(PYNQ, wide, IDEAL).read_bytes == 9 * (2**31 - 1) + 9 + 16


def test_what_a_layer_does_not_read_in_its_place_is_not_compulsory():
    """Pixels that move have no parameters; operands of a run are there already."""
    moved = Workload(name="moved", kind=Kind.GATHER, n=1, height=1, width=1, channels_in=144,
                     channels_out=144, relu=False)  # fmt: skip
    assert bound(PYNQ, moved, IDEAL).read_bytes == 144
    alone = bound(PYNQ, dense("D", 1, 64, 64), IDEAL)
    assert alone.read_bytes > 64 * 64
    assert bound(PYNQ, dense("D", 1, 64, 64), IDEAL, read_bytes=64).read_bytes == 64


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 9), kernel=st.integers(1, 3), stride=st.integers(1, 4),
    dilation=st.integers(1, 3), pad=st.integers(0, 3), residual=st.booleans(),
)  # fmt: skip
def test_compulsory_reads_equal_enumeration(*, size, kernel, stride, dilation, pad, residual):
    if size + 2 * pad < dilation * (kernel - 1) + 1:
        return
    workload = replace(
        conv2d("w", size, 5, 6, kernel, pad, stride, residual=residual), dilation_h=dilation,
        dilation_w=dilation, n=2,
    )  # fmt: skip
    touched = set()
    axes = (range(workload.out_height), range(workload.out_width), range(kernel), range(kernel))
    for oy, ox, ky, kx in itertools.product(*axes):
        y = oy * stride - pad + ky * dilation
        x = ox * stride - pad + kx * dilation
        if 0 <= y < size and 0 <= x < size:
            touched.add((y, x))
    outputs = 2 * 6 * workload.out_height * workload.out_width
    expected = 2 * 5 * len(touched) + 6 * 5 * kernel * kernel + 6 * 16 + residual * outputs
    figures = bound(PYNQ, workload, IDEAL)
    assert (figures.read_bytes, figures.write_bytes) == (expected, outputs)


@pytest.mark.parametrize("name", ["tiny-4x4", "batch2-8x16", "wide-8x32"])
@pytest.mark.parametrize("workload", [
    conv2d("a", 9, 3, 10, 3, 1, 2, residual=True), depthwise("b", 8, 20, 3, 1, 1),
    dense("c", 5, 40, 30), maxpool("d", 9, 20, 3, 1, 2),
])  # fmt: skip
def test_no_program_does_less_than_the_bound(name, workload):
    hw = load_hwconfig(name)
    low = lower(hw, workload, default_schedule(hw, workload))
    figures = bound(hw, workload, IDEAL)
    assert low.macs_tiles == figures.mac_cycles
    assert low.bytes_read >= figures.read_bytes
    assert low.bytes_written >= figures.write_bytes
