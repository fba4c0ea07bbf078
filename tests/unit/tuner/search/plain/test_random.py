# SPDX-License-Identifier: Apache-2.0
"""Random search ignores results."""

from tilewright.testing.tuner_contract import full_space
from tilewright.tuner.search import Result, make_tuner


def test_results_do_not_change_what_is_sampled() -> None:
    one, two = (make_tuner("random", full_space(), seed=3) for _ in range(2))
    first = one.ask(20)
    assert first == two.ask(20)
    one.tell([Result(index=c.index, value=1.0) for c in first])
    two.tell([Result(index=c.index, value=None) for c in first])
    assert one.ask(20) == two.ask(20)
