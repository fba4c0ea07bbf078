# SPDX-License-Identifier: Apache-2.0
"""What computes the CPU's part: Relax, and NumPy on boards."""

import json
import threading
import time

import numpy as np
import pytest
import tvm
from support.boards.bundles import call, constant, cpu_part
from support.networks.qgraph_floats import FloatRegions
from support.networks.small_models import Model, imported, noise
from support.randomness import fresh_rng
from tvm import relax

from tilewright.host.common.errors import TilewrightError, WorkloadError
from tilewright.host.compiler.pipeline import partition
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.run.numpy_host import OPERATORS, NumpyHost
from tilewright.host.compiler.run.relax_host import HostModule, HostProgram


@pytest.fixture(scope="module")
def network():
    """Two inputs, two regions, the last with two outputs, and CPU operators between."""
    model = Model(np.random.default_rng(0))
    a, b = model.input(1, 3, 4, 4, name="a"), model.input(1, 4, 4, 4, name="b")
    z = model.add("Mul", model.add("Sigmoid", model.add("Conv", a, model.weights(4, 3, 1, 1))), b)
    z = model.add("Conv", z, model.weights(4, 4, 1, 1))
    return imported(model.proto(model.add("Conv", z, model.weights(2, 4, 1, 1)), z))


@pytest.fixture(scope="module")
def parts(network):
    found = partition(network)
    assert [len(region.outputs) for region in found.regions] == [1, 2]
    return found


@pytest.fixture(scope="module")
def program(parts):
    return HostProgram(module=parts.host)


def test_time_in_regions_is_apart(network, parts, program) -> None:
    regions = FloatRegions(parts.regions)

    def slow(number, inputs):
        time.sleep(0.3)
        return regions(number, inputs)

    program.run(noise(network, fresh_rng()), slow)
    assert program.times.regions >= 0.3 * len(parts.regions)
    assert 0 < program.times.cpu < program.times.regions


@pytest.mark.parametrize(
    "wrong",
    [
        lambda outputs: outputs[:-1],
        lambda outputs: [outputs[0].astype(np.int16)],
        lambda outputs: [outputs[0][:, :1]],
    ],
)
def test_results_of_a_region_that_do_not_fit_are_refused(network, parts, program, wrong) -> None:
    regions = FloatRegions(parts.regions)

    def runner(number, inputs):
        return wrong(regions(number, inputs))

    with pytest.raises((WorkloadError, ValueError), match=r"result of region 0|shorter"):
        program.run(noise(network, fresh_rng()), runner)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i: i.pop("a"), "inputs.a: is missing"),
        (lambda i: i.update(c=i["a"]), r"must be one of \['a', 'b'\], not 'c'"),
        (lambda i: i.update(a=i["b"]), r"inputs.a: must be float32 of shape \(1, 3, 4, 4\)"),
        (lambda i: i.update(a=i["a"].astype(np.float64)), "inputs.a: must be float32"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(network, parts, program, change, message) -> None:
    inputs = noise(network, fresh_rng())
    change(inputs)
    with pytest.raises(WorkloadError, match=message):
        program.run(inputs, FloatRegions(parts.regions))


def test_programs_run_inside_each_other_and_in_threads(network, parts, program) -> None:
    inputs = noise(network, fresh_rng())
    regions = FloatRegions(parts.regions)
    expected = program.run(inputs, regions)
    other = HostProgram(module=parts.host)

    def nested(number, arrays):
        other.run(inputs, regions)
        return regions(number, arrays)

    found = program.run(inputs, nested)
    results = {}

    def work(index: int) -> None:
        mine = partition(network)
        loaded = HostModule.from_json(mine.host.to_json())
        results[index] = HostProgram(module=loaded).run(inputs, FloatRegions(mine.regions))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outputs in (found, *results.values()):
        for name, array in expected.items():
            np.testing.assert_array_equal(outputs[name], array)
    assert len(results) == 4


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "{}",
        lambda text: json.dumps({**json.loads(text), "format": 99}),
        lambda text: json.dumps({**json.loads(text), "module": "{}"}),
        lambda text: json.dumps({**json.loads(text), "inputs": [{"name": "x"}]}),
    ],
)
def test_damaged_modules_are_refused(parts, damage) -> None:
    with pytest.raises(WorkloadError, match="must be a saved CPU part of a network"):
        HostModule.from_json(damage(parts.host.to_json()))


