# SPDX-License-Identifier: Apache-2.0
"""A layer ends when its best is proven; studies resume to that end, and are repeated from YAML."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.command_line import call, refusal, rows
from support.randomness import fresh_rng, sample
from support.search.drawn_layers import KINDS, drawn_space, legal_points

import tilewright as tw
from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.board import load_board, load_memory
from tilewright.host.machine.hwconfig import TUNED, load_hwconfig
from tilewright.host.network.network_table import NetworkTable
from tilewright.host.network.workload import Workload, conv2d, depthwise
from tilewright.sim.twin.device import Twin
from tilewright.sim.twin.native_lowering import NativeLowering
from tilewright.tuner.exhaustive.prove import Prover
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.options import share_of
from tilewright.tuner.study.repeat import tuned_mapping
from tilewright.tuner.study.results import StudyResult, load_result

A, B = conv2d("A", 8, 16, 16, 3, 1, 1, count=2), depthwise("B", 8, 16, 3, 1)
NETWORK = NetworkTable(name="two", workloads=(A, B))
HW = load_hwconfig("tiny-4x4")
ROOMY = replace(
    load_board("zcu104"), lut=10**7, ff=10**7, bram36=10**5, dsp=10**5, axi_data_bits=512,
    axi_burst_beats=64,
)  # fmt: skip


def optimum(task: Workload, *configs: str) -> int:
    """By enumeration of every legal schedule on ideal memory."""
    found = []
    for name in configs or ("tiny-4x4",):
        hw = load_hwconfig(name)
        points = legal_points(ScheduleSpace(task, hw, host_rules(), "full"))
        batch = Twin(hw, load_memory("ideal")).batch(NativeLowering(hw, task), points)
        found.append(int(batch.cycles.min()))
    return min(found)


def tune(runs: Path, **changes: Any) -> tw.Study:
    given = {"hw": HW, "memory": "ideal", "fidelity": "twin", "within": 0.01, "runs": runs}
    return tw.tune(**{"model": NETWORK, "name": "s", "budget": 80, **given, **changes})


def result_of(runs: Path, name: str = "s") -> StudyResult:
    with Store(runs / "studies.sqlite") as store:
        return load_result(store, name)


def trials(runs: Path) -> list[tuple[Any, ...]]:
    with Store(runs / "studies.sqlite") as store:
        found = store.trials(store.study("s").id)
    return [(t.sequence, t.task, t.origin, t.schedule, t.measurement.cycles) for t in found]


def test_every_layer_ends_proven_and_measurements_are_saved(tmp_path) -> None:
    study = tune(tmp_path)
    assert study.measurements < 40
    for layer, task in zip(study.layers, (A, B), strict=True):
        best = optimum(task)
        assert layer.bound_cycles <= best <= layer.cycles <= 1.01 * best
        assert layer.cycles <= 1.01 * layer.bound_cycles
    result = result_of(tmp_path)
    assert (result.unproven, result.saved) == ([], 80 - study.measurements)


def test_without_tolerance_the_best_is_the_optimum(tmp_path) -> None:
    study = tune(tmp_path, within=0.0)
    assert [layer.cycles for layer in study.layers] == [optimum(A), optimum(B)]
    assert study.bound_cycles == study.cycles


def test_what_a_proof_finds_is_measured_as_a_trial(tmp_path) -> None:
    study = tune(tmp_path, within=0.0, tuner="random", seed=3)
    origins = {origin for _, _, origin, *_ in trials(tmp_path)}
    assert "proof" in origins
    assert study.cycles == 2 * optimum(A) + optimum(B)


def test_a_study_that_was_interrupted_in_a_proof_takes_the_same_course(
    tmp_path, monkeypatch
) -> None:
    tune(tmp_path / "whole")
    prove, asked = Prover.prove, []

    def interrupted(self, *words, **more):
        asked.append(words)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return prove(self, *words, **more)

    monkeypatch.setattr(Prover, "prove", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path / "part")
    tune(tmp_path / "part")
    assert trials(tmp_path / "part") == trials(tmp_path / "whole")
    assert len(asked) == 3, "the first proof came from the store"


def test_a_study_that_is_run_again_proves_nothing_again(tmp_path, monkeypatch) -> None:
    first = tune(tmp_path)
    monkeypatch.setattr(Prover, "prove", None)
    again = tune(tmp_path)
    assert [layer.proof for layer in again.layers] == [layer.proof for layer in first.layers]


def test_a_proof_without_time_is_told_as_not_proven(tmp_path) -> None:
    study = tune(tmp_path, proof_seconds=0, budget=30, model=B)
    assert study.measurements == 30
    assert study.layers[0].bound_cycles <= optimum(B)
    result = result_of(tmp_path)
    assert (len(result.unproven), result.saved) == (1, 0)
    text = call("report", "s", "--runs", str(tmp_path)).stdout
    assert "not proven: gap " in text
    assert "0 of 1 layer proven within 1 %: 30 of 30 measurements made; the proofs ran" in text


def test_a_limit_in_seconds_ends_no_proof_halfway(tmp_path) -> None:
    tune(tmp_path / "whole")
    with contextlib.suppress(TilewrightError):  # no layer may have had a measurement by then
        tune(tmp_path / "part", seconds=0.05)
    tune(tmp_path / "part")
    assert trials(tmp_path / "part") == trials(tmp_path / "whole")


def test_a_layer_of_its_own_configuration_is_proven_over_all_of_them(tmp_path) -> None:
    study = tune(
        tmp_path, model=A, mode="per-layer", hw=None, base="tiny-4x4", configs=2, memory="ideal"
    )
    layer = study.layers[0]
    tried = [config.hw["name"] for config in result_of(tmp_path).configs]
    assert len(tried) == 2
    assert layer.proof is not None
    assert layer.proof.proven
    assert layer.cycles <= 1.01 * layer.proof.bound


def test_a_network_on_the_best_of_some_configurations_is_proven_there(tmp_path) -> None:
    study = tune(tmp_path, hw=None, base="tiny-4x4", configs=3, budget=120)
    assert all(layer.cycles <= 1.01 * layer.bound_cycles for layer in study.layers)
    assert study.measurements < 120
    result = result_of(tmp_path)
    assert len(result.configs) == 3
    assert result.bound_of_configs is not None
    assert result.bound_of_configs <= study.bound_cycles
    text = call("report", "s", "--runs", str(tmp_path)).stdout
    assert f"fewer than {result.bound_of_configs:,} cycles" in text


def test_a_budget_that_has_no_measurement_for_what_a_proof_found_says_so(tmp_path) -> None:
    study = tune(tmp_path, model=A, within=0.0, budget=2, tuner="random")
    best = optimum(A)
    assert study.layers[0].cycles > best == study.layers[0].bound_cycles
    text = call("report", "s", "--runs", str(tmp_path)).stdout
    assert f"one takes {best:,}, for which the budget had no measurement" in text
    assert "not proven: gap " in text
    (row,) = rows("report", "s", "--runs", str(tmp_path))
    assert (row["proof"]["proven"], row["proof"]["cycles"]) == (False, best)


@pytest.mark.parametrize("number", sample(3, 30))
def test_what_is_told_of_drawn_networks_holds_against_their_enumeration(number, tmp_path) -> None:
    rng = fresh_rng()
    given = [drawn_space(rng, str(kind), most=4000) for kind in rng.choice(KINDS, 3)]
    hw, memory = given[0][0].hw, given[0][1]
    if rng.random() < 0.5:  # each trial takes far longer than the layer's bound says
        memory = replace(memory, read_latency=2000, max_reads=1)
    kind, within = str(rng.choice(["full", "vta"])), float(rng.choice([0, 0.001, 0.01, 0.2]))
    optima: dict[str, int] = {}
    tasks = []
    for place, (space, _) in enumerate(given):
        task = space.workload.renamed(f"L{place}")
        known = ScheduleSpace(task, hw, host_rules(), kind)
        points = legal_points(known)
        if len(points) and task.key not in {each.key for each in tasks}:
            lowering = NativeLowering(hw, task)
            optima[task.name] = int(Twin(hw, memory).batch(lowering, points).cycles.min())
            tasks.append(task)
    study = tw.tune(
        NetworkTable(name="drawn", workloads=tuple(tasks)), hw=hw, board=ROOMY, memory=memory,
        fidelity="twin", space=kind, within=within, name="s",
        budget=int(rng.integers(len(tasks), 40)), runs=tmp_path,
        tuner=str(rng.choice(["tilewright", "random", "genetic"])),
    )  # fmt: skip
    assert len(study.layers) == len(tasks)
    for row in rows("report", "s", "--runs", str(tmp_path)):
        best, bound, optimum = row["best_cycles"], row["bound_cycles"], optima[row["name"]]
        assert bound <= optimum <= best
        if row["proof"] is not None and row["proof"]["proven"]:
            assert best <= (1 + within) * bound


@pytest.mark.parametrize("budget", range(2, 6))
def test_a_proof_of_the_first_measurement_leaves_the_budget_right(tmp_path, budget) -> None:
    # The untuned schedule of C is not in space vta, so that its search starts elsewhere.
    tasks = (A, conv2d("C", 7, 8, 24, 1), conv2d("D", 8, 64, 64, 3, 1, 1))
    network = NetworkTable(name="three", workloads=tasks[: min(budget, 3)])
    study = tune(tmp_path, model=network, space="vta", within=0.9, budget=budget, tuner="random")
    assert len(study.layers) <= study.measurements <= budget


def test_a_certificate_names_the_space_that_it_speaks_of(tmp_path) -> None:
    tune(tmp_path, space="vta")
    text = call("report", "s", "--runs", str(tmp_path)).stdout
    assert "no schedule of space vta takes fewer" in text
    assert "of the bound of space vta of " in text


def test_the_screened_study_tells_the_proofs_of_its_search(tmp_path) -> None:
    study = tune(tmp_path, screen=True, fidelity="timing", model=B)
    assert study.layers[0].proof is not None
    result = result_of(tmp_path)
    assert result.screening is not None
    assert result.tasks[0].proof == result.screening.tasks[0].proof
    assert result.saved == 80 - study.measurements


def test_bounds_of_small_layers_are_those_of_their_schedules_without_a_tolerance(tmp_path) -> None:
    study = tune(tmp_path, within=None, budget=8)
    loose = [host_rules().bound(HW, task, load_memory("ideal")).cycles for task in (A, B)]
    for layer, task, bound in zip(study.layers, (A, B), loose, strict=True):
        assert bound < layer.bound_cycles <= optimum(task)
        assert layer.proof is None


@pytest.mark.parametrize(("text", "share"), [("1%", 0.01), (" 2.5% ", 0.025), ("0.01", 0.01),
                                             ("0", 0.0), (None, None)])  # fmt: skip
def test_a_share_is_typed_in_percent_or_as_a_number(text, share) -> None:
    assert share_of(text) == share


@pytest.mark.parametrize("text", ["much", "1", "150%", "-1%", "nan", ""])
def test_a_share_that_is_none_is_refused_as_it_was_typed(text) -> None:
    with pytest.raises(TilewrightError, match="--within: must be a share") as refused:
        share_of(text)
    assert refused.value.value == text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"within": -0.1}, "within: must be a share from 0 to 0.99"),
        ({"within": float("nan")}, "within: must be a share"),
        ({"proof_seconds": -1}, "proof_seconds: must be a number"),
        (
            {"memory": replace(load_memory("ideal"), name="rough", stall_percent=20)},
            "within: proves cycles of a memory without random stalls",
        ),
        ({"objective": "edp"}, "within: proves cycles alone, not 'objective edp'"),
        (
            {"fidelity": "board", "boards": "pool.yaml"},
            "within: proves cycles of the modelled memory, which is not a board's",
        ),
    ],
)
def test_what_cannot_be_proven_is_refused(tmp_path, changes, message) -> None:
    with pytest.raises(TilewrightError, match=message):
        tune(tmp_path, **changes)


# -- the file of what was found -------------------------------------------------------------------


def test_the_yaml_of_a_study_is_measured_again_and_equal(tmp_path) -> None:
    arguments = ("vta-resnet18", "--layers", "C10", "--hw", "tiny-4x4", "--budget", "10")
    places = ("--runs", str(tmp_path), "--name", "s", "--fidelity", "twin")
    (row,) = rows("tune", *arguments, *places, "--within", "30%")
    assert row["proof"]["proven"]
    assert row["gap"] <= 0.3
    file = tmp_path / "s.yaml"
    assert load_hwconfig(file).parameters() == HW.parameters()
    (again,) = rows("tune", "--from", str(file), "--fidelity", "twin")
    assert (again["equal"], again["cycles"]) == (True, row["best_cycles"])
    assert again["schedule"] == row["schedule"]
    other = yaml.safe_load(file.read_text())
    other["tuned"]["layers"][0]["cycles"] += 1
    changed = tmp_path / "changed.yaml"
    changed.write_text(yaml.safe_dump(other))
    (wrong,) = rows("tune", "--from", str(changed), "--fidelity", "twin", code=1)
    assert not wrong["equal"]
    document = json.loads(call("report", "s", "--runs", str(tmp_path), "--json", "-").stdout)
    assert document["summary"]["unproven"] == []
    assert document["conditions"]["within"] == pytest.approx(0.3)


CHANGES = {
    "tile_h": (lambda t: t["layers"][0]["schedule"].update(tile_h=500), "A.schedule: is not legal"),
    "tile_co": (lambda t: t["layers"][1]["schedule"].update(tile_co=99), "tile_co_extent"),
    "no layers": (lambda t: t.update(layers=[]), "at least one workload"),
    "twice": (lambda t: t["layers"].append(t["layers"][0]), "must differ in"),
    "no name": (lambda t: t["layers"][0]["workload"].update(name=""), "name: must be text"),
    "pool": (lambda t: t["layers"][1]["workload"].update(kind="maxpool"), "B.kind: has no"),
    "stalls": (lambda t: t["memory"].update(stall_percent=3), "random stalls"),
    "memory": (lambda t: t["memory"].update(speed=3), "tuned.memory: speed: unknown key"),
    "cycles": (lambda t: t["layers"][0].update(cycles=1 << 61), "where an integer"),
}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory) -> str:
    """What is written of a study, as JSON."""
    folder = tmp_path_factory.mktemp("tuned")
    tune(folder)
    return json.dumps({"name": HW.name, **HW.parameters(), TUNED: tuned_mapping(result_of(folder))})


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_whose_layers_cannot_run_is_refused_before_any_does(tmp_path, tuned, change) -> None:
    data = json.loads(tuned)
    edit, part = CHANGES[change]
    edit(data["tuned"])
    file = tmp_path / "edited.yaml"
    file.write_text(json.dumps(data))
    line = refusal("tune", "--from", str(file), "--fidelity", "twin")
    assert part in line, line


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("resnet18", "--within", "0.995"), ("--within", "to 99 %")),
        (("--from", "none.yaml"), ("none.yaml", "readable")),
        (("--from", "pynq.yaml"), ("pynq.yaml", "the YAML file that tune writes")),
        (("--from", "pynq.yaml", "--seed", "3"), ("--seed", "leave --from out")),
        (("resnet18", "--from", "pynq.yaml"), ("MODEL", "leave --from out")),
        ((), ("MODEL", "a network must be named")),
        (("resnet18", "--within", "lots"), ("--within", "1% or 0.01")),
    ],
)
def test_a_repetition_that_cannot_be_made_is_refused(tmp_path, monkeypatch, words, parts) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pynq.yaml").write_text(replace(HW, name="x").to_yaml())
    line = refusal("tune", *words)
    assert all(part in line for part in parts), line
