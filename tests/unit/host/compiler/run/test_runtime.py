# SPDX-License-Identifier: Apache-2.0
"""A model compiled and run by two calls, and its outputs as a file."""

from dataclasses import replace

import numpy as np
import pytest
from support.networks.small_models import Model
from support.programs.systems import program_of
from support.randomness import fresh_rng

from tilewright.host.common.errors import ProgramError
from tilewright.host.compiler.pack.artefact import load
from tilewright.host.compiler.pack.target import target_board
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run import in_stages
from tilewright.host.compiler.run.in_stages import run_stages
from tilewright.host.compiler.run.recorded import Frame, RecordedRun
from tilewright.host.compiler.run.runtime import differing_elements, run_network, save_outputs
from tilewright.host.compiler.run.side_by_side import Ran, Tenant
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice


def test_a_model_is_compiled_saved_and_run(tmp_path) -> None:
    rng = fresh_rng()
    model = Model(rng)
    y = model.add("Conv", model.input(1, 3, 6, 6), model.weights(4, 3, 3, 3), model.weights(4))
    hw, path = load_hwconfig("tiny-4x4"), tmp_path / "small.tw"
    told: list[str] = []
    compilation = compile_model(
        model.proto(model.add("Relu", y)),
        hw,
        load_board("pynq-z2"),
        calibration=Calibration(random_samples=2),
        offload_all=True,
        output=path,
        progress=told.append,
    )
    assert told[0] == "reading and quantising ModelProto"
    assert told[-2].startswith("1 region on the accelerator: at least ")
    assert told[-1] == "region0 of 1: 1 layer"
    assert [len(graph.layers) for graph in compilation.layers] == [1]
    network = load(path)
    assert network.conditions == compilation.network.conditions
    assert network.conditions["calibration"] == "2 random inputs"
    assert target_board(network).name == "pynq-z2"
    inputs = {"x": rng.normal(size=(1, 3, 6, 6)).astype(np.float32)}
    first, again = (
        run_network(each, ReferenceDevice(hw), inputs, trusted=True)
        for each in (compilation.network, network)
    )
    (name,) = first.outputs
    assert first.outputs[name].any()
    assert differing_elements(first, again) == {name: 0}
    wrong = replace(again, outputs={name: again.outputs[name] + 1})
    assert differing_elements(first, wrong) == {name: first.outputs[name].size}


def test_outputs_of_any_name_are_saved(tmp_path) -> None:
    outputs = {"file": np.arange(3), "a/b": np.ones((2, 2), np.float32), "": np.zeros(1)}
    save_outputs(outputs, tmp_path / "out")
    with np.load(tmp_path / "out") as found:
        assert set(found.files) == {"file", "a_b", "output"}
        np.testing.assert_array_equal(found["file"], outputs["file"])
        np.testing.assert_array_equal(found["a_b"], outputs["a/b"])
    with pytest.raises(ProgramError, match="output: the outputs cannot be written"):
        save_outputs(outputs, tmp_path)


# -- ticks of a pipeline: which stage has which frame, and what the CPU adds ----------------------

PROGRAM = program_of(load_hwconfig("tiny-4x4"))


def frame():
    memory = np.zeros(PROGRAM.memory_bytes, np.uint8)
    run = RecordedRun(program=PROGRAM, before=memory, after=memory)
    return Frame(runs=(run,), outputs={}, cpu_seconds=0.0)


def test_ctrl_c_keeps_the_ticks_that_ran(monkeypatch):
    ran = Ran(times=(), wrong_bytes=(0,), shares=(), makespan=9, host_seconds=0.0)
    left = [ran, ran]

    def tick(*_):
        if not left:
            raise KeyboardInterrupt
        return left.pop()

    monkeypatch.setattr(in_stages, "run_frames", tick)
    stage = Tenant(name="stage 0", core=0, frames=(frame(), frame(), frame()))
    found = run_stages(None, [stage])
    assert (found.ticks, found.stopped) == ((ran, ran), True)
