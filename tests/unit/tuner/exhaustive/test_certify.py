# SPDX-License-Identifier: Apache-2.0
"""A certified optimum is the one that brute force finds, and is withheld when time runs out."""

import functools
import itertools
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.host.machine.board import Board, load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.workload import conv2d
from tilewright.sim.twin.device import Twin
from tilewright.sim.twin.native_lowering import NativeLowering, Points
from tilewright.tuner.exhaustive.certify import Certificate, Certifier, Verdict, class_lines
from tilewright.tuner.exhaustive.options import CertifyOptions
from tilewright.tuner.schedule.network_prior import roomiest
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.shortlist import class_starts, largest_depths, timing_class
from tilewright.tuner.schedule.space_prior import schedule_points
from tilewright.tuner.schedule.spaces import HardwareSpace, ScheduleSpace
from tilewright.tuner.search.space import SpaceError

RULES = host_rules()
BASE = load_hwconfig("tiny-4x4").with_(
    name="base", inp_bytes=1024, wgt_bytes=1024, acc_bytes=1024, out_bytes=1024, res_bytes=1024,
    param_bytes=1024, uop_bytes=4096,
)  # fmt: skip
TASKS = (conv2d("A", 6, 8, 8, 3, 1, 1, count=2), conv2d("B", 6, 8, 16, 1, 0, 2))
BOARD: Board = replace(load_board("pynq-z2"), name="small", bram36=9, dsp=60, lut=20_000)
CHOICES = {"inp_bytes": (1024, 2048), "wgt_bytes": (1024, 2048, 4096), "acc_bytes": (1024, 4096)}


def small_starts(board: Board, base: HwConfig, rules) -> list[tuple[HardwareSpace, HwConfig]]:
    """Three classes with a few depths each."""
    starts = []
    for lanes, block_out in ((4, 4), (1, 4), (4, 8)):
        hw = base.with_(
            name=f"l{lanes}o{block_out}", vector_lanes=lanes, block_out=block_out, axi_data_bits=64
        )
        starts.append((HardwareSpace(board, hw, rules, CHOICES), hw))
    return starts


@pytest.fixture
def certifier(monkeypatch):
    monkeypatch.setattr("tilewright.tuner.exhaustive.certify.class_starts", small_starts)
    return lambda **given: Certifier(
        TASKS,
        board=BOARD,
        memory=BOARD.memory,
        base=BASE,
        rules=RULES,
        settings=CertifyOptions(workers=2, **given),
    )


@functools.cache
def brute_force() -> int:
    """Every configuration, every schedule, nothing left out."""
    best = None
    for space, _ in small_starts(BOARD, BASE, RULES):
        for index in space.enumerate():
            hw = space.decode(index)
            total = 0
            for task in TASKS:
                schedules = ScheduleSpace(task, hw, RULES, "vta")
                legal = list(schedules.enumerate())
                if not legal:
                    break
                batch = Twin(hw, BOARD.memory).batch(
                    NativeLowering(hw, task), _points(schedules, legal)
                )
                total += task.count * int(batch.cycles.min())
            else:
                best = total if best is None else min(best, total)
    assert best is not None
    return best


def _points(space: ScheduleSpace, indices: list[tuple[int, ...]]):
    return schedule_points(space.knobs, np.array(indices))


def cost(certificate: Certificate) -> int:
    """The certificate's schedules measured one by one on its configuration."""
    hw = certificate.hw
    assert hw is not None
    total = 0
    for task in TASKS:
        program = NativeLowering(hw, task).lower(certificate.schedules[task.name]).program
        total += task.count * Twin(hw, BOARD.memory).counters(program).cycles
    return total


def test_equals_brute_force_over_all_configurations_and_schedules(certifier) -> None:
    certificate = certifier().run()
    assert certificate.certified
    assert certificate.cycles == certificate.lower_bound == brute_force() == cost(certificate)
    assert certificate.hw is not None
    assert RULES.fits(certificate.hw, BOARD).ok


def test_a_limit_leaves_only_better_networks(certifier) -> None:
    optimum = brute_force()
    assert certifier(limit=optimum + 1).run().cycles == optimum
    none = certifier(limit=optimum).run()
    assert none.certified
    assert none.cycles is None
    assert none.lower_bound == optimum
    assert list(class_lines(none))[-1] == "no network below the limit"


def test_classes_whose_bound_cannot_win_are_not_enumerated(certifier) -> None:
    certificate = certifier(limit=brute_force() + 1).run()
    assert Verdict.PRUNED in {c.verdict for c in certificate.classes}
    for result in certificate.classes:
        assert (result.verdict is Verdict.PRUNED) == (result.schedules == 0)


def test_what_time_leaves_open_is_not_certified(certifier) -> None:
    certificate = certifier(seconds=0).run()
    assert not certificate.certified
    assert certificate.cycles is None
    assert certificate.lower_bound <= brute_force()
    assert {c.verdict for c in certificate.classes} == {Verdict.OPEN}


def test_a_board_that_nothing_fits_is_named() -> None:
    board = replace(BOARD, lut=100)
    certifier = Certifier(
        TASKS,
        board=board,
        memory=board.memory,
        base=BASE,
        rules=RULES,
        settings=CertifyOptions(),
    )
    with pytest.raises(SpaceError, match="no configuration fits"):
        certifier.run()


def test_a_task_that_runs_nowhere_is_told(certifier, monkeypatch) -> None:
    def illegal(lowering: NativeLowering, points: Points) -> npt.NDArray[np.int64]:
        del lowering
        return np.ones(len(points), dtype=np.int64)

    monkeypatch.setattr(NativeLowering, "rules", illegal)
    with pytest.raises(SpaceError, match="no configuration runs every task"):
        certifier().run()


def test_largest_depths_dominate_every_configuration_of_their_space() -> None:
    space, _ = small_starts(BOARD, BASE, RULES)[0]
    kept = largest_depths(space, RULES)
    names = list(CHOICES)
    for index in space.enumerate():
        hw = space.decode(index)
        assert any(all(getattr(hw, n) <= getattr(k, n) for n in names) for k in kept)
    for one, other in itertools.permutations(kept, 2):
        assert any(getattr(one, n) > getattr(other, n) for n in names)
    roomy = roomiest(kept)
    assert timing_class(roomy) == timing_class(kept[0])
    assert all(getattr(roomy, n) == max(getattr(k, n) for k in kept) for n in names)


def test_the_classes_of_a_board_differ_in_what_shapes_time() -> None:
    board, base = load_board("pynq-z2"), load_hwconfig("pynq-16x16")
    starts = class_starts(board, base, RULES)
    classes = [timing_class(hw) for _, hw in starts]
    assert len(set(classes)) == len(classes)
    assert timing_class(load_hwconfig("pynq-16x32")) in classes
    for space, hw in starts:
        assert RULES.fits(hw, board).ok
        assert space.valid(space.encode(hw))
