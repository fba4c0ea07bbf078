# SPDX-License-Identifier: Apache-2.0
"""How near a quantised network is to its float model: figures, layers that lose, what improves."""

import numpy as np
import pytest
from support.networks.compiled_runs import run_compiled
from support.networks.qdq_runs import run_all
from support.networks.small_models import Model
from support.randomness import generator

import tilewright as tw
from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pipeline import compile_model, import_network
from tilewright.host.compiler.quantise.agreement import Agreement, Comparison
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.interface.networks import agreement_on

HW, BOARD = load_hwconfig("tiny-4x4"), load_board("pynq-z2")
SHAPE = (1, 3, 8, 8)


def decibels(expected: np.ndarray, found: np.ndarray) -> float:
    error = expected.astype(float) - found
    return 10 * np.log10((expected.astype(float) ** 2).sum() / (error**2).sum())


def network(rng: np.random.Generator, offset: float = 0.0) -> tuple[Model, str]:
    """Three convolutions; the results of the second one lie around an offset."""
    model = Model(rng)
    x = model.add("Relu", model.add("Conv", model.input(*SHAPE), model.weights(8, 3, 3, 3)))
    around = model.constant(np.full(8, offset, np.float32))
    x = model.add("Conv", x, model.weights(8, 8, 3, 3), around)
    return model, model.add("Conv", x, model.weights(4, 8, 1, 1))


def data(rng: np.random.Generator, count: int = 8) -> np.ndarray:
    return rng.normal(size=(count, *SHAPE[1:])).astype(np.float32)


def quantised(model: Model, output: str, samples: np.ndarray, **options):
    return import_network(
        model.proto(output),
        calibration=Calibration(arrays={"x": samples}),
        options=ImportOptions(quantise=QuantiseOptions(**options)),
    )


def test_figures_are_those_of_numpy() -> None:
    rng = generator("agreement")
    model, y = network(rng)
    samples = data(rng)
    imported = quantised(model, y, samples)
    found = Agreement.from_mapping(imported.accuracy.agreement)
    runs = [{"x": sample[None]} for sample in samples[: found.inputs]]
    expected, rounded = (
        np.concatenate([run_all(each, run)[y] for run in runs])
        for each in (model.proto(y), imported.qdq)
    )
    (output,) = found.outputs
    assert output.name == y
    assert output.sqnr_db == pytest.approx(decibels(expected, rounded), abs=0.02)
    cosine = (expected * rounded).sum() / np.linalg.norm(expected) / np.linalg.norm(rounded)
    assert output.cosine == pytest.approx(cosine, abs=1e-4)
    same = (expected.argmax(1) == rounded.argmax(1)).mean()
    assert output.same == pytest.approx(same)


def test_outputs_of_integers_are_compared_one_by_one() -> None:
    comparison = Comparison()
    comparison.add({"n": np.array([1, 2, 3, 4])}, {"n": np.array([1, 2, 0, 4])})
    (output,) = comparison.result("a test", "arrays").outputs
    assert output.same == 0.75


def test_the_layer_whose_range_is_wide_loses_most() -> None:
    rng = generator("losing layer")
    model = Model(rng)
    x = model.add("Relu", model.add("Conv", model.input(*SHAPE), model.weights(8, 3, 3, 3)))
    wide = rng.normal(size=(8, 8, 1, 1)).astype(np.float32)
    wide[0] *= 1000  # one channel of a range that the others disappear in
    lost = model.add("Conv", x, model.constant(wide))
    rest = rng.normal(size=(4, 8, 1, 1)).astype(np.float32)
    rest[:, 0] = 0  # and that nothing reads
    y = model.add("Conv", model.add("Relu", lost), model.constant(rest))
    imported = quantised(model, y, data(rng), equalisation=False, method="minmax")
    found = Agreement.from_mapping(imported.accuracy.agreement)
    behind = {model.nodes[-1].name, model.nodes[-2].name}
    assert behind & {layer.name for layer in found.layers[:2]}
    assert found.worst_db < 20
    assert y in found.warning()


def test_other_options_are_tried_and_the_best_are_taken() -> None:
    for number in range(5):  # of some networks all options are about equally good
        rng = generator(f"improve {number}")
        model, y = network(rng, offset=6.0)
        samples = data(rng, 12)
        plain, better = (quantised(model, y, samples, improve=each) for each in (False, True))
        first, *trials = better.accuracy.trials
        assert first["kept"]
        kept = [trial["worst_db"] for trial in trials if trial["kept"]]
        assert bool(kept) == bool(better.accuracy.chosen)
        assert min(kept, default=np.inf) >= first["worst_db"] + 0.1
        if kept:
            break
    assert kept
    fresh = [{"x": each[None]} for each in data(generator("fresh"), 16)]
    expected, before, after = (
        np.concatenate([run_all(each, run)[y] for run in fresh])
        for each in (model.proto(y), plain.qdq, better.qdq)
    )
    assert decibels(expected, after) > decibels(expected, before) - 1  # on other inputs, too


def test_a_layer_in_float_is_left_to_the_cpu() -> None:
    rng = generator("float layer")
    model, y = network(rng)
    name = model.nodes[2].name
    options = ImportOptions(quantise=QuantiseOptions(float_layers=(name,)))
    calibration = Calibration(arrays={"x": data(rng)})
    compilation = compile_model(
        model.proto(y), HW, BOARD, calibration=calibration, options=options, offload_all=True
    )
    left = {placed.name for placed in compilation.network.placements if placed.where == "cpu"}
    assert left == {name}
    assert compilation.network.conditions["float_layers"] == [name]
    with pytest.raises(WorkloadError, match="did you mean"):
        quantised(model, y, data(rng), float_layers=(f"{name}_",))


@pytest.mark.parametrize("int8_ends", [True, False])
def test_data_to_check_with_run_on_the_device(int8_ends: bool) -> None:
    rng = generator(f"check {int8_ends}")
    model, y = network(rng)
    check = Calibration(arrays={"x": data(rng, 3)})
    compilation = compile_model(
        model.proto(y),
        HW,
        BOARD,
        calibration=Calibration(arrays={"x": data(rng)}),
        options=ImportOptions(quantise=QuantiseOptions(int8_ends=int8_ends)),
        check=check,
        offload_all=True,
    )
    expected = compilation.imported.accuracy.expected
    network_made = compilation.network
    found = agreement_on(network_made, check, expected)
    assert found.inputs == len(expected) == 3
    (port,) = network_made.outputs
    outputs = [
        run_compiled(compilation, batch)[port.name] for batch in check.batches(network_made.inputs)
    ]
    real = [port.dequantise(each) if port.is_quantised else each for each in outputs]
    floats = [run_all(model.proto(y), {"x": x[None]})[y] for x in check.arrays["x"]]
    wanted = decibels(np.concatenate(floats), np.concatenate(real))
    assert found.worst_db == pytest.approx(wanted, abs=0.02)


def test_the_library_tells_what_it_found_on_data_to_check_with() -> None:
    rng = generator("check from Python")
    model, y = network(rng)
    compiled = tw.compile(
        model.proto(y), hw="tiny-4x4", calibration=data(rng), check=data(rng, 2), search=0
    )
    told = Agreement.from_mapping(compiled.conditions["check"])
    assert told.inputs == 2
    assert told.worst_db > 20
