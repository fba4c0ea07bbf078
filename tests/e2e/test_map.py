# SPDX-License-Identifier: Apache-2.0
"""`tilewright map` as a user runs it."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from e2e.command import arguments, environment, tilewright
from support.documents.json_members import wrong_in

from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import CostModel
from tilewright.tuner.mapping.mapping import mapping_from
from tilewright.tuner.mapping.nest import LoopNest


def test_a_layer_gives_its_loops_files_and_a_proof(tmp_path: Path) -> None:
    done = tilewright(
        *("map", "vta-resnet18:C10", "--objective", "latency", "--output", "out"),
        *("--json", "found.json"),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "multiply and add a tile of" in done.stdout
    document = json.loads((tmp_path / "found.json").read_text())
    assert wrong_in(document) == []
    assert document["summary"]["certified"] is True
    (row,) = document["rows"]
    nest = LoopNest(name="C10", sizes=tuple(row["sizes"]))
    cost = CostModel(nest, load_architecture("flexible-256")).cost(mapping_from(row["mapping"]))
    assert row["value"] == row["bound"] == cost["cycles"]
    assert yaml.safe_load((tmp_path / "out" / "C10.yaml").read_text())["mapping"] == row["mapping"]
    assert yaml.safe_load((tmp_path / "out" / "C10.timeloop.yaml").read_text())["mapping"]
    assert yaml.safe_load((tmp_path / "out" / "C10.zigzag.yaml").read_text())[0]["name"]


def test_a_network_maps_its_distinct_layers_once(tmp_path: Path) -> None:
    done = tilewright(
        *("map", "transformer_encoder", "--hardware", "nvdla-like", "--json", "-"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert len(document["rows"]) == 5
    assert sum(row["count"] for row in document["rows"]) == 132
    assert document["summary"]["cycles"] == sum(
        row["count"] * row["cost"]["cycles"] for row in document["rows"]
    )
    assert "cycles, energy of" in done.stderr


def test_another_method_searches_within_its_budget(tmp_path: Path) -> None:
    done = tilewright(
        *("map", "resnet18:C2", "--method", "random", "--budget", "200", "--json", "-"),
        cwd=tmp_path,
    )
    document = json.loads(done.stdout)
    assert document["rows"][0]["samples"] == 200
    assert document["summary"]["certified"] is False
    assert "not proven" in done.stderr


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
    ids=["SIGINT", "SIGTERM"],
)
def test_a_signal_keeps_the_best_of_the_layer_at_work(
    number: int, code: int, word: str, tmp_path: Path
) -> None:
    lines = [
        "import os, time",
        "from tilewright.tuner.mapping.methods.mapper import Mapper",
        "",
        "class Stopping(Mapper):",
        "    layers = 0",
        "",
        "    def _search(self, probe, rng):",
        "        Stopping.layers += 1",
        "        probe.values(probe.space.decode_batch(probe.space.sample_batch(rng, 5)))",
        "        if Stopping.layers == 2:",
        f"            os.kill(os.getpid(), {int(number)})",
        "            time.sleep(60)",
    ]
    (tmp_path / "stopping.py").write_text("\n".join(lines))
    done = tilewright(
        *("map", "resnet18", "--layers", "C10,C8", "--method", "stopping:Stopping"),
        *("--output", "out", "--json", "found.json"),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (code, f"{word}\n")
    document = json.loads((tmp_path / "found.json").read_text())
    assert wrong_in(document) == []
    assert [row["stopped"] for row in document["rows"]] == [False, True]
    assert document["summary"]["certified"] is False
    last = document["rows"][1]["layer"]
    assert f"{last} was stopped: its best mapping so far" in done.stdout
    assert (tmp_path / "out" / f"{last}.zigzag.yaml").exists()


def test_an_error_keeps_what_is_done(tmp_path: Path) -> None:
    lines = [
        "from tilewright.tuner.mapping.methods.mapper import MapperError",
        "from tilewright.tuner.mapping.methods.baselines import RandomMapper",
        "",
        "class Failing(RandomMapper):",
        "    layers = 0",
        "",
        "    def _search(self, probe, rng):",
        "        Failing.layers += 1",
        "        if Failing.layers == 2:",
        '            raise MapperError("cannot", field="here")',
        "        super()._search(probe, rng)",
    ]
    (tmp_path / "failing.py").write_text("\n".join(lines))
    done = tilewright(
        *("map", "resnet18", "--layers", "C2,C10", "--method", "failing:Failing"),
        *("--budget", "20", "--json", "found.json"),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (2, "error: here: cannot\n")
    assert "1 of 2 layers" in done.stdout
    assert len(json.loads((tmp_path / "found.json").read_text())["rows"]) == 1


def test_layers_of_like_names_have_files_of_their_own(tmp_path: Path) -> None:
    table = "layers:\n" + "".join(
        f"  - {{name: '{name}', height: {at}, width: 4, channels_in: 4, channels_out: 4}}\n"
        for at, name in enumerate(("a b", "a_b", "A:b", "n" * 300), 4)
    )
    (tmp_path / "layers.yaml").write_text(table)
    done = tilewright("map", "layers.yaml", "--output", "out", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((tmp_path / "out").iterdir())) == 12


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    with subprocess.Popen(
        arguments(
            *("map", "vgg16", "--objective", "energy", "--output", "out"), *("--json", "found.json")
        ),
        cwd=tmp_path, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 240
        while not list((tmp_path / "out").glob("*.zigzag.yaml")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        shown, told = process.communicate(timeout=240)
    assert process.returncode == 130, told
    assert told == "interrupted\n"
    document = json.loads((tmp_path / "found.json").read_text())
    assert wrong_in(document) == []
    assert document["summary"]["certified"] is False
    assert 1 <= len(document["rows"]) < 12
    assert f"{len(document['rows'])} of 12 layers" in shown


def test_a_written_mapping_costs_the_same_when_it_is_evaluated(tmp_path: Path) -> None:
    """Also on the architecture and for the objective that the file names."""
    options = ("--hardware", "eyeriss-like", "--objective", "latency", "--fix", "clusters=4")
    done = tilewright(
        *("map", "vta-resnet18:C10", *options, "--output", "out", "--json", "found.json"),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads((tmp_path / "found.json").read_text())
    assert document["conditions"]["fixed"] == {"clusters": 4}
    (row,) = document["rows"]
    assert row["mapping"]["clusters"] == 4
    for ending, named in (
        (".yaml", ()),
        (".timeloop.yaml", options[:4]),
        (".zigzag.yaml", options[:4]),
    ):
        words = ("--evaluate", f"out/C10{ending}", *named, "--seconds", "1", "--json", "-")
        done = tilewright("map", "vta-resnet18:C10", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert wrong_in(document) == []
        (judged,) = document["rows"]
        if ending == ".yaml":
            assert judged["cost"] == judged["stated_cost"] == row["cost"]
            assert judged["value"] == row["value"] >= judged["best_value"]
        assert judged["bound"] <= judged["best_value"]
        assert "above the best mapping" in done.stderr
        assert "another cost" not in done.stderr


def test_an_illegal_mapping_is_told_with_what_is_too_much(tmp_path: Path) -> None:
    tilewright("map", "vta-resnet18:C10", "--method", "random", "--budget", "9", "--output", "out",
               cwd=tmp_path)  # fmt: skip
    path = tmp_path / "out" / "C10.yaml"
    document = yaml.safe_load(path.read_text())
    for level in ("outer", "inner"):
        document["mapping"][level]["tile"] = dict.fromkeys("KCYX", 7) | {"R": 1, "S": 1}
    path.write_text(yaml.safe_dump(document))
    done = tilewright("map", "vta-resnet18:C10", "--evaluate", "out/C10.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "l1_bytes: tiles must fit the buffer of 512 bytes" in done.stderr
    assert "bytes less" in done.stderr


def test_a_front_ends_with_the_least_of_each(tmp_path: Path) -> None:
    done = tilewright("map", "vta-resnet18:C10", "--pareto", "--json", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert wrong_in(document) == []
    assert document["summary"] == {"certified": True, "mappings": len(document["rows"])}
    costs = [(row["cost"]["cycles"], row["cost"]["energy"]) for row in document["rows"]]
    assert costs == sorted(costs)
    assert [energy for _, energy in costs] == sorted((e for _, e in costs), reverse=True)


def test_a_fused_pair_is_certified_beside_its_layers(tmp_path: Path) -> None:
    pair = "b15.depthwise+b15.project"
    done = tilewright("map", "mobilenet_v2", "--fuse", pair, "--json", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert wrong_in(document) == []
    assert document["summary"] == {"certified": True}
    (row,) = document["rows"]
    assert row["value"] == row["bound"] == row["cost"]["energy"] < row["alone"]["energy"]
    assert pair in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--fix", "outer.tile.K=4096"), "--fix: outer.tile.K: must be at most the loop's size"),
        (("--fix", "K=4"), "--fix: K: unknown key of a part of a mapping"),
        (("--pareto", "--objective", "edp"), "--objective: does not go with --pareto"),
        (("--pareto", "--method", "random"), "--pareto: belongs to --method exact"),
        (("--fuse", "C10+C2"), "must be what C10 makes (7)"),
        (("--fuse", "C2+C2", "--objective", "edp"), "must be a sum over both"),
        (("--fuse", "C2"), "--fuse: must be two layers with + between them"),
        (("--fuse", "C2+C3", "--fix", "clusters=4"), "--fix: does not go with --fuse"),
        (("--evaluate", "none.yaml"), "none.yaml: a mapping must be a readable file"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    target = "vta-resnet18" if "--fuse" in words else "vta-resnet18:C10"
    done = tilewright("map", target, *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
