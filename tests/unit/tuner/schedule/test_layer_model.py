# SPDX-License-Identifier: Apache-2.0
"""Models of layers, and configurations that are worth measuring."""

from dataclasses import replace
from itertools import product, starmap

import numpy as np
import pytest
from support.randomness import often

from tilewright.host.lowering import legal
from tilewright.host.machine.board import load_board, load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.schedule import Fusion, Schedule
from tilewright.host.network.workload import Kind, Workload, conv2d
from tilewright.host.network.zoo import load_network
from tilewright.sim.twin.device import Twin
from tilewright.sim.twin.native_lowering import NativeLowering, encode_schedules
from tilewright.tuner.schedule import shortlist as module
from tilewright.tuner.schedule import spaces
from tilewright.tuner.schedule.layer_model import FEATURES, LayerModel
from tilewright.tuner.schedule.network_prior import NetworkPrior, network_prior
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.shortlist import (
    shortlist,
)
from tilewright.tuner.schedule.space_prior import JointPrior, SchedulePrior, schedule_points

RULES = host_rules()
HW = load_hwconfig("pynq-16x16")
DEEP = HW.with_(name="deep-32x16", block_in=32)
CONFIGS = (HW, DEEP, load_hwconfig("pynq-16x32"), load_hwconfig("edge-8x8"))
DEPTHWISE = Workload(
    name="D", kind=Kind.DEPTHWISE, height=14, width=14, channels_in=96, channels_out=96,
    kernel_h=3, kernel_w=3, pad_top=1, pad_bottom=1, pad_left=1, pad_right=1,
)  # fmt: skip
FOLDED = Workload(
    name="F", height=30, width=30, channels_in=3, channels_out=64, kernel_h=7, kernel_w=7,
    stride_h=2, stride_w=2, pad_top=3, pad_bottom=3, pad_left=3, pad_right=3,
)  # fmt: skip


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's coefficient, without ties."""
    ranks = [np.argsort(np.argsort(values)) for values in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def some(space: spaces.ScheduleSpace, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = {space.sample(rng) for _ in range(count)}
    return np.array(sorted(i for i in found if i is not None), dtype=np.int64)


RANKED = product(CONFIGS, ["ideal", "pynq-z2"], ["C3", "C7", "C10", DEPTHWISE, FOLDED])


@pytest.mark.parametrize(
    ("config", "memory", "layer"), often("ranked", starmap(pytest.param, RANKED), 6)
)
def test_ranks_schedules_as_the_twin_does(
    config: HwConfig, memory: str, layer: str | Workload
) -> None:
    network = load_network("vta-resnet18")
    task = layer if isinstance(layer, Workload) else network[layer]
    timing = load_memory(memory)
    space = spaces.ScheduleSpace(task, config, RULES, "full")
    points = schedule_points(space.knobs, some(space, 60, 3))
    cycles = Twin(config, timing).batch(NativeLowering(config, task), points).cycles
    predicted = LayerModel(config, task, timing).predict(points).cycles
    assert len(points) > 30
    assert (cycles > 0).all()
    assert rank_correlation(predicted, cycles) > (0.7 if task is DEPTHWISE else 0.85)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("memory", ["ideal", "pynq-z2"])
def test_follows_the_twin_where_tiles_cut_stored_blocks(memory: str, residual: bool) -> None:
    task = replace(conv2d("w", 28, 16, 128, 1, 0, 1), residual=residual)
    points = encode_schedules(
        Schedule(tile_h=4, tile_w=14, tile_ci=1, tile_co=tile_co, h_threading=2, fusion=fusion)
        for tile_co in range(1, 9)
        for fusion in Fusion
    )
    timing = load_memory(memory)
    cycles = Twin(DEEP, timing).batch(NativeLowering(DEEP, task), points).cycles
    predicted = LayerModel(DEEP, task, timing).predict(points).cycles
    assert cycles[0] > 1.1 * cycles[2], "tiles of one block of two write every pixel apart"
    assert ((predicted > 0.9 * cycles) & (predicted < 1.3 * cycles)).all()
    assert rank_correlation(predicted, cycles) > 0.85


def test_judges_legality_as_the_lowering_does() -> None:
    task = load_network("vta-resnet18")["C8"]
    space = spaces.ScheduleSpace(task, HW, RULES, "full")
    rng = np.random.default_rng(5)
    positions = np.stack([rng.integers(len(k), size=80) for k in space.knobs], axis=1)
    judged = SchedulePrior(HW, task, load_memory("ideal")).judge(
        space.knobs, positions, masked=True
    )
    expected = [legal(HW, task, space.decode(tuple(row))).ok for row in positions.tolist()]
    assert judged.legal.tolist() == expected
    assert 0 < sum(expected) < len(expected)
    assert (judged.cycles[judged.legal] > 0).all()
    assert judged.features.shape == (80, len(FEATURES))
    assert np.isfinite(judged.features).all()


def test_a_prior_without_a_mask_judges_what_does_not_fit_too() -> None:
    task = load_network("vta-resnet18")["C8"]
    space = spaces.ScheduleSpace(task, HW, RULES, "full")
    huge = np.array([[len(knob) - 1 for knob in space.knobs]])
    prior = SchedulePrior(HW, task, load_memory("ideal"))
    assert not prior.judge(space.knobs, huge, masked=True).legal.any()
    assert prior.judge(space.knobs, huge, masked=False).cycles[0] > 0


def test_the_joint_prior_is_the_schedule_prior_of_each_configuration() -> None:
    task, memory = load_network("vta-resnet18")["C7"], load_memory("pynq-z2")
    configs = [HW, load_hwconfig("pynq-16x32")]
    space = spaces.JointSpace(task, spaces.HardwareChoice(configs), RULES, "full")
    rng = np.random.default_rng(1)
    indices = [i for i in (space.sample(rng) for _ in range(150)) if i is not None]
    joint = JointPrior(configs, task, memory)
    judged = joint.judge(space.knobs, np.array(indices), masked=True)
    assert judged.legal.all()
    assert {index[0] for index in indices} == {0, 1}
    for index, cycles in zip(indices, judged.cycles, strict=True):
        point = space.decode(index)
        assert cycles == SchedulePrior(point.hw, task, memory)(point.schedule) == joint(point)


# -- predicted networks rank configurations, and short lists follow them --------------------------

BOARD = load_board("pynq-z2")
TASKS = tuple(load_network("vta-resnet18")[name] for name in ("C4", "C7", "C8"))


@pytest.fixture(scope="module")
def predict() -> NetworkPrior:
    return NetworkPrior(TASKS, BOARD.memory, RULES, "full")


def bound(hw: HwConfig) -> int:
    return sum(RULES.bound(hw, t, BOARD.memory).cycles * t.count for t in TASKS)


# -- Configurations that are worth measuring, each of them once
PYNQ, HOST_RULES = load_board("pynq-z2"), host_rules()
TINY = load_hwconfig("tiny-4x4")
PAIR = (conv2d("A", 6, 8, 8, 3, 1, 1, count=2), conv2d("B", 6, 8, 16, 1, 0, 2))


def bound_of_pair(hw: HwConfig) -> int:
    return sum(HOST_RULES.bound(hw, task, PYNQ.memory).cycles * task.count for task in PAIR)


def test_a_class_whose_first_depths_are_its_largest_is_listed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the objective area it was twice: its second trials ended the study."""
    only = TINY.with_(name="only", block_out=8)
    space = spaces.HardwareSpace(PYNQ, only, HOST_RULES, {"inp_bytes": (only.inp_bytes,)})
    monkeypatch.setattr(module, "class_starts", lambda *_: [(space, only)])
    found = shortlist(
        PYNQ, TINY, HOST_RULES, bound_of_pair, 9,
        predict=network_prior(PAIR, PYNQ.memory, HOST_RULES, "vta"),
        weight=lambda hw: 1.0 if hw == TINY else 0.5,
    )  # fmt: skip
    assert [hw.parameters() for hw in found] == [TINY.parameters(), only.parameters()]


def test_a_bitstream_of_the_base_under_another_name_is_the_base() -> None:
    built = (TINY.with_(name="mine"), TINY.with_(name="other", block_out=8))
    found = shortlist(PYNQ, TINY, HOST_RULES, bound_of_pair, 9, built=built)
    assert [hw.name for hw in found] == [TINY.name, "other"]
