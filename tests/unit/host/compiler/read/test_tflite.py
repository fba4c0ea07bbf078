# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite files: results beside LiteRT's and plain arithmetic, layouts, hostile files."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.networks import litert_outputs
from support.networks.litert_outputs import RECORDED, outputs_on_record, recorded_member
from support.networks.onnx_results import results
from support.networks.tflite_arithmetic import KINDS, Evaluation
from support.networks.tflite_blocks import BLOCKS, block
from support.networks.tflite_files import TfliteFile
from support.networks.tflite_members import NAMES, SAME, Draw, Member, drawn, layer
from support.randomness import fresh_rng, sample

from tilewright.host.common.errors import TilewrightError, WorkloadError
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.read.model_file import normalised
from tilewright.host.compiler.read.tflite.file import parse_tflite, says_quantised
from tilewright.host.compiler.read.tflite.model import read_tflite, tflite_to_onnx
from tilewright.host.compiler.read.tflite.operators import CONVERSIONS
from tilewright.host.compiler.run.runtime import open_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

HERE = Path("m.tflite")
COMPARED = [name for name in NAMES if name.partition("-")[0] in ("conv", "grouped", "depthwise")]
COMPARED += ["dense-int8", "average-pool-int8", "max-pool-int8", "mean-int8", "sum-int8"]
COMPARED += ["add-int8", "sub-int8", "mul-int8", "softmax-int8", "network"]


def converted(file: bytes, **shapes) -> onnx.ModelProto:
    model = tflite_to_onnx(parse_tflite(file, HERE), shapes, HERE)
    onnx.checker.check_model(model)
    return model


def run(model: onnx.ModelProto, *inputs: np.ndarray) -> list[np.ndarray]:
    names = [value.name for value in model.graph.input]
    return results(model, dict(zip(names, inputs, strict=True)))


def require_close(member: Member, found, wanted, name: str = "") -> None:
    for own, theirs in zip(found, wanted, strict=True):
        assert (own.shape, own.dtype) == (theirs.shape, theirs.dtype)
        if own.dtype == np.float32:
            np.testing.assert_allclose(own, theirs, rtol=2e-5, atol=2e-5)
        else:
            gap = np.abs(own.astype(int) - theirs.astype(int)).max()
            assert gap <= member.steps, f"{gap} steps of {name}"


def test_every_operator_that_is_read_has_a_member() -> None:
    kinds = {
        operation.kind
        for name in NAMES
        for operation in parse_tflite(recorded_member(name).file, HERE).operations
    }
    alike = {"ARG_MIN", "CEIL", "COS", "FLOOR", "LOG", "SIN", "POW", "BROADCAST_TO"}
    assert set(CONVERSIONS) - alike - {"FILL", "SHAPE", "RELU_0_TO_1"} <= kinds


def test_each_operator_gives_what_litert_gives() -> None:
    """Its outputs are on record (`support.networks.litert_outputs`)."""
    found = dict(outputs_on_record())
    assert list(found) == list(RECORDED)
    for name, theirs in found.items():
        member = recorded_member(name)
        require_close(member, run(converted(member.file), *member.inputs), theirs, name)


@pytest.mark.skipif(not litert_outputs.INSTALLED, reason="needs ai-edge-litert")
@pytest.mark.parametrize("number", sample(1, 40))
def test_fresh_members_give_what_litert_gives(number) -> None:
    for name in RECORDED:
        member = drawn(name, fresh_rng())
        theirs = litert_outputs.litert(member, name)
        require_close(member, run(converted(member.file), *member.inputs), theirs, name)


@pytest.mark.parametrize("name", COMPARED)
def test_fresh_members_follow_the_quantisation_specification(name) -> None:
    for _ in range(4):
        member = drawn(name, fresh_rng())
        record = parse_tflite(member.file, HERE)
        inputs = dict(zip(record.inputs, member.inputs, strict=True))
        wanted = Evaluation(member.source, inputs).run()
        theirs = [wanted[index] for index in record.outputs]
        require_close(member, run(converted(member.file), *member.inputs), theirs, name)
        assert {kind for kind, *_ in member.source.operators} <= set(KINDS)


