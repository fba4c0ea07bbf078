# SPDX-License-Identifier: Apache-2.0
"""`--hw auto` and the line that names a faster configuration, beside one compilation for each."""

import warnings

import numpy as np
import onnx
import pytest
import yaml
from support.command_line import call
from support.networks.small_models import Model
from support.randomness import fresh_rng, often

import tilewright as tw
from tilewright.host.compiler.pack.latency import latency
from tilewright.host.machine.area import estimate, fits
from tilewright.host.machine.board import BOARD_DIR, load_board
from tilewright.host.machine.hwconfig import load_hwconfig, named_configs
from tilewright.sim.twin.network_timing import time_network

BOARD = load_board("pynq-z2")


def drawn(rng: np.random.Generator, *, functions: bool) -> onnx.ModelProto:
    """A few convolutions, with functions between that some configurations have not."""
    model = Model(rng)
    channels = int(rng.choice((8, 24, 40)))
    z = model.input(1, channels, 14, 14, name="x")
    for _ in range(int(rng.integers(2, 4))):
        out = int(rng.choice((16, 32, 72)))
        z = model.add("Conv", z, model.weights(out, channels, 3, 3), pads=[1] * 4)
        z = model.add("HardSwish" if functions else "Relu", z)
        channels = out
    return model.proto(z)


def milliseconds(model: onnx.ModelProto, data: np.ndarray) -> dict[str, float]:
    """What each configuration that fits takes, compiled on its own."""
    found = {}
    for name in named_configs():
        if fits(load_hwconfig(name), BOARD).ok:
            network = tw.compile(model, hw=name, calibration=data, search=0)
            found[name] = (
                1e3 * latency(network, BOARD, time_network(network, BOARD.memory).cycles).total
            )
    return found


@pytest.mark.parametrize("functions", often("drawn with functions", [False, True], 1))
def test_auto_takes_the_fastest_and_of_equal_ones_the_smallest(functions: bool) -> None:
    warnings.simplefilter("ignore")
    rng = fresh_rng()
    model = drawn(rng, functions=functions)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    data = rng.normal(size=(2, *shape[1:])).astype(np.float32)
    each = milliseconds(model, data)
    chosen = tw.compile(model, hw="auto", calibration=data, search=0).hw
    near = [name for name in each if each[name] <= 1.02 * min(each.values())]
    assert chosen.name == min(near, key=lambda name: estimate(load_hwconfig(name)).lut), each


def test_a_board_that_holds_none_is_refused(tmp_path) -> None:
    text = yaml.safe_load((BOARD_DIR / "pynq-z2.yaml").read_text())
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(text | {"lut": 100}))
    model = drawn(fresh_rng(), functions=False)
    with pytest.raises(tw.TilewrightError, match="no named configuration fits"):
        tw.compile(model, hw="auto", board=tmp_path / "small.yaml", calibration=1, search=0)


def test_a_faster_configuration_is_named_in_a_line(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(drawn(fresh_rng(), functions=True), "m.onnx")
    words = ("compile", "m.onnx", "--random-calibration", "1", "--search", "0", "--hw")
    slow = call(*words, "tiny-4x4")
    assert slow.exit_code == 0, slow.output
    (line,) = [each for each in slow.output.splitlines() if each.startswith("faster on pynq-z2")]
    assert "--hw auto takes the fastest" in slow.output
    named = line.split("--hw ")[1].split()[0]
    fast = call(*words, "auto")
    assert f"configuration: {named}, the fastest that fits pynq-z2" in fast.output
    assert "faster on" not in fast.output + call(*words, named).output
