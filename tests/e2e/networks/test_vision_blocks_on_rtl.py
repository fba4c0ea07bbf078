# SPDX-License-Identifier: Apache-2.0
"""Small networks of the forms of ConvNeXt and Swin on RTL and `dpi`: one region, the same bits."""

from functools import partial

import numpy as np
import pytest
from support.networks.fidelities import every_fidelity_agrees
from support.networks.vision_models import convnext, swin
from support.randomness import often

from tilewright.host.machine.hwconfig import load_hwconfig


@pytest.mark.parametrize(
    ("make", "block_in"),
    often(
        "vision",
        [
            pytest.param(convnext, 4),
            pytest.param(swin, 4),
            pytest.param(partial(swin, width=16), 8, id="windows at beats of the bus"),
        ],
        1,
    ),
)
def test_every_fidelity_computes_a_network_alike(make, block_in: int) -> None:
    hw = load_hwconfig("tiny-4x4").with_(row_unit=1, block_in=block_in)
    network = every_fidelity_agrees(make(np.random.default_rng(3)), hw, (1, 3, 12, 12))
    assert {placed.where for placed in network.placements} == {"accelerator"}
