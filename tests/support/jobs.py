# SPDX-License-Identifier: Apache-2.0
"""Jobs that worker processes can import by name."""

from __future__ import annotations

from tilewright.host.hwconfig import HwConfig


def refuse_other(hw: HwConfig) -> str:
    """A build job that fails for every configuration labelled ``other``."""
    return "made to fail" if hw.name == "other" else ""
