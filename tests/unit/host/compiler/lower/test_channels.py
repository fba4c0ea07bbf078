# SPDX-License-Identifier: Apache-2.0
"""Where channels lie: what has another name somewhere stays where it is."""

import numpy as np
from support.qgraph_floats import evaluate as evaluate_floats
from support.qgraphs import draw_channels
from support.randomness import fresh_rng

from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import (
    QConcat,
    QConv,
    QGraph,
    QReshape,
    QSelect,
    QTensor,
)
from tilewright.host.compiler.lower.region import lower_region
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

TINY = load_hwconfig("tiny-4x4")


def test_what_a_selection_of_all_channels_reshapes_is_not_moved_into_a_concatenation() -> None:
    rng = fresh_rng()
    shapes = {
        "x": (1, 4, 2, 2), "a": (1, 4, 2, 2), "b": (1, 4, 2, 2), "all": (1, 4, 2, 2),
        "line": (1, 4, 4, 1), "y": (1, 4, 4, 1), "joined": (1, 8, 2, 2), "z": (1, 4, 2, 2),
    }  # fmt: skip
    tensors = {name: QTensor(name=name, shape=shape, scale=0.05) for name, shape in shapes.items()}

    def dense(source: str, output: str) -> QConv:
        return QConv(
            name=output, inputs=(source,), output=output, bias=np.zeros(4),
            weights=rng.integers(-99, 99, (4, shapes[source][1], 1, 1)).astype(np.int8),
            weight_scales=np.full(4, 0.01),
        )  # fmt: skip

    graph = QGraph(
        name="g",
        tensors=tensors,
        operators=(
            dense("x", "a"),
            QSelect(name="all", inputs=("a",), output="all", channels=(0, 1, 2, 3)),
            QReshape(name="line", inputs=("all",), output="line"),
            dense("line", "y"),
            dense("x", "b"),
            QConcat(name="joined", inputs=("a", "b"), output="joined"),
            dense("joined", "z"),
        ),
        inputs=("x",),
        outputs=("y", "z"),
    )
    data = {"x": rng.integers(-128, 128, shapes["x"]).astype(np.int8)}
    layers = layer_graph(graph, TINY)
    expected = evaluate(layers, data)
    for name, real in zip(graph.outputs, evaluate_floats(graph, [data["x"]]), strict=True):
        assert np.abs(expected[name].astype(int) - real).max() <= 1
    program = lower_region(layers, TINY, lambda workload: default_schedule(TINY, workload))
    run = ReferenceDevice(TINY).run(program.program, program.image(data))
    for name, found in program.read_outputs(run.memory).items():
        assert np.array_equal(found, expected[name])


def test_copies_name_the_operator_that_they_are_made_for() -> None:
    copies = 0
    for _ in range(20):
        graph = fuse(draw_channels(fresh_rng(), 4)[0])
        layers = layer_graph(graph, TINY).layers
        names = {operator.name for operator in graph.operators}
        assert all(names.issuperset(layer.operators) for layer in layers)
        copies += sum(layer.name.startswith("concat") and "/" in layer.name for layer in layers)
    assert copies
