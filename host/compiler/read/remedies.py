# SPDX-License-Identifier: Apache-2.0
"""Remedies of the import as Python's interface words them; the command line names its options.

This module imports nothing: the command line reads it before anything heavy is loaded.
"""

from __future__ import annotations

from typing import Final

GIVE_SHAPES: Final = "give its sizes in input_shapes"
GIVE_ARRAYS: Final = "give arrays"
GIVE_CALIBRATION: Final = (
    "give calibration: a folder of images, an .npy or .npz file or arrays, or a number of random "
    "inputs for cycle counts without meaningful outputs"
)
TRUST: Final = (
    "write it with torch.export.save of PyTorch 2.9 or newer, or give --trust-model "
    "(ImportOptions.trust_model) if you trust whoever made it"
)
COMPILE_FIRST: Final = "compile it with what it needs, and name the .tw file here"
"""Where a command only reads layers."""
CHOOSE_PERCENTILE: Final = "choose that calibration_method, or leave percentile out"
