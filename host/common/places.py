# SPDX-License-Identifier: Apache-2.0
"""Where files that are no Python lie, in a clone as in an installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
"""The folder that holds rtl, host, sim and constraints: the repository, or the package."""

RTL_DIR: Final = ROOT / "rtl"
HOST_DIR: Final = ROOT / "host"
SIM_DIR: Final = ROOT / "sim"
CONSTRAINTS_DIR: Final = ROOT / "constraints"
