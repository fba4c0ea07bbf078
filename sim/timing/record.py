# SPDX-License-Identifier: Apache-2.0
"""The recorded estimates: named configurations, and the families of control that may not slow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import yaml

from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.machine.clock import ESTIMATES_FILE, ClockEstimate
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.sim.synth.design import accelerator
from tilewright.sim.timing.estimate import estimate, worst_by_family

CONTROL: Final = ("tiny-4x4", "pynq-16x16-rows")
"""Configurations whose control is watched, with one lane each."""

_HEADER: Final = (
    "# Static estimates by `tilewright synth-record timing`: ns of the slowest path, xc7 cells.\n"
    "# `control`: families of paths of control-only netlists, which a test holds to their record.\n"
)


def control_config(name: str) -> HwConfig:
    """A configuration for the ratchet: one lane, so that its netlist is there in seconds."""
    return load_hwconfig(name).with_(vector_lanes=1)


def recorded_control(path: Path = ESTIMATES_FILE) -> dict[str, dict[str, float]]:
    """Recorded families of paths by configuration, in ns with short wires."""
    found: dict[str, dict[str, float]] = read_yaml_mapping(path, "estimates of clocks")["control"]
    return found


def record(
    names: Sequence[str],
    *,
    control: bool,
    note: Callable[[str], object],
    path: Path = ESTIMATES_FILE,
) -> None:
    """Estimate configurations and add or replace their rows; ``control`` renews the ratchet."""
    document: dict[str, Any] = read_yaml_mapping(path, "estimates of clocks")
    for name in names:
        hw = load_hwconfig(name)
        found = estimate(accelerator(hw))
        row = ClockEstimate(
            config=hw.name,
            config_hash=hw.config_hash,
            part=found.part,
            rtl=found.rtl,
            tool=found.tool,
            cells_ns=found.cells_ns,
            short_ns=found.short_ns,
            long_ns=found.long_ns,
        )
        others = [each for each in document["configurations"] if each["config"] != hw.name]
        document["configurations"] = [*others, asdict(row)]
        note(f"{hw.name}: {row}")
        _write(document, path)
    if control:
        for name in CONTROL:
            found = estimate(accelerator(control_config(name)), control_only=True)
            document["control"][name] = worst_by_family(found)
            note(f"{name}, control alone: {found.short_ns:.2f} ns")
        _write(document, path)


def _write(document: dict[str, Any], path: Path) -> None:
    text = _HEADER + yaml.safe_dump(document, sort_keys=False)
    path.write_text(text, encoding="utf-8")
