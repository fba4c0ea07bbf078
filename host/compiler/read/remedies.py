# SPDX-License-Identifier: Apache-2.0
"""Remedies of the import as Python's interface words them; the command line names its options.

This module imports nothing: the command line reads it before anything heavy is loaded.
"""

from __future__ import annotations

from typing import Final

GIVE_SHAPES: Final = "give its sizes in input_shapes"
GIVE_CALIBRATION: Final = (
    "give calibration: a folder of images, an .npy or .npz file or arrays, or a number of random "
    "inputs for cycle counts without meaningful outputs"
)
CHOOSE_PERCENTILE: Final = "choose that calibration_method, or leave percentile out"
