# SPDX-License-Identifier: Apache-2.0
"""What must be there before a network is read; found without loading anything heavy."""

from __future__ import annotations

from pathlib import Path

from tilewright.host.common.errors import ToolError
from tilewright.host.common.extras import EXTRAS, install_line
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.float_model import require_quantised


def require_packages() -> None:
    """Refuse to begin without the packages that networks need."""
    missing = EXTRAS["network"].missing("onnx_ir", "onnxruntime", "tvm")
    if missing:
        raise ToolError(
            f"networks need the packages {', '.join(missing)}",
            remedy=install_line("network"),
        )


def require_usable(path: Path, calibration: Calibration | None) -> None:
    """`require_packages`, and calibration data for a model that is float."""
    require_packages()
    if calibration is None:
        require_quantised(path)
