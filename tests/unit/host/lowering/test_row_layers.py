# SPDX-License-Identifier: Apache-2.0
"""Softmax and layer normalisation as programs against their specification."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.hazards import check_hazards
from support.rows import masked_softmax, some_function

from tilewright.host.common.errors import ProgramError, WorkloadError
from tilewright.host.lowering.row_layers import compute_rows, lower_rows
from tilewright.host.lowering.row_plan import plan_rows
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.row_functions import LayerNorm, Softmax, mask_scale
from tilewright.sim.reference.device import ReferenceDevice

ROWED = load_hwconfig("tiny-4x4").with_(row_unit=1)
CONFIGS = (
    ROWED,
    ROWED.with_(name="interleaved", block_in=16),
    ROWED.with_(name="batch", batch=2, vector_lanes=2),
    ROWED.with_(name="one piece", res_bytes=1024, out_bytes=1024, acc_bytes=8192),
)


@settings(max_examples=30, deadline=None)
@given(
    hw=st.sampled_from(CONFIGS),
    kind=st.sampled_from(["softmax", "layer norm", "masked"]),
    shape=st.tuples(*(st.integers(1, high) for high in (3, 26, 4, 30))),
    seed=st.integers(0, 2**32 - 1),
)
def test_programs_compute_what_is_specified(
    hw: HwConfig, kind: str, shape: tuple[int, int, int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    masked = kind == "masked"
    function = masked_softmax(shape, rng) if masked else some_function(kind, shape[1], rng)
    data = rng.integers(-128, 128, shape).astype(np.int8)
    lowered = lower_rows(hw, shape, function)
    memory = lowered.image(data)
    check_hazards(hw, lowered.program, memory)
    result = ReferenceDevice(hw).run(lowered.program, memory)
    assert (lowered.output(result.memory) == compute_rows(data, function)).all()


@settings(max_examples=20, deadline=None)
@given(
    hw=st.sampled_from(CONFIGS),
    causal=st.booleans(),
    shape=st.tuples(*(st.integers(1, high) for high in (26, 4, 30))),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_mask_that_is_given_at_run_time_is_part_of_what_is_specified(
    hw: HwConfig, causal: bool, shape: tuple[int, int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    channels, height, width = shape
    function = Softmax.of(0.1, mask_scale=mask_scale(0.1))
    if causal:
        addend = np.where(rng.random((1, height, width, channels)) < 0.3, -np.inf, 0.0)
        function = Softmax.of(0.1, addend=addend, mask_scale=mask_scale(0.1))
    data = rng.integers(-128, 128, (1, *shape)).astype(np.int8)
    lowered = lower_rows(hw, (1, *shape), function)
    for _ in range(2):  # one program, two masks
        mask = rng.integers(-128, 1, (1, channels, 1, 1)).astype(np.int8)
        memory = lowered.image(data, mask)
        check_hazards(hw, lowered.program, memory)
        result = ReferenceDevice(hw).run(lowered.program, memory)
        assert (lowered.output(result.memory) == compute_rows(data, function, mask)).all()


def test_a_mask_of_several_images_is_refused() -> None:
    with pytest.raises(WorkloadError, match="batch of 1"):
        lower_rows(ROWED, (2, 4, 3, 1), Softmax.of(0.1, mask_scale=1.0))


@pytest.mark.parametrize("kind", ["softmax", "layer norm"])
@pytest.mark.parametrize("block_in", [4, 16])
def test_rows_of_more_blocks_than_the_parameters_that_fit(kind: str, block_in: int) -> None:
    hw = ROWED.with_(block_in=block_in, param_bytes=1024, acc_bytes=16384)
    rng = np.random.default_rng(8)
    shape = (1, 150, 3, 7)
    assert plan_rows(hw, shape).held < plan_rows(hw, shape).blocks
    function = some_function(kind, shape[1], rng)
    data = rng.integers(-128, 128, shape).astype(np.int8)
    lowered = lower_rows(hw, shape, function)
    memory = lowered.image(data)
    check_hazards(hw, lowered.program, memory)
    result = ReferenceDevice(hw).run(lowered.program, memory)
    assert (lowered.output(result.memory) == compute_rows(data, function)).all()


def test_long_images_are_cut_so_that_transfers_run_beside_the_vector_unit() -> None:
    hw = load_hwconfig("pynq-16x16").with_(row_unit=1)
    assert plan_rows(hw, (1, 128, 1, 128)).rows == 22
    assert plan_rows(hw, (1, 128, 1, 9)).rows == 9
    assert plan_rows(hw, (1, 128, 1, 128)).slots == 2


def test_pieces_of_a_run_are_of_one_size_and_as_large_as_fits() -> None:
    hw = load_hwconfig("pynq-16x16").with_(row_unit=1)
    assert [rows for _, _, rows in plan_rows(hw, (1, 49, 196, 1), 2).pieces] == [33] * 5 + [31]
    assert [rows for _, _, rows in plan_rows(hw, (1, 49, 196, 1), 2, 12).pieces] == [98, 98]


@pytest.mark.parametrize("bias", [0.0, 0.02])
def test_rows_without_a_mask_do_not_load_one(bias: float) -> None:
    rng, shape = np.random.default_rng(5), (1, 8, 64, 1)
    counts = []
    for masked in (64, 20):
        addend = rng.normal(0, bias, (1, 64, 1, 8))
        addend[:, :masked, :, 5:] = -np.inf
        function = Softmax.of(0.1, addend=addend)
        data = rng.integers(-128, 128, shape).astype(np.int8)
        lowered = lower_rows(ROWED, shape, function)
        memory = lowered.image(data)
        check_hazards(ROWED, lowered.program, memory)
        result = ReferenceDevice(ROWED).run(lowered.program, memory)
        assert (lowered.output(result.memory) == compute_rows(data, function)).all()
        counts.append(lowered.program.instruction_count)
    assert counts[1] < counts[0]


def test_a_configuration_without_the_unit_is_refused() -> None:
    with pytest.raises(ProgramError, match="row_unit: 1"):
        lower_rows(load_hwconfig("tiny-4x4"), (1, 4, 1, 1), Softmax.of(0.1))


def test_a_row_that_is_longer_than_the_scratchpads_is_refused() -> None:
    with pytest.raises(WorkloadError, match="must fit ACC"):
        lower_rows(ROWED, (1, 4096, 1, 1), Softmax.of(0.1))


def test_parameters_of_other_rows_are_refused() -> None:
    function = LayerNorm.of(np.ones(8), np.zeros(8), 1.0)
    with pytest.raises(WorkloadError, match="8 channels"):
        lower_rows(ROWED, (1, 4, 1, 1), function)


def test_an_addend_of_other_rows_is_refused() -> None:
    function = masked_softmax((1, 8, 3, 1), np.random.default_rng(0))
    with pytest.raises(WorkloadError, match="rows' shape"):
        lower_rows(ROWED, (1, 8, 4, 1), function)
