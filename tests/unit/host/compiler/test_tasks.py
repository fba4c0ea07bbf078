# SPDX-License-Identifier: Apache-2.0
"""The tasks of a model file: what the compiler finds in it for the accelerator."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from support.command_line import call
from support.randomness import fresh_rng, sample, where

import tilewright as tw
from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.tasks import load_network
from tilewright.host.machine.hwconfig import named_configs

TINY = "tiny-4x4"
ROOT = Path(__file__).parents[4]


def written(path, body, shape="float[1,4,8,8]"):
    """A model in ONNX's text syntax; weights ``w`` (4x4x3x3), bounds ``zero`` and ``six``."""
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g ({shape} x) => (float y) {{ {body} }}'
    )
    constants = {"w": fresh_rng().normal(size=(4, 4, 3, 3)), "zero": 0.0, "six": 6.0}
    for name, value in constants.items():
        tensor = numpy_helper.from_array(np.array(value, np.float32), name)
        model.graph.initializer.append(tensor)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, path)
    return path


CONFIGURATIONS = (TINY, "pynq-16x16", "zu-32x32", "batch2-8x16")
"""On the last one layers do not chain: the host moves what passes between them."""
TWICE = (
    "c = Conv <pads = [1, 1, 1, 1]> (x, w) r = Relu (c) d = Conv <pads = [1, 1, 1, 1]> (r, w) "
    "y = Relu (d)"
)
CONV = "c = Conv <pads = [1, 1, 1, 1]> (x, w) "


@pytest.mark.parametrize(
    ("body", "relu", "residual"),
    [
        ("y = Relu (c)", True, False),
        ("y = Clip (c, zero, six)", True, False),
        ("y = Add (c, x)", False, True),
        ("a = Add (x, c) y = Relu (a)", True, True),
        ("y = Identity (c)", False, False),
    ],
)
def test_a_task_has_the_epilogue_of_its_layer(tmp_path, body, relu, residual):
    path = written(tmp_path / "m.onnx", CONV + body)
    (task,) = load_network(path, hw=TINY).workloads
    assert (task.relu, task.residual, task.macs) == (relu, residual, 8 * 8 * 16 * 9)


def test_layers_are_the_same_for_every_configuration(tmp_path):
    """Of few channels, too, whose kernel columns only the host could unroll into channels."""
    path = written(tmp_path / "m.onnx", TWICE)
    tables = [load_network(path, hw=hw) for hw in CONFIGURATIONS]
    assert all(table.workloads == tables[0].workloads for table in tables)
    first, second = tables[0].workloads
    assert (first.chained, second.chained) == (False, True)
    assert first.macs == second.macs == 8 * 8 * 16 * 9


def test_what_tune_measures_of_a_layer_is_what_the_compiled_network_takes(tmp_path):
    """Alone and between others a layer has the same products, whatever the block."""
    path = written(tmp_path / "m.onnx", TWICE)
    for hw in CONFIGURATIONS:
        network = tw.compile(path, hw=hw, calibration=1, search=0, offload_all=True)
        layers = [layer for program in network.programs for layer in program.layers]
        for layer, task in zip(layers, load_network(path, hw=hw).workloads, strict=True):
            alone, named = (
                tw.lower(hw, what, layer.schedule) for what in (task, f"{path}:{task.name}")
            )
            assert layer.macs_tiles == alone.macs_tiles == named.macs_tiles


@pytest.mark.parametrize("number", sample(2, 40))
def test_drawn_chains_have_the_channels_of_the_model_on_any_configuration(tmp_path, number):
    """The reference is the draw itself: sizes that stay, so that no tap reads padding alone."""
    rng = fresh_rng()
    channels = [int(n) for n in rng.integers(1, 40, 5)]
    kernels = [int(k) for k in rng.choice([1, 3, 5, 7], 4)]
    body, before = "", "x"
    for n, kernel in enumerate(kernels):
        after = "y" if n == 3 else f"r{n}"
        body += f"c{n} = Conv <pads = {[kernel // 2] * 4}> ({before}, w{n}) {after} = Relu (c{n}) "
        before = after
    path = written(tmp_path / "m.onnx", body, f"float[1,{channels[0]},9,9]")
    model = onnx.load(path)
    for n, (inputs, outputs, kernel) in enumerate(
        zip(channels, channels[1:], kernels, strict=False)
    ):
        weights = rng.normal(size=(outputs, inputs, kernel, kernel)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weights, f"w{n}"))
    onnx.save(model, path)
    hw = str(rng.choice(named_configs()))
    network = tw.compile(path, hw=hw, calibration=1, search=0, offload_all=True)
    layers = [layer for program in network.programs for layer in program.layers]
    table = load_network(path, hw=hw)
    facts = where(hw=hw, channels=channels, kernels=kernels)
    products = [
        81 * a * b * k * k for a, b, k in zip(channels, channels[1:], kernels, strict=False)
    ]
    assert table.macs == sum(products), facts
    assert [layer.workload.macs for layer in layers] == products, facts
    alone = [tw.lower(hw, table[each.workload.name], each.schedule) for each in layers]
    assert [each.macs_tiles for each in alone] == [each.macs_tiles for each in layers], facts


