# SPDX-License-Identifier: Apache-2.0
"""What Python's interface calls a parameter, the command line calls an option."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

from tilewright.host.common.errors import TilewrightError


def in_options(error: TilewrightError) -> TilewrightError:
    """An error whose remedy names options instead of parameters."""
    from tilewright.host.compiler.read.remedies import (
        CHOOSE_PERCENTILE,
        GIVE_CALIBRATION,
        GIVE_SHAPES,
    )

    remedy = {
        CHOOSE_PERCENTILE: "add --calibration-method percentile, or leave it out",
        GIVE_SHAPES: "give its sizes with --shape NAME=1,3,224,224",
        GIVE_CALIBRATION: "give --calibration with a folder of images, an .npy or .npz file, or "
        "--random-calibration 8 for cycle counts without meaningful outputs",
    }.get(error.remedy)
    if remedy is None:
        return error
    return type(error)(error.rule, field=error.field, value=error.value, remedy=remedy)