def test_modules_whose_arguments_are_not_those_stated_are_refused(parts) -> None:
    data = json.loads(parts.host.to_json())
    data["outputs"][0]["shape"] = [1, 2, 4, 5]
    with pytest.raises(WorkloadError, match="its results are not those of the module"):
        HostModule.from_json(json.dumps(data))


def test_types_that_were_tampered_with_are_inferred_anew() -> None:
    """A tensor that claims to be larger than it is would be read beyond its end."""
    real, claimed = (2, 3), (2000, 3)
    x = relax.Var("x", relax.TensorType(real, "float32"))
    y = relax.Var("y", relax.TensorType(claimed, "float32"))
    block = relax.BindingBlock([relax.VarBinding(y, relax.op.nn.relu(x))])
    main = relax.Function([x], relax.SeqExpr([block], y), relax.TensorType(claimed, "float32"))
    module = tvm.IRModule({"main": main.with_attr("global_symbol", "main")})
    inputs = (Argument(name="x", shape=real, dtype="float32"),)
    for shape, fits in ((claimed, False), (real, True)):
        outputs = (Argument(name="y", shape=shape, dtype="float32"),)
        text = HostModule(module=module, inputs=inputs, outputs=outputs).to_json()
        if fits:
            loaded = HostProgram(module=HostModule.from_json(text))
            data = fresh_rng().normal(size=real).astype(np.float32)
            found = loaded.run({"x": data}, FloatRegions(()))["y"]
            np.testing.assert_array_equal(found, np.maximum(data, 0))
        else:
            with pytest.raises(WorkloadError, match="not those of the module"):
                HostModule.from_json(text)


# -- The CPU part in NumPy: the bits of TVM's, and refusals that name operators
SHAPE = (1, 2, 4, 256)
X = Argument(name="x", shape=SHAPE, dtype="float32")
STEP = np.float32(3 / 128)


def values():
    """Every operator once or more, on ties of rounding among others."""
    return [
        constant(np.array([STEP, STEP / 2], np.float32)),  # 1
        constant(np.array([3, -7], np.int8)),  # 2
        call("quantize", 0, 1, 2, out_dtype="int8", axis=1),  # 3
        {"region": 0, "arguments": [3], "shapes": [list(SHAPE)], "name": "r"},  # 4
        call("dequantize", 4, 1, 2, out_dtype="float32", axis=1),  # 5
        call("add", 5, 0),  # 6
        call("nn.relu", 6),  # 7
        call("multiply", 7, 5),  # 8
        call("permute_dims", 8, axes=[0, 2, 1, 3]),  # 9
        {"shape_of_sizes": [4, 512]},  # 10
        call("reshape", 9, 10),  # 11
        constant(np.float32(0.75)),  # 12
        call("subtract", 11, 12),  # 13
        call("divide", 13, 12),  # 14
        call("maximum", 14, 12),  # 15
        call("minimum", 14, 12),  # 16
        {"tuple": [15, 16]},  # 17
        call("concat", 17, axis=0),  # 18
        call("expand_dims", 18, axis=[0]),  # 19
        call("squeeze", 19, axis=[0]),  # 20
        {"number": -2.0, "dtype": "float32"},  # 21
        {"number": 9.5, "dtype": "float32"},  # 22
        call("clip", 20, 21, 22),  # 23
        call("astype", 23, dtype="int32"),  # 24
        call("nn.batch_flatten", 24),  # 25
        call("flatten", 25),  # 26
        call("nn.softmax", 14, axis=-1),  # 27
        constant(np.array([[np.nan], [0.5], [3], [-2]], np.float32)),  # 28
        call("equal", 16, 12),  # 29
        call("not_equal", 15, 12),  # 30
        call("less", 14, 28),  # 31
        call("less_equal", 14, 28),  # 32
        call("greater", 14, 12),  # 33
        call("greater_equal", 14, 12),  # 34
        call("logical_not", 31),  # 35
        call("logical_and", 33, 34),  # 36
        call("isnan", 28),  # 37
        call("logical_or", 31, 37),  # 38
        call("where", 38, 28, 14),  # 39
        {"tuple": [29, 30, 32, 35, 36, 38]},  # 40
        call("concat", 40, axis=0),  # 41
        {"tuple": [26, 23, 27, 39, 41]},  # 42
    ]


