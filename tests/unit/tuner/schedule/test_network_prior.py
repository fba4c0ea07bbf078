# SPDX-License-Identifier: Apache-2.0
"""Predicted networks rank configurations, and short lists follow them."""

import math

import pytest

from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.zoo import load_network
from tilewright.tuner.schedule.network_prior import NetworkPrior, network_prior
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.shortlist import (
    class_starts,
    largest_depths,
    shortlist,
    timing_class,
)
from tilewright.tuner.schedule.spaces import HardwareSpace

RULES = host_rules()
BOARD = load_board("pynq-z2")
BASE = load_hwconfig("pynq-16x16")
TASKS = tuple(load_network("vta-resnet18")[name] for name in ("C4", "C7", "C8"))


@pytest.fixture(scope="module")
def predict() -> NetworkPrior:
    return NetworkPrior(TASKS, BOARD.memory, RULES, "full")


def bound(hw: HwConfig) -> int:
    return sum(RULES.bound(hw, t, BOARD.memory).cycles * t.count for t in TASKS)


def test_predicts_no_less_than_the_products_and_not_much_more(predict) -> None:
    for name in ("pynq-16x16", "edge-8x8", "wide-8x32"):
        hw = load_hwconfig(name)
        assert bound(hw) < predict(hw) < 1.2 * bound(hw)


def test_a_network_that_does_not_run_is_infinite(predict) -> None:
    tiny = BASE.with_(name="tiny", param_bytes=1024, acc_bytes=2048, wgt_bytes=1024)
    assert math.isinf(predict(tiny))


def test_tasks_are_weighted_by_their_counts() -> None:
    once = NetworkPrior(TASKS[:1], BOARD.memory, RULES, "full")(BASE)
    both = NetworkPrior(
        (TASKS[0], TASKS[0].renamed("twice", count=2)), BOARD.memory, RULES, "full"
    )(BASE)
    assert both == pytest.approx(3 * once)


def test_without_a_prior_of_schedules_there_is_none() -> None:
    from tilewright.testing.analytic import RULES as ANALYTIC  # noqa: PLC0415  (beside its only use)

    assert network_prior(TASKS, BOARD.memory, ANALYTIC, "full") is None


def test_the_short_list_is_ordered_by_prediction_and_fits(predict) -> None:
    found = shortlist(BOARD, BASE, RULES, bound, 4, predict=predict)
    assert found[0] is BASE
    assert len(found) > 1
    predicted = [predict(hw) for hw in found[1:]]
    assert predicted == sorted(predicted)
    assert predicted[0] < predict(BASE)
    assert all(RULES.fits(hw, BOARD).ok for hw in found)
    assert len({hw.config_hash for hw in found}) == len(found)
    assert timing_class(found[1]) == timing_class(load_hwconfig("pynq-16x32"))


def test_arrays_that_read_weights_with_4_bits_are_a_class_of_their_own() -> None:
    assert len({timing_class(BASE.with_(int4_weights=option)) for option in (0, 1, 2)}) == 3
    assert timing_class(BASE.with_(wgt_bytes=2 * BASE.wgt_bytes)) == timing_class(BASE)


def test_depths_of_a_class_are_predicted_together_as_one_by_one(predict) -> None:
    start = load_hwconfig("pynq-16x32")
    choices = {
        name: tuple(sorted({getattr(start, name) * s // 4 for s in (2, 4, 8)}))
        for name in ("inp_bytes", "wgt_bytes", "acc_bytes", "param_bytes")
    }
    depths = largest_depths(HardwareSpace(BOARD, start, RULES, choices), RULES)
    together = predict.of_depths(depths)
    alone = [NetworkPrior(TASKS, BOARD.memory, RULES, "full")(hw) for hw in depths]
    assert together == alone
    assert len(set(together)) > 1, "depths decide what is legal"


def test_the_short_list_takes_the_best_depths_of_the_best_class(predict) -> None:
    found = shortlist(BOARD, BASE, RULES, bound, 2, predict=predict)[1]
    start = next(s for s, hw in class_starts(BOARD, BASE, RULES)
                 if timing_class(hw) == timing_class(found))  # fmt: skip
    assert predict(found) == min(map(predict, largest_depths(start, RULES)))
