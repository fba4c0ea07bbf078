# SPDX-License-Identifier: Apache-2.0
"""Runs a compiled network in this process: its regions on the accelerator's reference."""

from collections.abc import Mapping

import numpy as np

from tilewright.host.compiler.pipeline import Compilation
from tilewright.host.compiler.run.relax_host import HostModule, HostProgram
from tilewright.sim.reference.device import ReferenceDevice


def run_compiled(
    compilation: Compilation, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What a compiled network computes, by name."""
    network = compilation.network
    device = ReferenceDevice(network.hw)
    host = HostProgram(module=HostModule.from_json(network.host))
    return dict(host.run(inputs, lambda n, arrays: network.regions[n].run(device, arrays)[0]))
