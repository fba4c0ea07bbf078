# SPDX-License-Identifier: Apache-2.0
"""What the parts of a page are made of."""

from tilewright.tuner.report.drawing.page import document, figure, paragraph
from tilewright.tuner.report.drawing.scales import Axis
from tilewright.tuner.report.drawing.xy_chart import XYChart


def test_the_note_of_a_chart_stands_in_the_text_of_the_page_which_wraps_on_a_phone():
    axis = Axis(title="cycles", low=0, high=1)
    chart = XYChart(alt="a chart", x=axis, y=axis, series=[], note="up to 9,999 lie above")
    page = figure(chart, "race")
    before, drawing = page.split("<svg", 1)
    assert "up to 9,999 lie above" in before
    assert "up to 9,999" not in drawing


def test_no_text_brings_a_control_character_into_a_page():
    page = document("a\x1b[2J", paragraph("b\x9b31m\u202e"))
    assert "\\x1b[2J" in page
    assert not {"\x1b", "\x9b", "\u202e"} & set(page)
