# SPDX-License-Identifier: Apache-2.0
import pytest

from tilewright.host.machine.bitstream import REACHED
from tilewright.host.machine.clock import (
    ClockEstimate,
    clock_estimates,
    clock_text,
)
from tilewright.host.machine.hwconfig import load_hwconfig

PART = "xc7z020clg400-1"
EDGE = load_hwconfig("edge-8x8").config_hash


def estimated() -> ClockEstimate:
    return next(row for row in clock_estimates() if row.config == "edge-8x8")


@pytest.mark.parametrize("row", clock_estimates(), ids=lambda row: row.config)
def test_recorded_estimates_are_those_of_configurations_that_ship(row):
    assert load_hwconfig(row.config).config_hash == row.config_hash
    assert row.cells_ns <= row.short_ns <= row.long_ns


def test_a_clock_is_told_with_the_estimate_of_its_configuration():
    between = round(sum(estimated().mhz) / 2)
    text = clock_text(PART, between, {}, EDGE)
    assert text == (
        f"a planned {between} MHz (static estimate of this configuration: {estimated()})"
    )
    assert clock_text(PART, 25, {}, EDGE).startswith("an estimated 25 MHz (")
    assert clock_text(PART, 100, {"clock_mhz": f"{REACHED} a"}, EDGE) == (
        "100 MHz, reached by a bitstream"
    )


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
