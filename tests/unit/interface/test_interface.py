# SPDX-License-Identifier: Apache-2.0
"""What the public functions refuse, in which words, and what a study's result tells."""

import contextlib
import inspect
import pickle
from collections import Counter
from typing import ClassVar

import numpy as np
import pytest
from support.randomness import fresh_rng

import tilewright as tw
from tilewright.cli.tune import tune as tune_command
from tilewright.interface import networks as networks_module
from tilewright.interface import simulate as simulate_module
from tilewright.tuner.measure import oracle
from tilewright.tuner.search.registry import TUNERS
from tilewright.tuner.study import conduct as conduct_module

LAYER = tw.conv2d("example", 14, 16, 16, kernel=3, pad=1, stride=1)
SMALL = tw.dense("fc", rows=4, features_in=64, features_out=16)


class Sampler(tw.Tuner):
    """A tuner that has nothing of its own: the base class draws."""

    made: ClassVar[Counter[str]] = Counter()

    def _propose(self):
        type(self).made["proposed"] += 1

    def _learn(self, result):
        type(self).made["learned"] += 1


class Boasting(Sampler):
    def _propose(self):
        return "fast"


class Backwards(Sampler):
    """Proposes positions from the end, as Python lists have them, and as a list."""

    def _propose(self):
        return [-1 for _ in self.space.knobs]


class Failing(Sampler):
    def _propose(self):
        raise KeyError("x")


class Deaf(Sampler):
    def _learn(self, result):
        raise ZeroDivisionError("tell")


class Bare(Sampler):
    def __init__(self, space):
        super().__init__(space, seed=0)


class Silent(Sampler):
    def ask(self, n):
        return []


class Parrot(Sampler):
    def ask(self, n):
        return super().ask(1) * 2


def tuned(folder, **changes):
    return tw.tune(
        LAYER, **{"hw": "tiny-4x4", "budget": 6, "fidelity": "twin", "runs": folder, **changes}
    )


# -- simulate -----------------------------------------------------------------------------------


def test_every_fidelity_counts_the_same_cycles_and_says_whether_it_checked():
    runs = {f: tw.simulate(SMALL, hw="tiny-4x4", fidelity=f) for f in ("rtl", "dpi", "twin")}
    assert len({run.cycles for run in runs.values()}) == 1
    assert {name: run.output_checked for name, run in runs.items()} == {
        "rtl": True, "dpi": True, "twin": False,
    }  # fmt: skip


def test_a_run_over_its_limit_is_an_error():
    with pytest.raises(tw.TilewrightError, match="100"):
        tw.simulate(LAYER, hw="tiny-4x4", max_cycles=100)


def test_a_wrong_output_is_an_error_and_never_a_cycle_count(monkeypatch):
    monkeypatch.setattr(oracle, "compare", lambda actual, expected: "1 element differs")
    with pytest.raises(simulate_module.WrongOutputError, match="1 element differs"):
        tw.simulate(SMALL, hw="tiny-4x4")


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: tw.load_hwconfig(5), "hw"),
        (lambda: tw.load_board(None), "board"),
        (lambda: tw.load_network(None), "model"),
        (lambda: tw.run(None), "network"),
        (lambda: tw.run("x.tw", {"a": 5}), "inputs"),
        (lambda: tw.compile("x.onnx", calibration=[np.zeros(3)]), "calibration"),
        (lambda: tw.compile("x.onnx", mean=["a"]), "mean"),
        (lambda: tw.make_tuner(int, tw.schedule_space(SMALL, "tiny-4x4")), "tuner"),
        (lambda: tw.make_tuner(tw.Tuner, tw.schedule_space(SMALL, "tiny-4x4")), "tuner"),
        (lambda: tw.make_tuner("random", tw.schedule_space(SMALL, "tiny-4x4"), seed=-1), "seed"),
    ],
)
def test_a_value_of_a_wrong_type_is_told_by_its_argument(call, field):
    with pytest.raises(tw.TilewrightError) as caught:
        call()
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


WRONG = (None, 5, -1.5, True, float("nan"), "no such", "", b"x", [], [None], {}, {"a": 5}, object())
"""Values of which few fit any one argument."""

