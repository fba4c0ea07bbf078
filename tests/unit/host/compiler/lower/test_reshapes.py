# SPDX-License-Identifier: Apache-2.0
"""Changes of shape inside a region: other names for bytes that are already there."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.qgraphs import GraphMaker, evaluate_real
from support.randomness import fresh_rng

from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.lower_executable import make_executable
from tilewright.host.compiler.lower.qgraph import QGraph, QReshape, Shape
from tilewright.host.compiler.pack.artefact import CompiledNetwork, load, save
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

CHAINED = load_hwconfig("tiny-4x4")
ALONE = CHAINED.with_(name="each layer alone", batch=2, block_in=8)


class Maker(GraphMaker):
    """With changes of shape that leave channels as they are."""

    def reshape(self, source: str, rows: int, columns: int) -> str:
        name, output = self._names("reshape")
        shape: Shape = (*self.shape(source)[:2], rows, columns)
        self.tensors[output] = replace(self.tensors[source], name=output, shape=shape)
        self.values[output] = self.values[source].reshape(shape)
        return self._append(QReshape(name=name, inputs=(source,), output=output), shape)


def saved_and_loaded(graph: QGraph, hw: HwConfig, folder: Path) -> CompiledNetwork:
    layers = layer_graph(fuse(graph), hw)
    region = make_executable(graph, layers, hw, lambda workload: default_schedule(hw, workload))
    network = CompiledNetwork(
        name="n", hw=hw, host="{}", regions=(region,), inputs=(), outputs=(), placements=()
    )
    save(network, folder / "n.tw")
    return load(folder / "n.tw")


@pytest.mark.parametrize("hw", [CHAINED, ALONE], ids=lambda hw: hw.name)
@pytest.mark.parametrize("inner_leaves", [False, True])
def test_a_result_that_is_another_tensors_bytes_is_saved_and_loaded(
    hw: HwConfig, inner_leaves: bool, tmp_path: Path
) -> None:
    maker = Maker(fresh_rng(), (1, 5, 4, 4))
    inner = maker.conv("x0", 6, 1)
    last = maker.reshape(maker.reshape(inner, 2, 8), 16, 1)
    graph = maker.graph(*([inner] if inner_leaves else []), last)
    expected = evaluate(layer_graph(fuse(graph), hw), maker.arguments())
    region = saved_and_loaded(graph, hw, tmp_path).regions[0]
    found, _ = region.run(ReferenceDevice(hw), [maker.values["x0"]])
    assert len(found) == len(graph.outputs)
    for name, result in zip(graph.outputs, found, strict=True):
        assert np.array_equal(result, expected[name])


@pytest.mark.parametrize("hw", [CHAINED, ALONE], ids=lambda hw: hw.name)
def test_shapes_of_an_input_that_follow_each_other_are_read(hw: HwConfig, tmp_path: Path) -> None:
    maker = Maker(fresh_rng(), (1, 5, 4, 4))
    graph = maker.graph(maker.conv(maker.reshape(maker.reshape("x0", 8, 2), 16, 1), 6, 1))
    (name,) = graph.outputs
    expected = evaluate(layer_graph(fuse(graph), hw), maker.arguments())[name]
    real = evaluate_real(graph, maker.arguments())[name]
    assert np.abs(expected.astype(int) - real).max() <= 1
    region = saved_and_loaded(graph, hw, tmp_path).regions[0]
    (found,), _ = region.run(ReferenceDevice(hw), [maker.values["x0"]])
    assert np.array_equal(found, expected)
