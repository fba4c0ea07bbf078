# SPDX-License-Identifier: Apache-2.0
"""Manifests of bitstreams that nobody built."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig


def write_manifest(path: Path, config: HwConfig, /, **changes: Any) -> Path:
    """A manifest for pynq-z2, but for what is changed; None leaves a key out."""
    values = {
        "bitstream": 1,
        "board": "pynq-z2",
        "part": load_board("pynq-z2").part,
        "config_hash": config.config_hash,
        "hw": asdict(config),
        "clock_mhz": 100,
        "timing": {"setup_slack_ns": 0.1, "hold_slack_ns": 0.01, "limit_mhz": 101.0},
        "utilisation": {"lut": 1, "ff": 2, "bram36": 3.5, "dsp": 4},
        "strategy": "Explore",
        "preset": 0,
        "vivado": "2024.1",
        "files": {},
    } | changes
    kept = {name: value for name, value in values.items() if value is not None}
    path.write_text(yaml.safe_dump(kept), encoding="utf-8")
    return path