@pytest.mark.parametrize("number", sample(2, 20))
def test_a_fresh_classifier_is_one_region_with_the_outputs_of_the_specification(
    number, tmp_path
) -> None:
    member, path = drawn("network", fresh_rng()), tmp_path / "network.tflite"
    path.write_bytes(member.file)
    hw = load_hwconfig("pynq-16x16-rows")
    network = compile_model(path, hw, load_board("pynq-z2"), offload_all=True).network
    assert len(network.regions) == 1
    (port,), (result,) = network.inputs, network.outputs
    stated = member.source.tensors[parse_tflite(member.file, path).inputs[0]]
    assert (port.shape, port.dtype) == (stated["shape"], "int8")
    assert (port.scale, port.zero_point) == (np.float32(stated["scale"]), stated["zero"])
    wanted = Evaluation(member.source, {0: member.inputs[0]}).run()
    runner = open_network(network, ReferenceDevice(hw), trusted=True)
    found = runner.run({port.name: member.inputs[0]}).outputs[result.name]
    require_close(member, [found], [wanted[len(member.source.tensors) - 1]])


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_mobile_networks_are_one_region(name) -> None:
    member = block(name, fresh_rng())
    model, hw = converted(member.file), load_hwconfig("pynq-16x16-rows")
    wanted = run(model, *member.inputs)
    network = compile_model(model, hw, load_board("pynq-z2"), offload_all=True).network
    assert len(network.regions) == 1
    runner = open_network(network, ReferenceDevice(hw), trusted=True)
    found = runner.run({network.inputs[0].name: member.inputs[0]}).outputs
    require_close(member, [found[network.outputs[0].name]], wanted, name)


def test_a_classifier_with_float_ends_is_one_region_and_has_int8_ends_on_request() -> None:
    """The converter's default: QUANTIZE in front, DEQUANTIZE behind."""
    member = drawn("network", fresh_rng())
    file, (given,) = member.source, parse_tflite(member.file, HERE).inputs
    made = len(file.tensors) - 1
    first, last = (file.tensor(file.tensors[index]["shape"]) for index in (given, made))
    file.operators.insert(0, ("QUANTIZE", [first], [given], "", {}))
    file.add("DEQUANTIZE", [made], [last])
    model = converted(file.written([first], [last]))
    scale, zero = (file.tensors[given][name] for name in ("scale", "zero"))
    real = (member.inputs[0].astype(np.float32) - zero) * np.float32(scale)
    wanted = Evaluation(file, {first: real}).run()[last]
    hw, step = load_hwconfig("pynq-16x16-rows"), file.tensors[made]["scale"]
    for int8_ends in (False, True):
        options = ImportOptions(quantise=QuantiseOptions(int8_ends=int8_ends))
        network = compile_model(
            model, hw, load_board("pynq-z2"), options=options, offload_all=True
        ).network
        (port,), (result,) = network.inputs, network.outputs
        assert len(network.regions) == 1
        assert {port.dtype, result.dtype} == {"int8" if int8_ends else "float32"}
        runner = open_network(network, ReferenceDevice(hw), trusted=True)
        found = runner.run({port.name: port.quantise(real) if int8_ends else real}).outputs
        numbers = result.dequantise(found[result.name]) if int8_ends else found[result.name]
        assert np.abs(numbers - wanted).max() <= (member.steps + 0.5) * step


# -- shapes -----------------------------------------------------------------------------------


def open_batch() -> bytes:
    """A convolution and a flattened image, with an open batch."""
    draw = Draw(np.random.default_rng(0), "int8")
    data = draw.data((1, 4, 4, 2))
    draw.file.tensors[data].update(signature=(-1, 4, 4, 2), name="image")
    weights, like = layer(draw, data, (3, 3, 3, 2), 3, 0, 18)
    inner = draw.file.tensor((1, 4, 4, 3), "int8", **like)
    draw.file.add(
        "CONV_2D", [data, *weights], [inner], "Conv2DOptions", Padding=SAME, StrideW=1, StrideH=1
    )
    result = draw.out((1, 48), **like)
    draw.file.add("RESHAPE", [inner, draw.whole([1, 48])], [result], "ReshapeOptions")
    return draw.file.written(draw.inputs, draw.outputs)


def test_an_open_batch_is_one_or_what_is_asked_for(tmp_path) -> None:
    path = tmp_path / "open.tflite"
    path.write_bytes(open_batch())
    data = fresh_rng().integers(-128, 128, (3, 4, 4, 2)).astype(np.int8)
    (alone,) = run(read_tflite(path, {}), data[:1])
    (together,) = run(read_tflite(path, {"image": (3, 4, 4, 2)}), data)
    assert (alone.shape, together.shape) == ((1, 48), (3, 48))
    np.testing.assert_array_equal(together[:1], alone)
    model = normalised(read_tflite(path, {"image": (3, 4, 4, 2)}), path, {})
    assert [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == [3, 4, 4, 2]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"image": (3, 5, 4, 2)}, r"m.tflite: image: must be 4 on a fixed axis, not \[3, 5, 4, 2"),
        ({"image": (3, 4)}, "must have 4 axes"),
        ({"other": (3, 4)}, r"input_shapes: must be an input of the model \(image\), not 'other'"),
    ],
)
def test_a_shape_that_the_file_does_not_leave_open_is_refused(shapes, message) -> None:
    with pytest.raises(WorkloadError, match=message):
        converted(open_batch(), **shapes)