CALLS = {
    "simulate": {"workload": SMALL, "hw": "tiny-4x4", "fidelity": "twin"},
    "legal": {"hw": "tiny-4x4", "workload": SMALL, "schedule": None},
    "lower": {"hw": "tiny-4x4", "workload": SMALL},
    "default_schedule": {"hw": "tiny-4x4", "workload": SMALL},
    "schedule_space": {"workload": SMALL, "hw": "tiny-4x4"},
    "make_tuner": {"tuner": "random", "space": tw.schedule_space(SMALL, "tiny-4x4")},
    "open_device": {"hw": "tiny-4x4", "fidelity": "reference"},
    "open_network": {"network": "no such", "task": "detect"},
    "open_bundle": {"folder": "no such"},
    "connect_device": {"agent": "127.0.0.1:7425", "token_file": "no such"},
    "compile": {"model": "examples/digits/digits.onnx"},
    "run": {"network": "no such"},
    "tune": {"model": SMALL, "fidelity": "twin"},
    "load_study": {"runs": "no such"},
    "load_board": {"name_or_path": "pynq-z2"},
    "load_hwconfig": {"name_or_path": "tiny-4x4"},
    "load_network": {"model": "vta-resnet18"},
    "read_table": {"path": "no such"},
    "compare": {"studies": []},
    "conv2d": {"name": "c", "size": 4, "channels_in": 4, "channels_out": 4, "kernel": 1, "pad": 0,
               "stride": 1},
    "dense": {"name": "d", "rows": 1, "features_in": 4, "features_out": 4},
    "depthwise": {"name": "w", "size": 4, "channels": 4, "kernel": 1, "pad": 0, "stride": 1},
    "maxpool": {"name": "m", "size": 4, "channels": 4, "kernel": 2, "pad": 0, "stride": 2},
}  # fmt: skip
"""Every public function with arguments that work, or fail at the last moment."""


def test_every_public_function_is_called_with_wrong_values():
    assert {name for name in tw.__all__ if inspect.isfunction(getattr(tw, name))} == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_public_function_ends_in_an_error_of_ours_or_in_none(name, monkeypatch, tmp_path):
    def stop(*args, **kwargs):
        raise tw.TilewrightError("as far as this test goes")

    monkeypatch.chdir(tmp_path)  # some values are names of files to write
    monkeypatch.setattr(conduct_module, "run_study", stop)
    monkeypatch.setattr(networks_module, "compile_model", stop)
    function = getattr(tw, name)
    names = [
        p.name for p in inspect.signature(function).parameters.values() if p.kind != p.VAR_KEYWORD
    ]
    for argument in names:
        for value in WRONG:
            with contextlib.suppress(tw.TilewrightError):
                function(**{**CALLS[name], argument: value})


def test_a_layer_a_schedule_and_a_memory_are_taken_by_name_as_objects_and_from_files(tmp_path):
    schedule = tw.default_schedule("pynq-16x16", "C8")
    file = tmp_path / "schedule.yaml"
    file.write_text("".join(f"{key}: {value}\n" for key, value in schedule.to_mapping().items()))
    board = tw.load_board("pynq-z2")
    layer = tw.load_network("vta-resnet18")["C8"]
    runs = [
        tw.simulate("C8", fidelity="twin"),
        tw.simulate("vta-resnet18:C8", str(file), memory="board", fidelity="twin"),
        tw.simulate(layer, file, memory=board, hw=tw.load_hwconfig("pynq-16x16"), fidelity="twin"),
        tw.simulate(layer, schedule, memory=board.memory, fidelity="twin"),
    ]
    assert len({run.cycles for run in runs}) == 1
    assert tw.legal("pynq-16x16", "C8", file).ok
    assert tw.lower("pynq-16x16", "C8", file).schedule == schedule
    assert tw.schedule_space("C8").encode(schedule)
    with pytest.raises(tw.TilewrightError, match="did you mean") as caught:
        tw.simulate("C88")
    assert caught.value.field == "layer"


def test_tune_has_what_the_command_has():
    arguments = set(inspect.signature(tw.tune).parameters)
    options = set(inspect.signature(tune_command).parameters) - {"json"}
    assert arguments - {"progress"} == options - {"source"}  # which tunes nothing


# -- search -------------------------------------------------------------------------------------


def test_equal_seeds_propose_equal_points():
    space = tw.schedule_space(LAYER, "tiny-4x4")
    seed = int(fresh_rng().integers(1 << 30))
    first, second = (tw.make_tuner("random", space, seed=seed).ask(5) for _ in range(2))
    assert first == second


def test_a_memory_for_another_space_is_refused():
    class Numbers(tw.Space):
        def decode(self, index):
            return index[0]

        def encode(self, point):
            return (point,)

        def _refusal(self, index):
            return ""

    space = Numbers([tw.Knob(name="n", values=(0, 1, 2))])
    assert len(tw.make_tuner("random", space).ask(9)) == 3
    with pytest.raises(tw.TilewrightError, match="schedule spaces alone"):
        tw.make_tuner("tilewright", space, memory="ideal")


@pytest.mark.parametrize("name", TUNERS)
def test_a_tuner_of_a_real_layer_travels_to_another_process(name):
    space = tw.schedule_space(tw.load_network("vta-resnet18")["C8"], "pynq-16x16")
    tuner = tw.make_tuner(name, space, seed=1, memory="pynq-z2")
    for candidate in tuner.ask(2):
        tuner.tell([tw.Result(index=candidate.index, value=1e5)])
    assert pickle.loads(pickle.dumps(tuner)).ask(1) == tuner.ask(1)


