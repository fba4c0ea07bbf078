# SPDX-License-Identifier: Apache-2.0
"""Results show themselves in a line, as text, and in notebooks without what others put in."""

import pytest
from support.randomness import generator

from tilewright.host.common.summaries import Summarised


class Told(Summarised):
    def __init__(self, told):
        self.told = told

    def _told(self):
        return self.told


@pytest.mark.parametrize("number", range(5))
def test_a_result_is_short_however_much_it_holds(number):
    rng = generator(f"summaries {number}")
    names = [f"name {n}" for n in range(int(rng.integers(1, 40)))]
    result = Told({name: "<b>\x1b" * int(rng.integers(0, 500)) for name in names})
    assert len(repr(result)) <= 120
    assert "\x1b" not in repr(result) + result.summary() + result._repr_html_()
    assert len(result.summary().splitlines()) == len(names)
    assert "<b>" not in result._repr_html_()
    assert result._repr_html_().count("<tr>") == len(names)


def test_numbers_stand_with_their_names():
    assert repr(Told({"a": "x", "b": 3, "c": 4, "d": 5})) == "<Told x, b 3, c 4>"
