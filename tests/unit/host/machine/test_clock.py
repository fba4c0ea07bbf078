# SPDX-License-Identifier: Apache-2.0
import pytest

from tilewright.host.machine.clock import (
    clock_estimates,
    clock_text,
)
from tilewright.host.machine.hwconfig import load_hwconfig

PART = "xc7z020clg400-1"
EDGE = load_hwconfig("edge-8x8").config_hash


@pytest.mark.parametrize("row", clock_estimates(), ids=lambda row: row.config)
def test_recorded_estimates_are_those_of_configurations_that_ship(row):
    assert load_hwconfig(row.config).config_hash == row.config_hash
    assert row.cells_ns <= row.short_ns <= row.long_ns


@pytest.mark.parametrize(
    ("part", "config_hash", "known"),
    [
        (PART, EDGE ^ 1, "static estimates of others on this part: "),
        (PART, None, "static estimates of others on this part: "),
        ("xc7z020clg400-2", EDGE, "no estimate for this part"),
        ("xc7z010clg400-1", EDGE, "no estimate for this part"),
    ],
)
def test_an_estimate_of_another_configuration_part_or_grade_is_not_its_own(
    part, config_hash, known
):
    assert clock_text(part, 100, {}, config_hash).startswith(f"a planned 100 MHz ({known}")
