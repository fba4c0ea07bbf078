# SPDX-License-Identifier: Apache-2.0
"""A small detector like YOLOv8 on RTL and `dpi`: one region, the same bits."""

from __future__ import annotations

import numpy as np
from support.detector_models import detector
from support.fidelities import every_fidelity_agrees

from tilewright.host.machine.hwconfig import load_hwconfig


def test_every_fidelity_computes_a_detector_alike() -> None:
    hw = load_hwconfig("tiny-4x4").with_(row_unit=1, activation_table=1)
    every_fidelity_agrees(detector(np.random.default_rng(3)), hw, (1, 3, 8, 8))