def test_no_layer_takes_the_name_of_one_that_was_merged(tmp_path):
    """Two names that become one when odd characters go, and a third that is the next free one."""
    body = CONV + "r = Relu (c) d = Conv <pads = [1, 1, 1, 1]> (r, w) s = Relu (d) "
    body += "e = Conv <pads = [1, 1, 1, 1]> (s, w) t = Relu (e) y = Conv (t, w)"
    path = written(tmp_path / "m.onnx", body)
    model = onnx.load(path)
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    for node, name in zip(convolutions, ("first", "a.b", "a.b.2", "a/b"), strict=True):
        node.name = name
    onnx.save(model, path)
    table = load_network(path, hw=TINY)
    assert table["a.b"] is table["a.b.2"]
    assert len({each.name for each in table.workloads} - {"first", "a.b"}) == 1
    assert not {*table.same} & {each.name for each in table.workloads}


def test_a_layer_has_its_name_where_it_was_merged_into_an_equal_one(tmp_path):
    body = CONV + "r = Relu (c) d = Conv <pads = [1, 1, 1, 1]> (r, w) s = Relu (d) "
    path = written(tmp_path / "m.onnx", body + "e = Conv <pads = [1, 1, 1, 1]> (s, w) y = Relu (e)")
    table = load_network(path, hw=TINY)
    first, both = table.workloads
    assert (first.count, both.count) == (1, 2)
    (merged,) = set(table.same) - {first.name, both.name}
    assert table[merged] is both


def test_a_network_is_trusted_by_nothing_but_true(tmp_path):
    with pytest.raises(WorkloadError, match="trust_model: must be true or false"):
        load_network(tmp_path / "m.pt2", trust_model="no")


def test_an_open_batch_is_one(tmp_path):
    path = written(tmp_path / "m.onnx", CONV + "y = Relu (c)", "float[N,4,8,8]")
    assert load_network(path, hw=TINY).workloads[0].n == 1


def test_what_the_cpu_computes_is_told_with_its_work(tmp_path):
    path = written(
        tmp_path / "m.onnx", CONV + "r = Relu (c) p = MatMul (r, r) s = Sin (p) y = Neg (s)"
    )
    table = load_network(path, hw=TINY)
    assert any(line.startswith("1 x Sin: ") for line in table.cpu_operators)
    assert table.macs + table.cpu_macs >= 8 * 8 * 16 * 9


def test_a_model_without_a_layer_is_refused_with_what_it_has(tmp_path):
    path = written(tmp_path / "m.onnx", "y = Sin (x)")
    with pytest.raises(WorkloadError, match="must have an operator that the accelerator") as caught:
        load_network(path, hw=TINY)
    assert "Sin" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "squeezenet1_1"])
def test_the_tasks_of_a_networks_file_are_those_of_the_built_in_table(tmp_path, name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    import torch  # noqa: PLC0415  (seconds)
    from networks import NETWORKS, build  # noqa: PLC0415  (a folder of examples)

    which = {"squeezenet1_1": "squeezenet"}.get(name, name.replace("_", "-"))
    shape = NETWORKS[which].input_shape
    path = tmp_path / f"{name}.pt2"
    torch.export.save(torch.export.export(build(which).eval(), (torch.zeros(shape),)), path)
    found, table = load_network(path), load_network(name)
    convolutions = {w.key: w.count for w in found.workloads if w.kind.value != "depthwise"}
    expected = {w.key: w.count for w in table.workloads if w.kind.value != "depthwise"}
    assert convolutions == expected


@pytest.mark.parametrize("suffix", [".onnx", ".pt2", ".tflite", ".tw"])
def test_a_pipe_is_refused_at_once(tmp_path, suffix):
    """It would be waited for, or read for ever where it is a device."""
    pipe, device = tmp_path / f"pipe{suffix}", tmp_path / f"device{suffix}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(tw.TilewrightError, match="regular file") as caught:
            load_network(path)
        assert caught.value.field == str(path)


def test_what_a_command_cannot_say_of_a_model_is_said_to_compile(tmp_path):
    path = written(tmp_path / "m.onnx", CONV + "y = Relu (c)", "float[1,4,H,8]")
    with pytest.raises(WorkloadError, match=r"axis 2 is open.*name the \.tw file"):
        load_network(path, hw=TINY)


def test_a_network_without_a_layer_says_why(tmp_path):
    path = written(tmp_path / "m.onnx", "y = MatMul (x, long)", "float[1,200000]")
    model = onnx.load(path)
    weights = np.ones((200000, 1), np.float32)  # more products than 32 bits hold the sum of
    model.graph.initializer.append(numpy_helper.from_array(weights, "long"))
    onnx.save(model, path)
    with pytest.raises(WorkloadError, match="1 x MatMul: the accelerator cannot run it: a reduct"):
        load_network(path, hw=TINY)


def test_certify_reads_a_model_for_its_base(tmp_path, monkeypatch):
    """Joined tensors fill blocks, so what reads them has other channels for other bases."""
    body = CONV + "d = Conv <pads = [1, 1, 1, 1]> (c, w) j = Concat <axis = 1> (c, d) "
    path = written(tmp_path / "m.onnx", body + "y = Conv (j, wide)")
    model = onnx.load(path)
    weights = fresh_rng().normal(size=(4, 8, 1, 1)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "wide"))
    onnx.save(model, path)
    seen = []

    def certifier(tasks, **given):
        seen.append((given["base"].name, tasks))
        raise WorkloadError("seen")

    monkeypatch.setattr("tilewright.tuner.exhaustive.certify.Certifier", certifier)
    for base in (TINY, "pynq-16x16"):
        assert "seen" in call("certify", str(path), "--base", base).output
        assert seen[-1] == (base, load_network(path, hw=base).workloads)
    assert seen[0][1] != seen[1][1]
