# SPDX-License-Identifier: Apache-2.0
"""What is tuned of a model is what is compiled of it."""

import onnx
import pytest
from support.randomness import fresh_rng
from support.small_models import Model, imported

from tilewright.host.compiler.pipeline import compile_network
from tilewright.host.compiler.tasks import load_network, network_table
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig


def over_time(model: Model) -> str:
    """Convolutions over one axis and a dense layer."""
    y = model.add("Relu", model.add("Conv", model.input(1, 8, 12), model.weights(16, 8, 3)))
    y = model.add("Conv", y, model.weights(16, 1, 3), group=16, pads=[1, 1])
    y = model.add("Flatten", model.add("Sigmoid", y))
    return model.add("Gemm", y, model.weights(160, 5))


def channels_last(model: Model) -> str:
    """Dense layers of four axes behind a convolution."""
    y = model.add("Conv", model.input(1, 8, 4, 5), model.weights(16, 8, 1, 1))
    y = model.add("MatMul", model.add("Transpose", y, perm=[0, 2, 3, 1]), model.weights(16, 32))
    return model.add("MatMul", model.add("Erf", y), model.weights(32, 16))


@pytest.mark.parametrize("build", [over_time, channels_last])
def test_tune_and_compile_agree_on_the_layers_of_a_model(build, tmp_path) -> None:
    model = Model(fresh_rng())
    proto = model.proto(build(model))
    onnx.save(proto, tmp_path / "net.onnx")
    tuned = load_network(tmp_path / "net.onnx")
    network = compile_network(
        imported(proto), load_hwconfig("tiny-4x4"), load_board("pynq-z2"), offload_all=True
    ).network
    compiled = network_table(network)
    macs = sorted(w.macs for w in tuned.workloads for _ in range(w.count))
    assert sorted(w.macs for w in compiled.workloads for _ in range(w.count)) == macs
    assert len(macs) == 3
    kinds = {p.kind for p in network.placements if p.where == "cpu"}
    for table in (tuned, compiled):  # neither drops an operator in silence
        listed = {line.split(" x ", 1)[1].split(":", 1)[0] for line in table.cpu_operators}
        assert kinds - {"Reshape", "Transpose"} <= listed
