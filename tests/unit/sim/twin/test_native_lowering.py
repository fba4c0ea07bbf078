# SPDX-License-Identifier: Apache-2.0
"""Native lowering gives the bytes, the layout, the work and the verdict of `host.lowering`."""

from dataclasses import replace

import numpy as np
import pytest
from support.programs.drawing import any_workload
from support.programs.refused_schedules import CASES
from support.randomness import generator, often, sample, where

from tilewright.host.common.errors import DeviceError, ProgramError, ScheduleError
from tilewright.host.lowering import default_schedule, legal, lower
from tilewright.host.lowering.geometry import geometry
from tilewright.host.lowering.native.records import VERDICTS
from tilewright.host.lowering.program_builder import ProgramBuilder
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig, named_configs
from tilewright.host.machine.isa import Instruction
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Workload, conv2d, dense, depthwise
from tilewright.host.network.zoo import load_network
from tilewright.sim.twin.library import TOTALS, CSchedule
from tilewright.sim.twin.native_lowering import NativeLowering, decode_schedule, encode_schedules
from tilewright.sim.verify.randconfig import any_hwconfig

TINY = load_hwconfig("tiny-4x4")
NETWORKS = ("vta-resnet18", "resnet18", "mobilenet_v2", "alexnet")
LAYERS = {w.key: w for name in NETWORKS for w in load_network(name).workloads}
EXTRA = (
    replace(conv2d("residual", 14, 64, 64, 3, 1, 1, residual=True), n=3),
    replace(conv2d("batch", 28, 40, 72, 3, 1, 2), n=5),
    dense("matmul", 196, 300, 200),
    conv2d("folded", 31, 5, 24, 7, 3, 2),
)
SCHEDULE = Schedule(tile_h=2, tile_w=4, tile_ci=2, tile_co=1)
WORKLOAD = conv2d("w", 8, 16, 16, 3, 1, 1)
MOST_INSTRUCTIONS = 3000
"""Longest program of a random schedule: Python needs 30 us an instruction."""


def assert_equal(native: NativeLowering, schedule: Schedule) -> None:
    """Both lowerings give the same layer; shows the first instruction that differs."""
    hw, workload = native.hw, native.workload
    expected = lower(hw, workload, schedule, clip=native.clip)
    found = native.lower(schedule)
    if found == expected:
        return
    facts = where(hw=hw.parameters(), workload=workload, schedule=schedule)
    pairs = zip(*(
        [layer.program.instructions[i : i + 32]
         for i in range(0, len(layer.program.instructions), 32)]
        for layer in (found, expected)
    ), strict=False)  # fmt: skip
    for index, (mine, theirs) in enumerate(pairs):
        assert mine == theirs, (
            f"instruction {index}: native {Instruction.decode(mine)}, "
            f"host {Instruction.decode(theirs)}: {facts}"
        )
    assert found == expected, facts