OUTPUTS = [
    Argument(name="whole", shape=(4096,), dtype="int32"),
    Argument(name="clipped", shape=(8, 512), dtype="float32"),
    Argument(name="softmax", shape=(4, 512), dtype="float32"),
    Argument(name="chosen", shape=(4, 512), dtype="float32"),
    Argument(name="conditions", shape=(24, 512), dtype="bool"),
]


def region(number, arguments):
    assert number == 0
    return [np.bitwise_xor(arguments[0], 0x15)]


def test_it_computes_the_bits_of_tvm():
    text = cpu_part([X], OUTPUTS, values())
    halves = (np.arange(np.prod(SHAPE), dtype=np.float32) - 1000) / 8
    inputs = {"x": (halves * STEP).reshape(SHAPE)}
    expected = HostProgram(module=HostModule.from_json(text)).run(inputs, region)
    host = NumpyHost(text)
    found = host.run(inputs, region)
    for name in ("whole", "clipped", "chosen", "conditions"):
        np.testing.assert_array_equal(found[name], expected[name])
    truths = found["conditions"].reshape(6, -1).mean(axis=1)
    assert np.all((truths > 0) & (truths < 1))
    assert np.isnan(found["chosen"][0]).all()
    np.testing.assert_allclose(found["softmax"], expected["softmax"], rtol=1e-5)
    assert host.times.cpu > 0
    assert host.times.regions > 0


X24 = Argument(name="x", shape=(2, 3, 4), dtype="float32")


def placed(*lists: tuple[int, ...]) -> list[dict]:
    """Tuples of numbers behind the input, as `strided_slice` takes them."""
    made, tuples = [], []
    for each in lists:
        first = 1 + len(made)
        made += [{"number": n, "dtype": "int64"} for n in each]
        made.append({"tuple": list(range(first, first + len(each)))})
        tuples.append(len(made))
    return [*made, call("strided_slice", 0, *tuples, assume_inbound=False)]


REDUCED = ("max", "mean", "min", "prod", "sum")
ALONE = ("abs", "ceil", "cos", "erf", "exp", "floor", "negative", "nn.silu", "round", "sigmoid",
         "sign", "sin", "square", "tanh")  # fmt: skip
