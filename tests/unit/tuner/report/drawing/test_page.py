# SPDX-License-Identifier: Apache-2.0
"""What the parts of a page are made of."""

from __future__ import annotations

from tilewright.tuner.report.drawing.page import figure
from tilewright.tuner.report.drawing.scales import Axis
from tilewright.tuner.report.drawing.xy_chart import XYChart


def test_the_note_of_a_chart_stands_in_the_text_of_the_page_which_wraps_on_a_phone():
    axis = Axis(title="cycles", low=0, high=1)
    chart = XYChart(alt="a chart", x=axis, y=axis, series=[], note="up to 9,999 lie above")
    page = figure(chart, "race")
    before, drawing = page.split("<svg", 1)
    assert "up to 9,999 lie above" in before
    assert "up to 9,999" not in drawing