# -- other kinds of files -----------------------------------------------------------------------


def test_int8_and_half_precision_weights_of_float_layers_are_real_numbers() -> None:
    """Hybrid files keep weights in int8; files of half precision convert them first."""
    rng, file = fresh_rng(), TfliteFile()
    data, half = file.tensor((1, 6)), rng.standard_normal((3, 6)).astype(np.float16)
    codes, scales = rng.integers(-127, 128, (4, 3)).astype(np.int8), np.array([1, 2, 3, 4]) / 64
    stored, whole = file.constant(half), file.tensor((3, 6))
    inner, result = file.tensor((1, 3)), file.tensor((1, 4))
    file.add("DEQUANTIZE", [stored], [whole])
    file.add("FULLY_CONNECTED", [data, whole, -1], [inner], "FullyConnectedOptions")
    weights = file.constant(codes, scale=scales)
    file.add("FULLY_CONNECTED", [inner, weights, -1], [result], "FullyConnectedOptions")
    written, array = file.written([data], [result]), rng.standard_normal((1, 6)).astype(np.float32)
    assert not says_quantised(written, HERE)
    model = converted(written)
    assert {node.op_type for node in model.graph.node} == {"Gemm"}
    wanted = array @ half.astype(np.float32).T @ (codes * scales[:, None]).T
    np.testing.assert_allclose(run(model, array)[0], wanted, rtol=1e-4)


def test_outputs_that_hold_the_same_numbers_have_their_own_names() -> None:
    """Also the input, and a constant, as outputs."""
    file = TfliteFile()
    given, inner = file.tensor((2, 3), name="given"), file.tensor((2, 3), name="inner")
    same, fixed = file.tensor((2, 3), name="same"), file.constant(np.float32([[5]]), name="fixed")
    again = file.tensor((2, 3), name="again")
    sizes = file.constant(np.array([2, 3], np.int32))
    file.add("RELU", [given], [inner])
    file.add("RESHAPE", [inner, sizes], [same])
    file.add("RESHAPE", [given, sizes], [again])
    model = converted(file.written([given], [inner, same, again, fixed]))
    names = [value.name for value in model.graph.output]
    assert names == ["inner", "same", "again", "fixed"]
    array = np.float32([[-1, 2, 3], [4, -5, 6]])
    found = dict(zip(names, run(model, array), strict=True))
    np.testing.assert_array_equal(found["inner"], np.maximum(array, 0))
    np.testing.assert_array_equal(found["same"], found["inner"])
    np.testing.assert_array_equal(found["again"], array)
    assert found["fixed"] == 5


def test_shapes_that_a_file_computes_are_known() -> None:
    file = TfliteFile()
    data = file.tensor((1, 2, 3, 4))
    shape, first = file.tensor([4], "int32"), file.tensor([], "int32")
    sizes, result = file.tensor([2], "int32"), file.tensor((1, 24))
    ends = [file.constant(np.array([n], np.int32)) for n in (0, 1, 1)]
    file.add("SHAPE", [data], [shape], "ShapeOptions", OutType=2)
    file.add("STRIDED_SLICE", [shape, *ends], [first], "StridedSliceOptions", ShrinkAxisMask=1)
    rest = file.constant(np.array(-1, np.int32))
    file.add("PACK", [first, rest], [sizes], "PackOptions", ValuesCount=2, Axis=0)
    file.add("RESHAPE", [data, sizes], [result])
    array = fresh_rng().standard_normal((1, 2, 3, 4)).astype(np.float32)
    np.testing.assert_array_equal(
        run(converted(file.written([data], [result])), array)[0], array.reshape(1, 24)
    )


# -- what is refused ----------------------------------------------------------------------------


def relu(data: str = "float32", kind: str = "RELU", after=(2, 3), **file) -> bytes:
    made = TfliteFile(**file)
    given, result = made.tensor((2, 3), data), made.tensor(after, data)
    made.add(kind, [given], [result])
    return made.written([given], [result])


def misfit(change) -> bytes:
    """A dense layer after a change of its records."""
    draw = Draw(np.random.default_rng(0), "int8")
    data = draw.data((1, 4))
    weights, like = layer(draw, data, (3, 4), 3, 0, 4)
    result = draw.out((1, 3), **like)
    draw.file.add("FULLY_CONNECTED", [data, *weights], [result], "FullyConnectedOptions")
    change(draw.file)
    return draw.file.written([data], [result])


