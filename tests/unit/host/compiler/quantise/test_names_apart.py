# SPDX-License-Identifier: Apache-2.0
"""Tensors that bear names which the quantiser gives keep their values."""

import numpy as np
import onnx
import pytest
from support.networks.qdq_runs import run_all
from support.networks.small_models import Model, imported, noise
from support.randomness import fresh_rng, generator, sample

from tilewright.host.compiler.pipeline import partition


def renamed(proto: onnx.ModelProto, old: str, new: str) -> None:
    for node in proto.graph.node:
        for names in (node.input, node.output):
            names[:] = [new if name == old else name for name in names]
    for tensor in proto.graph.initializer:
        tensor.name = new if tensor.name == old else tensor.name


@pytest.mark.parametrize(
    "end", ["_scale", "_zero_point", "_QuantizeLinear_Output", "_DequantizeLinear_Output_1"]
)
@pytest.mark.parametrize("constant", [True, False])
def test_a_tensor_may_be_called_like_one_of_the_quantiser(end, constant) -> None:
    model = Model(fresh_rng())
    layer = model.add("Conv", model.input(1, 8, 6, 6), model.weights(16, 8, 3, 3))
    least = model.constant(np.linspace(0, 1, 16, dtype=np.float32).reshape(16, 1, 1))
    y = model.add("Max", model.add("Sigmoid", layer), least)
    y = model.add("Conv", y, model.weights(4, 16, 1, 1))
    proto = model.proto(y)
    renamed(proto, least if constant else "sigmoid1", f"{layer}{end}")
    network = imported(proto)
    inputs = noise(network, np.random.default_rng(0))  # the calibration data
    exact, found = (run_all(each, inputs)[y] for each in (proto, network.qdq))
    assert np.abs(found - exact).max() < 0.05 * np.abs(exact).max()


@pytest.mark.parametrize("end", ["_scale", "_zero_point", "_quantized", "_QuantizeLinear_Input"])
def test_an_input_and_an_output_may_be_called_like_tensors_of_the_quantiser(end) -> None:
    model = Model(fresh_rng())
    x, gate = model.input(1, 8, 6, 6), model.input(1, 4, 1, 1, name=f"x{end}")
    layer = model.add("Conv", x, model.weights(4, 8, 1, 1))
    proto = model.proto(model.add("Mul", layer, gate), model.add("Relu", layer))
    proto.graph.output[0].name = f"{layer}{end}"
    renamed(proto, proto.graph.node[1].output[0], f"{layer}{end}")
    network = imported(proto)
    assert [argument.name for argument in network.inputs] == ["x", f"x{end}"]
    assert [a.name for a in network.outputs] == [each.name for each in proto.graph.output]
    inputs = noise(network, np.random.default_rng(0))  # the calibration data
    exact, found = (run_all(each, inputs) for each in (proto, network.qdq))
    for name in (argument.name for argument in network.outputs):
        assert np.abs(found[name] - exact[name]).max() < 0.05 * np.abs(exact[name]).max()


def test_a_node_may_be_called_like_a_conversion_of_the_quantiser() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 8, 6, 6)
    y = model.add("Conv", model.add("Softplus", x), model.weights(4, 8, 1, 1))
    y = model.add("Add", model.add("Conv", x, model.weights(4, 8, 1, 1)), y)
    proto = model.proto(y)
    proto.graph.node[0].name = f"{x}_QuantizeLinear"
    network = imported(proto)
    names = [node.name for node in network.qdq.graph.node]
    assert len(set(names)) == len(names)
    assert run_all(network.qdq, noise(network, np.random.default_rng(0)))


ENDS = (
    "_scale", "_zero_point", "_quantized", "_QuantizeLinear_Input", "_QuantizeLinear_Output",
    "_DequantizeLinear_Output", "_1", "_int8", "_folded", "_copy", "_inner", "_bias",
)  # fmt: skip
ODD = ("0", "main", "model_1", "inside_0", "a/b", "%s", "q\n", "\u4e00 \U0001f98a", "x" * 500, "lv")


@pytest.mark.parametrize("number", sample(4, 100))
def test_tensors_and_nodes_may_have_any_names(number) -> None:
    """Each name is one of the others with an end that the quantiser or the compiler gives."""
    rng = generator(f"odd names {number}")
    model = Model(rng)
    x = model.add("Conv", model.input(1, 4, 8, 8), model.weights(4, 4, 3, 3), model.weights(4))
    y = model.add("Mul", model.add("Sigmoid", x), x)
    y = model.add("Conv", model.add("Add", x, y), model.weights(4, 4, 1, 1))
    proto = model.proto(model.add("Softmax", model.add("Flatten", y)))
    tensors = [*proto.graph.input, *proto.graph.initializer]
    olds = [t.name for t in tensors] + [node.output[0] for node in proto.graph.node]
    names = [str(rng.choice(ODD))]
    while len(names) < len(olds):
        wanted = str(rng.choice(names))[:400] + str(rng.choice(ENDS))
        names += [] if wanted in names else [wanted]
    news = dict(zip(olds, rng.permutation(names).tolist(), strict=True))
    for node in proto.graph.node:
        for each in (node.input, node.output):
            each[:] = [news[name] for name in each]
        node.name = str(rng.choice([*names, ""]))
    for tensor in (*tensors, *proto.graph.output):
        tensor.name = news[tensor.name]
    parts = partition(imported(proto))
    assert parts.regions
