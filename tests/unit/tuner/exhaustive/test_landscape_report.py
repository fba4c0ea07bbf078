# SPDX-License-Identifier: Apache-2.0
"""The table of exhausted layers shows names as they are."""

from __future__ import annotations

import io
from dataclasses import replace

from tilewright.cli.console import PrintableConsole
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import conv2d
from tilewright.tuner.exhaustive.landscape_report import print_landscapes

NAME, SHOWN = "[/x]\x1b[2J[red]y", r"[/x]\x1b[2J[red]y"
LAYER = "[red]layer"


def test_names_are_neither_markup_nor_control_characters(tmp_path):
    output = io.StringIO()
    (landscape,) = print_landscapes(
        replace(load_hwconfig("tiny-4x4"), name=NAME),
        [conv2d(LAYER, 4, 4, 4, 3, 1, 1)],
        replace(load_memory("ideal"), name=NAME),
        kind="vta",
        confirm=0,
        confirm_cycles=1,
        seed=0,
        workers=1,
        folder=tmp_path,
        console=PrintableConsole(file=output, width=200),
    )
    text = output.getvalue()
    assert f"{SHOWN}, memory {SHOWN}, space vta" in text
    assert f"{LAYER}: {landscape.best[1]:,} cycles" in text
    row = next(line for line in text.splitlines() if LAYER in line and "0 equal" in line)
    assert f"{landscape.best[1]:,}" in row
