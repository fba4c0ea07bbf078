# SPDX-License-Identifier: Apache-2.0
"""A tuner declares what it takes, and a study hands it that and nothing else."""

import inspect

import pytest

from tilewright.testing.analytic import BASE, RULES, TASKS
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search import TUNERS, Offer, Tuner, TunerError, make_tuner


@pytest.mark.parametrize("name", [name for name, entry in TUNERS.items() if not entry.source])
def test_the_entry_says_what_the_class_takes_and_its_constructor_has_it(name: str) -> None:
    kind = TUNERS.load(name)
    assert TUNERS[name].takes == kind.takes
    arguments = {
        argument
        for base in kind.__mro__
        if "__init__" in vars(base)
        for argument in inspect.signature(base.__init__).parameters
    }
    assert {str(offer) for offer in kind.takes} <= arguments
    assert arguments & set(Offer) == kind.takes, "what it could take, it declares"
    for changes in kind.ablations.values():
        assert set(changes) <= arguments
        make_tuner(name, ScheduleSpace(TASKS[0], BASE, RULES, "vta"), seed=0)


def test_a_class_that_takes_what_no_study_has_is_refused_where_it_is_written() -> None:
    with pytest.raises(TunerError, match="must be some of prior, pool, experience"):

        class Wishful(Tuner[object]):
            takes = frozenset({"optimum"})
