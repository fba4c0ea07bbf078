# SPDX-License-Identifier: Apache-2.0
"""Drawing of architectures, what is made of their rows, and the page of results; without timm."""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.command_line import call
from support.documents.json_members import wrong_in

from tilewright.bench.commands import NetworksSettings
from tilewright.bench.framework.records import lines_beside
from tilewright.bench.framework.study import run_study
from tilewright.bench.networks import unseen
from tilewright.bench.networks.unseen import IN_THE_ZOO, VERSION, Unseen, drawn, families
from tilewright.bench.networks.zoo import MEMBERS

RESULTS = Path(__file__).parents[3] / "docs" / "results"
FAMILIES = {f"family{n}": [f"f{n}-{k}" for k in range(n + 1)] for n in range(6)}


# -- drawing --------------------------------------------------------------------------------------


def test_each_family_has_one_before_any_has_two() -> None:
    found = drawn(FAMILIES, 8, 1)
    assert {family for family, _ in found[:6]} == set(FAMILIES)
    assert len(set(found)) == 8
    assert all(name in FAMILIES[family] for family, name in found)


def test_what_does_not_fit_is_left_out_and_no_more_than_there_are_is_drawn() -> None:
    found = drawn(FAMILIES, 100, 1, lambda name: not name.endswith("-0"))
    assert len(found) == sum(map(len, FAMILIES.values())) - len(FAMILIES)
    assert "family0" not in dict(found)
    assert drawn({}, 3, 1) == []


def test_networks_of_the_zoo_are_not_drawn(monkeypatch) -> None:
    names = {"resnet": ["resnet18", "resnet26"], "vit": ["vit_tiny_patch16_224"]}
    package = SimpleNamespace(
        list_modules=lambda: list(names), list_models=lambda module: names[module]
    )
    monkeypatch.setattr(unseen, "load_timm", lambda: package)
    assert families() == {"resnet": ["resnet26"], "vit": []}
    assert set(IN_THE_ZOO.values()) <= set(MEMBERS)


def test_modules_that_stand_in_have_every_name() -> None:
    names = ("stands_in", "stands_in.transforms")
    try:
        for name in names:
            unseen._stand_in(name)
        found = importlib.import_module("stands_in.transforms")
        assert sys.modules["stands_in"].transforms is found
        assert isinstance(type("Own", (found.ToTensor,), {}), type)
        assert found.Mode.NEAREST != found.Mode.BILINEAR
        assert not hasattr(found, "__wrapped__")
    finally:
        for name in names:
            sys.modules.pop(name, None)


def test_without_timm_the_command_says_what_to_install(monkeypatch) -> None:
    unseen.load_timm.cache_clear()
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "timm" else find(name, *more),
    )
    done = call("bench", "networks", "--unseen")
    assert done.exit_code == 2
    assert f"pip install --no-deps {VERSION}" in done.stderr


# -- rows -----------------------------------------------------------------------------------------


def row(**more) -> dict[str, object]:
    kinds = [("Mul", "no scale", 1), ("Gather", "its indices", 2), ("Mul", "one number", 3)]
    return {
        "pixels": 224,
        "parameters": 5_000_000,
        "regions": 1,
        "operators": 10,
        "accelerated": 4,
        "accelerated_kinds": {"Conv": 4},
        "cpu_kinds": [{"kind": k, "reason": r, "count": c} for k, r, c in kinds],
        "macs": 2_000_000,
        "mac_share": 0.9,
        "cycles": 1000,
        "accelerator_milliseconds": 8.0,
        "crossings_milliseconds": 1.5,
        "cpu_milliseconds": 0.5,
        "milliseconds": 10.0,
        "cpu_and_crossings_share": 0.2,
        "bottleneck": "accelerator",
        "sqnr_db": 30.0,
        "compile_seconds": 2.0,
        "peak_mib": 700.0,
        **more,
    }


ROWS = {
    "whole": row(cpu_and_crossings_share=0.1, cpu_kinds=[]),
    "parted": row(regions=3),
    "refused": {"error": "x: must | be `small`"},
}


@pytest.fixture
def study(monkeypatch):
    """The study of three architectures, and what it measures."""
    seen = []

    def measured(measure, name, given, **limits):
        seen.append(name)
        return ROWS[name]

    monkeypatch.setattr(unseen, "limited", measured)
    monkeypatch.setattr(unseen, "families", lambda: {f"of {name}": [name] for name in ROWS})
    monkeypatch.setattr(unseen, "load_timm", lambda: None)
    monkeypatch.setattr(unseen, "fits", lambda name: True)
    return Unseen(NetworksSettings(unseen=True)), seen


def test_what_is_measured_or_has_failed_is_not_measured_again(study, tmp_path) -> None:
    built, seen = study
    path = tmp_path / "found.json"
    last = [cell["network"] for cell in built.cells()][-1]
    lines = lines_beside(path)
    kept, ROWS[last] = ROWS[last], None  # Ctrl-C, or worse
    try:
        with pytest.raises(TypeError):
            run_study(built, path=path)
        assert len(lines.read_text().splitlines()) == 3  # conditions, and two rows
    finally:
        ROWS[last] = kept
    seen.clear()
    result = run_study(built, path=path)
    assert seen == [last]
    assert {r["network"] for r in result.rows} == set(ROWS)


def test_the_document_is_the_one_that_is_told_and_each_architecture_has_a_line(study) -> None:
    built, _ = study
    document = run_study(built).document
    assert not wrong_in({"command": "tilewright bench networks --unseen", **document})
    tables = {table.title: table for table in built.tables(document)}
    assert {len(line) - len(t.header) for t in tables.values() for line in t.rows} == {0}
    assert tables["Not one region"].rows == [("parted", "3", "4 Mul, 2 Gather")]
    assert tables["Not compiled"].rows == [("refused", "`x: must / be small`")]
    assert "regions" in built.line({"network": "parted", "seconds": 1.0, **ROWS["parted"]})
    assert built.line({"network": "refused", **ROWS["refused"]}) == "refused: x: must | be `small`"


def test_the_page_of_results_has_the_tables_of_its_document() -> None:
    document = json.loads((RESULTS / "unseen_networks.json").read_text(encoding="utf-8"))
    page = (RESULTS / "unseen_networks.md").read_text(encoding="utf-8")
    built = Unseen(NetworksSettings(unseen=True))
    assert document["summary"] == built.summarise(document["rows"])
    assert document["conditions"] == built.conditions()
    assert not [t.title for t in built.tables(document) if t.markdown() not in page]