# -- studies ------------------------------------------------------------------------------------


def test_a_tuner_of_ones_own_makes_a_study_which_the_same_call_reads_from_its_store(tmp_path):
    Sampler.made.clear()
    study = tuned(tmp_path, tuner=Sampler)
    assert study.settings["tuner"].endswith(":Sampler")
    assert Sampler.made["learned"] == study.measurements == 6
    assert study.report.is_file()
    again = tuned(tmp_path, tuner=Sampler)
    assert (again.name, again.cycles) == (study.name, study.cycles)
    read = tw.load_study(runs=tmp_path)
    assert (read.name, read.schedules, read.report) == (study.name, study.schedules, study.report)


def test_a_study_tells_what_a_simulation_of_its_choice_counts(tmp_path):
    study = tuned(tmp_path)
    [layer] = study.layers
    run = tw.simulate(LAYER, layer.schedule, hw=study.hw, fidelity="twin")
    assert run.cycles == layer.cycles == study.cycles
    assert run.bound_cycles <= layer.bound_cycles == study.bound_cycles <= study.cycles
    assert study.untuned_cycles == tw.simulate(LAYER, hw=study.hw, fidelity="twin").cycles
    clock = tw.load_board("pynq-z2").clock_mhz
    assert study.milliseconds == pytest.approx(study.cycles / clock / 1e3)


def test_a_study_per_layer_has_no_single_configuration(tmp_path):
    study = tuned(tmp_path, mode="per-layer", hw=None, base="tiny-4x4", budget=8, configs=2)
    assert study.layers[0].hw.name
    with pytest.raises(tw.TilewrightError, match="no single configuration"):
        _ = study.hw


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Boasting, "one integer per knob, not 'fast'"), (Failing, "failed with KeyError: 'x'"),
        (Deaf, "failed with ZeroDivisionError: tell"), (Bare, "failed with TypeError"),
        (Silent, "must propose a new candidate each"), (Parrot, "must propose a new candidate"),
    ],
)  # fmt: skip
def test_a_tuner_of_ones_own_that_breaks_is_told_in_one_line(tmp_path, kind, wrong):
    with pytest.raises(tw.TilewrightError, match=wrong) as caught:
        tuned(tmp_path, tuner=kind)
    assert kind.__name__ in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_position_outside_its_knob_names_no_point():
    space = tw.schedule_space(LAYER, "tiny-4x4")
    for index in ((-1,) * len(space.knobs), (999,) * len(space.knobs), (0,), ()):
        assert not space.valid(index)
    candidates = tw.make_tuner(Backwards, space).ask(4)
    assert all(min(candidate.index) >= 0 for candidate in candidates)


def test_a_tuner_that_cannot_be_found_again_is_refused(tmp_path):
    class Inner(Sampler):
        pass

    with pytest.raises(tw.TilewrightError, match="top level of its module"):
        tuned(tmp_path, tuner=Inner)


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"tuner": "nobody"}, "tuner"), ({"layers": ["C9"]}, "layer"), ({"budget": 0}, "budget"),
        ({"configs": 3}, "configs"), ({"board": "pynq"}, "board"), ({"mode": "both"}, "mode"),
        ({"objective": "joy"}, "objective"), ({"fidelity": "fast"}, "fidelity"),
        ({"name": "a\nb"}, "name"), ({"name": 5}, "name"), ({"budget": 8.5}, "budget"),
        ({"budget": "8"}, "budget"), ({"seed": 1.5}, "seed"), ({"seed": -1}, "seed"),
        ({"layers": "C10"}, "layers"), ({"layers": [10]}, "layers"), ({"tuner": 5}, "tuner"),
        ({"without": "prior"}, "without"), ({"allocator": tw.Allocator}, "allocator"),
        ({"objective": None}, "objective"), ({"energy": 5}, "energy"),
        ({"workers": 0}, "workers"), ({"workers": "a"}, "workers"), ({"seconds": -1}, "seconds"),
        ({"seconds": float("nan")}, "seconds"), ({"seconds": "x"}, "seconds"),
        ({"hw": 5}, "hw"), ({"board": None}, "board"), ({"memory": 5}, "memory"),
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused_by_name(tmp_path, words, field):
    with pytest.raises(tw.TilewrightError) as caught:
        tuned(tmp_path, **words)
    assert caught.value.field == field
    assert "--" not in str(caught.value), "Python has arguments, no options"


# -- networks -----------------------------------------------------------------------------------


def test_a_network_is_refused_on_a_device_without_data():
    with pytest.raises(tw.TilewrightError, match="must move data") as caught:
        tw.run("x.tw", device="twin")
    assert caught.value.field == "device"