OF_POSITIVES = ("log", "rsqrt", "sqrt")
CASES = {
    **{name: [call(name, 0)] for name in ALONE},
    **{name: [call("exp", 0), call(name, 1)] for name in OF_POSITIVES},
    **{f"{name} {axis} {kept}": [call(name, 0, axis=axis, keepdims=kept)]
       for name in REDUCED for axis in ([1], [0, 2], None) for kept in (False, True)},
    **{f"{name} {axis} {kept}": [call(name, 0, axis=axis, keepdims=kept)]
       for name in ("argmax", "argmin") for axis in (1, None) for kept in (False, True)},
    "strided_slice": placed((1, 2), (2, 0), (0, 4), (-1, 2)),
    "strided_slice plain": placed((1,), (1,), (3,)),
    "strided_slice to the end": placed((0, 2), (0, -3), (9223372036854775807, -1)),
    "strided_slice backwards": placed((2,), (-1,), (-9223372036854775807,), (-1,)),
    "take": [constant(np.array([[2, 0], [1, 1]])), call("take", 0, 1, axis=1, mode="clip")],
    "take wrap": [constant(np.array([5, -1])), call("take", 0, 1, axis=2, mode="wrap")],
    "gather_elements": [constant(np.array([[[3, 0, 1]] * 3] * 2)),
                        call("gather_elements", 0, 1, axis=2)],
    "split": [call("split", 0, indices_or_sections=[1, 3], axis=2), {"item": 1, "index": 1}],
    "split equal": [call("split", 0, indices_or_sections=2, axis=2), {"item": 1, "index": 1}],
    "broadcast_to": [{"shape_of_sizes": [5, 2, 3, 4]}, call("broadcast_to", 0, 1)],
    "tile": [call("tile", 0, repeats=[2, 1, 3])],
    "repeat": [call("repeat", 0, repeats=2, axis=1)],
    "flip": [call("flip", 0, axis=2)],
    "stack": [{"tuple": [0, 0]}, call("stack", 1, axis=1)],
    "nn.pad": [call("nn.pad", 0, pad_width=[0, 0, 1, 2, 3, 0], pad_mode="constant", pad_value=1.5)],
    "divide integers": [constant(np.array([[-7, 7], [-2, 9]])), constant(np.array(2)),
                        call("divide", 1, 2)],
    "clip by numbers": [{"number": -0.5, "dtype": "float64"}, {"number": 0.5, "dtype": "float64"},
                        call("clip", 0, 1, 2)],
    "matmul": [call("permute_dims", 0, axes=[0, 2, 1]), call("matmul", 0, 1, out_dtype="float32")],
    "nn.layer_norm": [constant(np.array([1, 2, 3, 4], np.float32)), call(
        "nn.layer_norm", 0, 1, 1, axes=[-1], epsilon=1e-5, center=True, scale=True)],
    "nn.leakyrelu": [call("nn.leakyrelu", 0, alpha=0.1)],
    "nn.log_softmax": [call("nn.log_softmax", 0, axis=-1)],
    "power": [constant(np.float32(2)), call("power", 0, 1)],
    "topk": [call("topk", 0, k=2, axis=2, ret_type="values", largest=True, dtype="int64")],
    "topk places": [call("topk", 0, k=3, axis=1, ret_type="indices", largest=False, dtype="int32")],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_operator_computes_what_tvm_computes(name):
    inputs = {"x": fresh_rng().normal(size=X24.shape).astype(np.float32)}
    module = {"values": CASES[name], "result": len(CASES[name])}
    first = NumpyHost(cpu_part([X24], [], CASES[name]))
    known = [inputs["x"]]
    for value in CASES[name]:
        known.append(first._computed(value, known, region, first.times))
    result = np.asarray(known[-1])
    y = Argument(name="y", shape=result.shape, dtype=str(result.dtype))
    text = cpu_part([X24], [y], module["values"])
    found = NumpyHost(text).run(inputs, region)["y"]
    expected = HostProgram(module=HostModule.from_json(text)).run(inputs, region)["y"]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_every_operator_is_compared_with_tvm():
    calls = [each for case in (values(), *CASES.values()) for each in case if "call" in each]
    assert {each["call"].removeprefix("relax.") for each in calls} == set(OPERATORS)


def test_a_tensor_that_would_not_fit_is_refused_before_it_is_made():
    huge = (
        [{"shape_of_sizes": [1 << 25, 2, 3, 4]}, call("broadcast_to", 0, 1)],
        [call("tile", 0, repeats=[1 << 14, 1 << 14, 1])],
        [call("repeat", 0, repeats=1 << 30, axis=1)],
        [{"shape_of_sizes": [24, 1]}, call("reshape", 0, 1), call("tile", 2, repeats=[400, 1]),
         call("permute_dims", 3, axes=[1, 0]), call("matmul", 3, 4, out_dtype="float32")],
        [call("nn.pad", 0, pad_width=[0, 1 << 20, 0, 1 << 20, 0, 0], pad_mode="constant",
              pad_value=0.0)],
    )  # fmt: skip
    for case in huge:
        host = NumpyHost(cpu_part([X24], [X24], case))
        with pytest.raises(WorkloadError, match="more than 33554432 elements"):
            host.run({"x": np.zeros(X24.shape, np.float32)}, region)


def test_odd_sizes_of_a_hostile_file_are_one_error():
    odd = (
        [call("tile", 0, repeats=[10**9, -1, 1])],
        [call("split", 0, indices_or_sections=10**9, axis=1), {"item": 1, "index": 0}],
        [{"tuple": [0, 0]}, call("add", 1, 1)],
        [call("tile", 0, repeats=[1000, 100, 1])] * 60,
    )
    for case in odd:
        host = NumpyHost(cpu_part([X24], [X24], case))
        with pytest.raises(WorkloadError, match="must be a saved CPU part"):
            host.run({"x": np.zeros(X24.shape, np.float32)}, region)


@pytest.mark.parametrize("name", [["nn.gelu"], {"a": 1}, 7, None])
def test_an_operator_whose_name_is_no_text_is_damage(name):
    value = call("nn.gelu", 0)
    value["call"] = name
    with pytest.raises(TilewrightError):
        NumpyHost(cpu_part([X], [X], [value]))


def test_operators_that_it_lacks_are_named():
    text = cpu_part([X], [X], [call("nn.gelu", 0), call("image.resize2d", 1), call("add", 1, 2)])
    with pytest.raises(WorkloadError, match=r"nn\.gelu \(the_gelu\), image\.resize2d"):
        NumpyHost(text)


@pytest.mark.parametrize(
    "value",
    [
        {"region": 0, "arguments": [9], "shapes": [[1]], "name": ""},
        {"tuple": [7]},
        {"other": 1},
        call("reshape", 0, 0),
        call("concat", 0, axis=9),
        call("astype", 0, dtype="object_"),
        call("squeeze", 0, axis=[0], other=1),
    ],
)
def test_damage_is_one_error(value):
    with pytest.raises(WorkloadError):
        NumpyHost(cpu_part([X], [X], [value])).run({"x": np.zeros(SHAPE, np.float32)}, region)


@pytest.mark.parametrize("operator", ["add", "where"])
def test_a_result_that_would_swell_is_refused_before_it_is_computed(operator):
    x = Argument(name="x", shape=(1, 1 << 15), dtype="float32")
    arguments = (0, 2) if operator == "add" else (0, 2, 2)
    values = [{"shape_of_sizes": [1 << 15, 1]}, call("reshape", 0, 1), call(operator, *arguments)]
    with pytest.raises(WorkloadError, match="more than"):
        NumpyHost(cpu_part([x], [x], values)).run({"x": np.zeros((1, 1 << 15), np.float32)}, region)


@pytest.mark.parametrize("operator", ["quantize", "dequantize"])
def test_scales_that_are_not_one_for_each_channel_are_refused(operator):
    x = Argument(name="x", shape=(8, 1), dtype="float32")
    scales = [constant(np.ones(8, np.float32)), constant(np.zeros(8, np.int8))]
    made = call(
        operator, 0, 1, 2, out_dtype="int8" if operator == "quantize" else "float32", axis=1
    )
    with pytest.raises(WorkloadError, match="8 scales for 1 channels"):
        NumpyHost(cpu_part([x], [x], [*scales, made])).run(
            {"x": np.zeros((8, 1), np.float32)}, region
        )


def test_inputs_and_results_of_regions_are_checked():
    host = NumpyHost(cpu_part([X], OUTPUTS, values()))
    with pytest.raises(WorkloadError, match=r"inputs\.x: is missing"):
        host.run({}, region)
    with pytest.raises(WorkloadError, match="result of region 0"):
        host.run({"x": np.zeros(SHAPE, np.float32)}, lambda *_: [np.zeros(3, np.int8)])


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"format": 1}), "[" * 100_000])
def test_what_is_no_cpu_part_is_refused(text):
    with pytest.raises(WorkloadError, match="saved CPU part"):
        NumpyHost(text)
