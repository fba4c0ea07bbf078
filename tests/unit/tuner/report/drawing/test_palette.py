# SPDX-License-Identifier: Apache-2.0
"""Colours stay apart for the colour-blind, and text can be read, on light and on dark pages."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tilewright.tuner.report.drawing import marks
from tilewright.tuner.report.drawing.page import document, paragraph
from tilewright.tuner.report.drawing.scales import Axis, compact
from tilewright.tuner.report.figures import STATE_COLOURS

LEAST_DISTANCE = 18.0
"""In CIE Lab (1976), as each kind of vision sees two colours; 2.3 is just noticeable."""

# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision
# Deficiency", IEEE TVCG 15(6), 2009, table 1, severity 1.0: on linear RGB.
VISION = {
    "normal": np.eye(3),
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def linear(colour: str) -> np.ndarray:
    """Linear RGB of ``#rrggbb``."""
    channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE Lab of linear RGB under D65."""
    ratio = (TO_XYZ @ rgb) / (0.95047, 1.0, 1.08883)
    f = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def seen(colour: str, vision: str) -> np.ndarray:
    return lab(np.clip(np.array(VISION[vision]) @ linear(colour), 0, 1))


def contrast(one: str, other: str) -> float:
    """WCAG 2's contrast ratio."""
    lights = sorted(float(TO_XYZ[1] @ linear(colour)) for colour in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def test_the_distance_is_that_of_the_definition() -> None:
    assert lab(linear("#ffffff")) == pytest.approx([100, 0, 0], abs=0.02)
    assert lab(linear("#ff0000")) == pytest.approx([53.24, 80.09, 67.20], abs=0.02)
    red, green = seen("#2f7d4f", "deuteranopia"), seen("#d1495b", "deuteranopia")
    assert np.linalg.norm(red - green) < np.linalg.norm(seen("#2f7d4f", "normal") - green)


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("colours", [marks.LIGHT, marks.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("names", [(*marks.SERIES, "ink"), tuple(STATE_COLOURS.values())], ids=len)
def test_every_two_lines_and_every_two_states_stay_apart(colours, vision, names) -> None:
    assert len(set(names)) == len(names)
    for one, other in itertools.combinations(names, 2):
        distance = np.linalg.norm(seen(colours[one], vision) - seen(colours[other], vision))
        assert distance >= LEAST_DISTANCE, (one, other, distance)


@pytest.mark.parametrize("colours", [marks.LIGHT, marks.DARK], ids=["light", "dark"])
def test_text_and_marks_have_the_contrast_of_wcag_aa(colours) -> None:
    for page in ("paper", "panel"):
        for text in ("ink", "muted", "bad", "link"):
            assert contrast(colours[text], colours[page]) >= 4.5, (text, page)
    for mark in marks.SERIES:
        assert contrast(colours[mark], colours["paper"]) >= 3.0, mark


def test_dashes_tell_lines_of_one_colour_apart() -> None:
    count = len(marks.SERIES) * len(marks.DASHES)
    assert len({(marks.series_colour(n), marks.series_dash(n)) for n in range(count)}) == count


# -- what the parts of a page are made of ---------------------------------------------------------


def test_no_text_brings_a_control_character_into_a_page():
    page = document("a\x1b[2J", paragraph("b\x9b31m\u202e"))
    assert "\\x1b[2J" in page
    assert not {"\x1b", "\x9b", "\u202e"} & set(page)


# -- axes -----------------------------------------------------------------------------------------

ENDS = st.tuples(st.floats(1e-3, 1e9, allow_nan=False), st.floats(1.001, 1e6, allow_nan=False)).map(
    lambda pair: (pair[0], pair[0] * pair[1])
)


@given(ENDS, st.booleans(), st.integers(2, 10))
@example((631687.0, 400000632262.0), False, 2)
def test_ticks_lie_inside_and_their_labels_differ(ends, log, count) -> None:
    axis = Axis(title="t", low=ends[0], high=ends[1], log=log)
    labels = axis.labels(count)
    assert 2 - log <= len(labels) <= 3 * count
    assert all(axis.low - 1e-6 * axis.high <= tick <= axis.high * (1 + 1e-6) for tick, _ in labels)
    assert len({text for _, text in labels}) == len(labels)


@given(ENDS, st.booleans())
def test_an_axis_goes_from_end_to_end(ends, log) -> None:
    axis = Axis(title="t", low=ends[0], high=ends[1], log=log)
    assert axis.place(ends[0], 10, 90) == pytest.approx(10)
    assert axis.place(ends[1], 10, 90) == pytest.approx(90)


def test_numbers_are_short_and_exact_enough() -> None:
    assert compact(7_662_811, 100_000) == "7.7M"
    assert compact(4_000_000, 50_000) == "4.00M"
    assert compact(200_000, 200_000) == "200k"
    assert compact(0.985, 0.005) == "0.985"
    assert compact(0, 5) == "0"