def changed(number: int, **fields) -> bytes:
    return misfit(lambda file: file.tensors[number].update(fields))


REFUSED = {
    "truncated": (relu()[:60], "TensorFlow Lite model (the file is truncated or damaged"),
    "empty": (b"", "must be a TensorFlow Lite file, with TFL3 as its bytes 4 to 7"),
    "another kind of file": (relu(identifier=b"ONNX"), "must be a TensorFlow Lite file"),
    "version": (relu(version=2), "must have version 3 of the schema, not 2"),
    "several subgraphs": (relu(subgraphs=2), "must have one subgraph, not 2; export the model"),
    "custom operator": (relu(kind="MyOp"), "operator 0 CUSTOM MyOp: must be an operator that is"),
    "control flow": (relu(kind="WHILE"), "operator 0 WHILE: must be an operator that is read"),
    "text": (relu("string"), "must be a dense tensor of numbers, and no variable, not 'STRING'"),
    "wrong shape": (relu(after=(2, 4)), "must have a result of the shape [2, 3] that follows"),
    "16 bits": (
        changed(0, dtype="int16"),
        "m.tflite: tensor 0 t0: must have activations of 8 bits, not 'int16'; quantise the model",
    ),
    "zero scale": (changed(0, scale=0.0), "must have finite positive scales"),
    "zero point": (changed(0, zero=300), "must have a zero point of int8, not 300"),
    "scales": (changed(1, scale=[0.5, 0.5]), "must have one scale, or one for each place of"),
    "axis of scales": (
        changed(1, scale=[0.5] * 4, axis=1), "must have a scale for each output channel, not 4",
    ),
    "too few weights": (changed(1, shape=(5, 4)), "must have 20 bytes of data, not 12"),
    "width of weights": (
        misfit(lambda f: f.tensors[1].update(shape=(4, 3), data=np.zeros((4, 3), np.int8))),
        "must have data in rows of 3",
    ),
    "float bias": (
        changed(2, dtype="float32", data=np.zeros(3, np.float32)),
        "must have a constant bias of int32, not 'float32'",
    ),
    "read first": (
        misfit(lambda file: file.operators.insert(0, ("RELU", [3], [0], "", {}))),
        "operator 0 RELU: must read what is computed before it, not 3",
    ),
    "written twice": (
        misfit(lambda file: file.operators.append(file.operators[0])),
        "operator 1 FULLY_CONNECTED: must write each tensor once, not 3",
    ),
    "no such tensor": (
        misfit(lambda file: file.operators.append(("RELU", [99], [3], "", {}))),
        "operator 1 RELU: inputs: must be numbers of tensors from 0 to 3",
    ),
    "another scale behind a move": (
        misfit(lambda file: file.operators.insert(0, ("RESHAPE", [0], [3], "", {}))),
        "must have one scale and zero point for what it reads and gives",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_read_is_refused_in_a_line(name) -> None:
    file, message = REFUSED[name]
    with pytest.raises(WorkloadError) as found:
        converted(file)
    assert message in str(found.value)
    assert str(found.value).startswith("m.tflite")
    assert found.value.remedy
    assert "\n" not in str(found.value)


def test_whatever_is_in_a_file_it_is_read_or_refused() -> None:
    rng = fresh_rng()
    for name in (RECORDED[i] for i in rng.permutation(len(RECORDED))[:40]):
        whole = drawn(name, rng).file
        for _ in range(12):
            file = bytearray(whole)
            if rng.integers(4):
                for place in rng.integers(0, len(file), rng.integers(1, 5)):
                    file[place] = rng.choice([0, 1, 127, 128, 255, rng.integers(256)])
            else:
                del file[rng.integers(len(file)) :]
            try:
                converted(bytes(file))
            except (TilewrightError, onnx.checker.ValidationError):
                continue


def test_names_are_data() -> None:
    file = TfliteFile()
    given = file.tensor((2, 3), name="a\x1b[31m\nb")
    inner = file.tensor((2, 3), name="x" * 5000)
    result = file.tensor((2, 3), name="")
    file.add("RELU", [given], [inner])
    file.add("TANH", [inner], [result])
    model = converted(file.written([given], [result]))
    assert [value.name for value in (*model.graph.input, *model.graph.output)] == [
        "tensor_0",
        "tensor_2",
    ]
    names = [name for node in model.graph.node for name in (node.name, *node.output)]
    assert all(name.isprintable() and len(name) < 300 for name in names)
