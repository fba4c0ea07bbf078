# SPDX-License-Identifier: Apache-2.0
"""The CPU part: saved and loaded, run, and its errors."""

import json
import threading
import time

import numpy as np
import pytest
import tvm
from support.networks.qgraph_floats import FloatRegions
from support.networks.small_models import Model, imported, noise
from support.randomness import fresh_rng
from tvm import relax

from tilewright.host.common.errors import ProgramError, WorkloadError
from tilewright.host.compiler.pipeline import partition
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.run.relax_host import HostModule, HostProgram


@pytest.fixture(scope="module")
def network():
    """Two inputs, two regions, the last with two outputs, and CPU operators between."""
    model = Model(np.random.default_rng(0))
    a, b = model.input(1, 3, 4, 4, name="a"), model.input(1, 4, 4, 4, name="b")
    y = model.add("Conv", a, model.weights(4, 3, 1, 1))
    z = model.add("Mul", model.add("Sigmoid", y), b)
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


def test_saved_and_loaded_modules_compute_the_same(network, parts, program) -> None:
    inputs = noise(network, fresh_rng())
    loaded = HostModule.from_json(parts.host.to_json())
    assert (loaded.inputs, loaded.outputs) == (network.inputs, network.outputs)
    expected = program.run(inputs, FloatRegions(parts.regions))
    found = HostProgram(module=loaded).run(inputs, FloatRegions(parts.regions))
    assert list(found) == [argument.name for argument in network.outputs]
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_time_in_regions_is_apart(network, parts, program) -> None:
    regions = FloatRegions(parts.regions)

    def slow(number, inputs):
        time.sleep(0.3)
        return regions(number, inputs)

    program.run(noise(network, fresh_rng()), slow)
    assert program.times.regions >= 0.3 * len(parts.regions)
    assert 0 < program.times.cpu < program.times.regions


def test_errors_of_a_region_pass_through_and_the_program_stays_usable(
    network, parts, program
) -> None:
    inputs = noise(network, fresh_rng())

    def failing(number, inputs):
        raise ProgramError("must not fail", field=f"region {number}")

    with pytest.raises(ProgramError, match="region 0: must not fail"):
        program.run(inputs, failing)
    assert program.run(inputs, FloatRegions(parts.regions))


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
