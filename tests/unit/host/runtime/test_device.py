# SPDX-License-Identifier: Apache-2.0
"""The records that devices return."""

import pickle
from dataclasses import FrozenInstanceError

import pytest

from tilewright.host.machine.registers import COUNTERS
from tilewright.host.runtime.device import Counters

VALUES = {name: 3 * index for index, (name, _) in enumerate(COUNTERS)}


def test_counters_are_read_by_name_and_cycles_also_as_attribute():
    counters = Counters(values=VALUES)
    assert [counters[name] for name, _ in COUNTERS] == [3 * i for i in range(len(COUNTERS))]
    assert counters.cycles == counters["cycles"]


def test_an_unknown_counter_is_a_key_error():
    with pytest.raises(KeyError):
        Counters(values=VALUES)["no such counter"]


def test_counters_compare_by_value_and_survive_pickling():
    counters = Counters(values=VALUES)
    assert pickle.loads(pickle.dumps(counters)) == counters == Counters(values=dict(VALUES))
    assert counters != Counters(values=VALUES | {"cycles": -1})


def test_counters_cannot_be_replaced():
    with pytest.raises(FrozenInstanceError):
        Counters(values=VALUES).values = {}