def any_choice(rng, workload: Workload, hw: HwConfig) -> Schedule:
    """Any schedule, legal or not; small tiles as likely as large ones, a few beyond the layer."""
    shape = geometry(hw, workload)

    def tile(extent: int, unit: int = 1) -> int:
        if rng.random() < 0.02:
            return extent + 1
        if rng.random() < 0.02:
            unit = 1
        units = round(float(np.exp(rng.uniform(0, np.log(-(-extent // unit))))))
        return min(units * unit, extent)

    return Schedule(
        tile_b=tile(shape.batches),
        tile_h=tile(shape.out_height),
        tile_w=tile(shape.out_width),
        tile_ci=tile(1 if shape.depthwise else shape.reduce_blocks, shape.tile_ci_unit),
        tile_co=tile(shape.out_blocks),
        h_threading=int(rng.integers(1, 3)),
        oc_threading=int(rng.integers(1, 3)),
        loop_order=list(LoopOrder)[rng.integers(3)],
        fusion=list(Fusion)[rng.integers(2)],
    )


def check_random(hw: HwConfig, workload: Workload, rng, choices: int, programs: int) -> int:
    """Verdicts of random schedules, and the bytes of the first ``programs`` legal ones."""
    native = NativeLowering(hw, workload)
    schedules = [any_choice(rng, workload, hw) for _ in range(choices)]
    points = encode_schedules(schedules)
    verdicts = [legal(hw, workload, schedule).rule for schedule in schedules]
    found = [VERDICTS[rule] for rule in native.rules(points)]
    for schedule, mine, theirs in zip(schedules, found, verdicts, strict=True):
        facts = where(hw=hw.parameters(), workload=workload, schedule=schedule)
        assert mine == theirs, f"native {mine or 'legal'}, host {theirs or 'legal'}: {facts}"
    totals = native.totals(points)
    assert np.array_equal(totals[:, 0], native.rules(points))
    lengths = totals[:, TOTALS.index("instruction_count")]
    wanted = np.flatnonzero((lengths > 0) & (lengths <= MOST_INSTRUCTIONS))[:programs]
    for index in wanted:
        assert_equal(native, schedules[index])
    return len(wanted)


# -- equality ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", named_configs())
def test_default_schedules_of_real_layers_give_the_same_programs(name):
    rng, hw = generator(f"default {name}"), load_hwconfig(name)
    for key in rng.choice(list(LAYERS), 6, replace=False):
        check_default(hw, LAYERS[key])
    for workload in EXTRA:
        check_default(hw, workload)


@pytest.mark.parametrize("option", [0, 1, 2])
def test_weights_of_4_bits_give_the_same_programs(option):
    hw = TINY.with_(block_out=8, int4_weights=option)
    for workload in (dense("dense", 1, 300, 200), conv2d("3x3", 9, 12, 20, 3, 1, 1)):
        assert check_default(hw, replace(workload, weight_bits=4))


def check_default(hw: HwConfig, workload: Workload) -> bool:
    try:
        schedule = default_schedule(hw, workload)
    except ScheduleError:
        return False
    assert_equal(NativeLowering(hw, workload), schedule)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", named_configs())
def test_all_default_schedules_give_the_same_programs(name):
    hw = load_hwconfig(name)
    assert sum(check_default(hw, workload) for workload in LAYERS.values()) > 5


@pytest.mark.parametrize("number", sample(1, 6))
@pytest.mark.parametrize("name", often("real layers", named_configs(), 3))
def test_random_schedules_of_real_layers_give_the_same_verdicts_and_programs(name, number):
    rng, hw = generator(f"layers {name} {number}"), load_hwconfig(name)
    chosen = [LAYERS[key] for key in rng.choice(list(LAYERS), 6 if number == 0 else 20)]
    compared = sum(
        check_random(hw, workload, rng, 60, 1 if number == 0 else 3)
        for workload in (*chosen, *EXTRA)
    )
    assert compared > 0


@pytest.mark.parametrize("number", sample(4, 44))
def test_random_layers_on_any_configuration_give_the_same_verdicts_and_programs(number):
    rng = generator(f"any {number}")
    compared = 0
    for _ in range(15 if number < 4 else 60):
        hw = any_hwconfig(rng)
        compared += check_random(hw, any_workload(rng, hw), rng, 20, 2)
    assert compared > 0


def test_every_loop_order_fusion_and_threading_prefetches_alike():
    workload = replace(conv2d("w", 9, 16, 40, 3, 1, 1, residual=True), n=2)
    hw = TINY.with_(inp_bytes=65536, wgt_bytes=65536, param_bytes=4096, out_bytes=16384)
    native = NativeLowering(hw, workload)
    for order in LoopOrder:
        for fusion in Fusion:
            for threads in ((1, 1), (2, 1), (1, 2), (2, 2)):
                for tiles in ((4, 5, 2, 3), (2, 9, 1, 4), (9, 9, 4, 1)):
                    schedule = Schedule(
                        tile_h=tiles[0], tile_w=tiles[1], tile_ci=tiles[2], tile_co=tiles[3],
                        h_threading=threads[0], oc_threading=threads[1], loop_order=order,
                        fusion=fusion,
                    )  # fmt: skip
                    if legal(hw, workload, schedule).ok:
                        assert_equal(native, schedule)


@pytest.mark.parametrize("blocks", [(4, 16), (16, 4), (64, 4), (8, 8)])
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("fusion", list(Fusion))
def test_depthwise_is_the_same_for_every_ratio_of_blocks_and_tile(blocks, kernel, fusion):
    hw = TINY.with_(
        block_in=blocks[0], block_out=blocks[1], inp_bytes=65536, wgt_bytes=65536,
        acc_bytes=65536, out_bytes=65536, param_bytes=8192, vector_lanes=4,
    )  # fmt: skip
    workload = replace(depthwise("d", 5, 12 * blocks[1] - 1, kernel, kernel // 2, 1), n=2)
    native = NativeLowering(hw, workload)
    for tile_co in range(1, 13):
        for rows in (2, 5):
            schedule = Schedule(
                tile_h=rows, tile_w=5, tile_ci=1, tile_co=tile_co, fusion=fusion,
                loop_order=list(LoopOrder)[tile_co % 2], oc_threading=1 + rows % 2,
            )  # fmt: skip
            assert_equal(native, schedule)


ROOMY = TINY.with_(inp_bytes=1 << 20, acc_bytes=1 << 20, out_bytes=1 << 20)
PADDED = conv2d("w", 8, 4, 4, 1, 0, 1)
LIMITS = {
    "field_pad_rows": (ROOMY, lambda n: (replace(PADDED, pad_top=n), (n, 1, 1)), 63),
    "field_pad_columns": (ROOMY, lambda n: (replace(PADDED, pad_left=n), (1, n, 1)), 63),
    "field_pixels": (
        ROOMY, lambda n: (Workload(name="w", height=n, width=255, channels_in=4, channels_out=4),
                          (n, 255, 1)), 257,
    ),
    "uop_capacity": (
        ROOMY.with_(uop_bytes=1024), lambda n: (conv2d("w", 1, 4 * n, 4, 1, 0, 1), (1, 1, n)), 128,
    ),
}  # fmt: skip
"""Rule, configuration, layer and (tile_h, tile_w, tile_ci) of a number, the last legal number."""


@pytest.mark.parametrize("rule", list(LIMITS))
def test_the_last_legal_schedule_is_the_same_and_the_next_is_refused(rule):
    hw, case, limit = LIMITS[rule]
    for number in (limit, limit + 1):
        workload, (rows, columns, blocks) = case(number)
        schedule = Schedule(tile_h=rows, tile_w=columns, tile_ci=blocks, tile_co=1)
        verdict = legal(hw, workload, schedule).rule
        assert verdict == ("" if number == limit else rule)
        native = NativeLowering(hw, workload)
        assert VERDICTS[native.rules(encode_schedules([schedule]))[0]] == verdict
        if number == limit:
            assert_equal(native, schedule)


def test_tokens_that_others_imply_are_left_out_alike(monkeypatch):
    left_out = []

    def spy(self, *arguments):
        left_out.append(implied(self, *arguments))
        return left_out[-1]

    implied = ProgramBuilder._implied
    monkeypatch.setattr(ProgramBuilder, "_implied", spy)
    hw = TINY.with_(inp_bytes=65536, wgt_bytes=65536, param_bytes=4096, out_bytes=16384)
    schedule = Schedule(
        tile_h=3, tile_w=3, tile_ci=4, tile_co=10, h_threading=2,
        loop_order=LoopOrder.INPUT_STATIONARY,
    )  # fmt: skip
    workload = replace(conv2d("w", 9, 16, 40, 3, 1, 1, residual=True), n=2)
    assert_equal(NativeLowering(hw, workload), schedule)
    assert {*left_out} == {False, True}


def test_a_kernel_longer_than_a_load_is_the_same():
    hw = TINY.with_(
        inp_bytes=1 << 20, wgt_bytes=1 << 20, acc_bytes=1 << 20, out_bytes=65536, uop_bytes=1 << 20
    )
    workload = replace(conv2d("long", 8, 512, 32, 3, 1, 1), n=8)
    schedule = Schedule(tile_b=8, tile_h=8, tile_w=8, tile_ci=128, tile_co=8)
    native = NativeLowering(hw, workload)
    assert_equal(native, schedule)
    assert native.totals(encode_schedules([schedule]))[0, TOTALS.index("uop_count")] > 2**16


def test_one_object_gives_the_same_program_whatever_it_lowered_before():
    native = NativeLowering(TINY, WORKLOAD)
    first = native.lower(SCHEDULE)
    native.lower(replace(SCHEDULE, tile_h=1, tile_ci=1, h_threading=2))
    native.rules(encode_schedules([replace(SCHEDULE, tile_h=100)]))
    assert native.lower(SCHEDULE) == first == lower(TINY, WORKLOAD, SCHEDULE)


def test_totals_are_those_of_the_programs():
    schedules = [SCHEDULE, replace(SCHEDULE, tile_co=99), replace(SCHEDULE, oc_threading=2)]
    totals = NativeLowering(TINY, WORKLOAD).totals(encode_schedules(schedules))
    for schedule, row in zip(schedules, totals, strict=True):
        found = dict(zip(TOTALS, row.tolist(), strict=True))
        if schedule.tile_co == 99:
            assert found == {**dict.fromkeys(TOTALS, 0), "rule": VERDICTS.index("tile_co_extent")}
            continue
        layer = lower(TINY, WORKLOAD, schedule)
        assert found == {
            "rule": 0,
            "instruction_count": layer.program.instruction_count,
            "uop_count": len(layer.program.constants["uop"]) // 8,
            "macs_tiles": layer.macs_tiles,
            "bytes_read": layer.bytes_read,
            "bytes_written": layer.bytes_written,
        }


@pytest.mark.parametrize("clip", [(-128, 127), (0, 127), (-3, 6), (-128, -128)])
def test_clips_are_the_same(clip):
    assert_equal(NativeLowering(TINY, WORKLOAD, clip=clip), SCHEDULE)


# -- refusals ------------------------------------------------------------------------------------


def test_every_rule_of_the_host_has_a_case():
    assert {*VERDICTS[1:]} == {*CASES}


@pytest.mark.parametrize("rule", list(CASES))
def test_refuses_by_the_same_rule_with_the_same_text(rule):
    hw, workload, schedule = CASES[rule]
    native = NativeLowering(hw, workload)
    assert VERDICTS[native.rules(encode_schedules([schedule]))[0]] == rule
    with pytest.raises(ScheduleError) as mine:
        native.lower(schedule)
    with pytest.raises(ScheduleError) as theirs:
        lower(hw, workload, schedule)
    assert str(mine.value) == str(theirs.value)


def test_says_when_the_two_lowerings_disagree(monkeypatch):
    monkeypatch.setattr("tilewright.sim.twin.native_lowering.lower", lambda *_, **__: None)
    with pytest.raises(DeviceError, match="refuses what host lowering accepts") as error:
        NativeLowering(TINY, WORKLOAD).lower(replace(SCHEDULE, tile_h=9))
    assert error.value.value == "tile_h_extent"


def test_refuses_numbers_that_c_would_cut_off():
    with pytest.raises(ProgramError, match="31 bits"):
        encode_schedules([SCHEDULE, replace(SCHEDULE, tile_h=2**31)])
    huge = Workload(name="w", height=2**31, width=1, channels_in=4, channels_out=4)
    with pytest.raises(ProgramError, match="31 bits") as error:
        NativeLowering(TINY, huge)
    assert error.value.field == "height"


def test_refuses_a_clip_that_is_not_int8():
    with pytest.raises(ProgramError, match="clip bounds"):
        NativeLowering(TINY, WORKLOAD, clip=(5, 2))


@pytest.mark.parametrize("shape", [(9,), (2, 8), (1, 1, 9)])
def test_refuses_points_of_another_shape(shape):
    native = NativeLowering(TINY, WORKLOAD)
    with pytest.raises(ProgramError, match="shape"):
        native.rules(np.ones(shape, dtype=np.int32))


def test_nothing_to_lower_gives_nothing():
    native = NativeLowering(TINY, WORKLOAD)
    assert native.rules(encode_schedules([])).shape == (0,)
    assert native.totals(encode_schedules([])).shape == (0, len(TOTALS))


def test_a_closed_lowering_is_refused():
    native = NativeLowering(TINY, WORKLOAD)
    native.close()
    native.close()
    with pytest.raises(DeviceError, match="closed"):
        native.lower(SCHEDULE)


def test_a_schedule_survives_its_numbers():
    schedule = Schedule(
        tile_b=2, tile_h=3, tile_w=5, tile_ci=7, tile_co=1, h_threading=2,
        loop_order=LoopOrder.INPUT_STATIONARY, fusion=Fusion.BLOCK,
    )  # fmt: skip
    (numbers,) = encode_schedules([schedule]).tolist()
    named = dict(zip((name for name, _ in CSchedule._fields_), numbers, strict=True))
    assert decode_schedule(named) == schedule
