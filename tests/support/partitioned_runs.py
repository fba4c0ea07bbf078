# SPDX-License-Identifier: Apache-2.0
"""A divided model, run as one: its regions in floats, the rest on the CPU."""

import numpy as np
from support.qdq_runs import run_all
from support.qgraph_floats import FloatRegions
from support.small_models import TIES, assert_regions_agree, noise

from tilewright.host.compiler.pipeline import ImportedNetwork, PartitionedNetwork
from tilewright.host.compiler.run.relax_host import HostProgram


def assert_same_outputs(network: ImportedNetwork, parts: PartitionedNetwork) -> None:
    """Region by region and as a whole, but for what the ties of a few elements change."""
    inputs = noise(network, np.random.default_rng(1))
    assert_regions_agree(network, parts, inputs)
    found = HostProgram(module=parts.host).run(inputs, FloatRegions(parts.regions))
    tensors = run_all(network.qdq, inputs)
    for name in (argument.name for argument in network.outputs):
        expected = tensors[name]
        assert found[name].shape == expected.shape
        difference = np.abs(found[name] - expected)
        assert (difference > 1e-5).sum() <= max(TIES, 0.02 * difference.size)
        assert difference.max() <= 0.1 * np.abs(expected).max() + 1e-5
