# SPDX-License-Identifier: Apache-2.0
"""No family of control paths may get slower than its record."""

import pytest

from tilewright.sim.synth.design import accelerator
from tilewright.sim.timing.estimate import FLOOR_NS, NOISE, estimate, slower, worst_by_family
from tilewright.sim.timing.record import CONTROL, control_config, recorded_control


@pytest.mark.parametrize(
    "name", [CONTROL[0], *(pytest.param(each, marks=pytest.mark.slow) for each in CONTROL[1:])]
)
def test_no_family_of_control_is_slower_than_recorded(name):
    found = worst_by_family(estimate(accelerator(control_config(name)), control_only=True))
    late = slower(found, recorded_control()[name])
    assert not late, (
        "paths got slower; shorten them, or record them with a reason "
        f"(tilewright synth-record timing --control): {'; '.join(late)}"
    )


def test_slower_and_new_families_are_told_faster_and_short_ones_are_not():
    recorded = {"a -> b": 8.0, "a -> c": 8.0, "a -> d": 8.0}
    found = {
        "a -> b": 8.0 * (1 + NOISE) + 0.01,
        "a -> c": 7.0,
        "b -> c": FLOOR_NS + 0.01,
        "c -> d": 7.0,
    }
    assert [line.partition(":")[0] for line in slower(found, recorded)] == ["a -> b", "c -> d"]
