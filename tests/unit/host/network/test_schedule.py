# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.common.errors import ScheduleError
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule

TILES = ("tile_b", "tile_h", "tile_w", "tile_ci", "tile_co")
BASE = {"tile_h": 2, "tile_w": 3, "tile_ci": 4, "tile_co": 5}

schedules = st.builds(
    Schedule,
    **{name: st.integers(1, 1 << 20) for name in TILES},
    h_threading=st.sampled_from([1, 2]),
    oc_threading=st.sampled_from([1, 2]),
    loop_order=st.sampled_from(LoopOrder),
    fusion=st.sampled_from(Fusion),
)


@settings(deadline=None)
@given(schedules)
def test_mapping_round_trip_keeps_everything(schedule):
    data = schedule.to_mapping()
    assert Schedule.from_mapping(data) == schedule
    assert all(type(v) in (int, str) for v in data.values())


@settings(deadline=None)
@given(schedules, schedules)
def test_equal_schedules_are_one_dictionary_key(a, b):
    assert (a == b) == (len({a, b}) == 1) == (a.to_mapping() == b.to_mapping())


@pytest.mark.parametrize("field", ["h_threading", "oc_threading"])
@pytest.mark.parametrize("value", [0, 3, "1", None])
def test_threading_is_one_or_two(field, value):
    with pytest.raises(ScheduleError, match="1 or 2") as caught:
        Schedule(**BASE, **{field: value})
    assert (caught.value.field, caught.value.value) == (field, value)


def test_unknown_keys_are_named_with_the_known_ones():
    with pytest.raises(ScheduleError, match="tile_x") as caught:
        Schedule.from_mapping({**BASE, "tile_x": 1})
    assert "tile_w" in caught.value.remedy


@pytest.mark.parametrize("key", BASE)
def test_missing_tiles_are_refused(key):
    with pytest.raises(ScheduleError, match=key):
        Schedule.from_mapping({k: v for k, v in BASE.items() if k != key})
