# SPDX-License-Identifier: Apache-2.0
"""The file of certified tables, read with NumPy alone, and the page of the study that uses it."""

import contextlib
import io
import itertools
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.command_line import call, refusal
from support.randomness import fresh_rng
from support.search.arena_records import a_record

from tilewright.bench.arena import certified_tables, release, study_page, tasks
from tilewright.bench.commands import TablesSettings
from tilewright.bench.framework.coverage import INTERVALS, POPULATIONS, SIZES
from tilewright.bench.framework.study import run_study
from tilewright.bench.framework.tables import renewed
from tilewright.host.common.errors import ConfigError, StoreError
from tilewright.host.common.places import ROOT
from tilewright.host.network.workload import conv2d
from tilewright.host.network.zoo import load_network
from tilewright.sim.twin.device import Twin
from tilewright.tuner.measure.backends import identity_of

SMALL = (conv2d("one", 4, 16, 32, 3, 1, 1), conv2d("two", 4, 32, 32, 1, 0, 1))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A file of two fresh layers, whatever is hard, made as the command makes it."""
    folder = tmp_path_factory.mktemp("release")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "NETWORKS", ())
        patch.setattr(tasks, "fresh_layers", lambda seed: iter(SMALL))
        patch.setattr(release.Table, "hard", True)
        given = TablesSettings(
            fresh=2, output=folder / "tables.npz", folder=folder / "arena", workers=1
        )
        result = run_study(release.Tables(given))
    assert [row["kept"] for row in result.rows] == [True, True]
    assert result.passed
    return folder


def test_every_cycle_of_the_file_is_that_of_the_twin(made):
    for packed in release.open_tables(made / "tables.npz").values():
        table = release.unpacked(packed)
        assert table.task.id == tasks.make_task("per-layer", table.task.workload).id
        rng, legal = fresh_rng(), np.argwhere(packed.legal)
        for index in map(tuple, rng.permutation(legal)[:10].tolist()):
            point = table.task.space.decode(index)
            program = release_program(point, table.task.workload)
            cycles = Twin(point.hw, table.task.memory).counters(program).cycles
            assert packed.measure(index) == table.measure(index) == cycles
            told = packed.configuration(index)
            assert told["hw"] == point.hw.name
            asked = point.schedule.to_mapping()
            assert {k: asked[k] for k in told if k != "hw"} == {
                k: told[k] for k in told if k != "hw"
            }
        for index in map(tuple, rng.permutation(np.argwhere(~packed.legal))[:10].tolist()):
            assert packed.measure(index) is None
            assert not table.task.space.valid(index)
        assert packed.optimum == table.optimum


def release_program(point, workload):
    from tilewright.host.lowering import lower  # noqa: PLC0415  (of the one test that lowers)

    return lower(point.hw, workload, point.schedule).program


def test_the_module_beside_the_file_needs_numpy_alone(made, tmp_path):
    code = (
        "import sys\n"
        "class OnlyNumpy:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        top = name.partition('.')[0]\n"
        "        if top not in {'numpy', 'certified_tables', *sys.stdlib_module_names}:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, OnlyNumpy())\n"
        f"sys.path.insert(0, {str(made)!r})\n"
        "import certified_tables\n"
        f"for name, table in certified_tables.load({str(made / 'tables.npz')!r}).items():\n"
        "    print(name, table.optimum)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    expected = release.open_tables(made / "tables.npz")
    assert run.stdout == "".join(f"{name} {t.optimum}\n" for name, t in expected.items())


def test_a_table_in_the_t4_format_holds_every_legal_point(made, tmp_path, capsys):
    path, name = str(made / "tables.npz"), "fresh-1.two"
    assert certified_tables.main([path, name, str(tmp_path / "two.json")]) == 0
    results = json.loads((tmp_path / "two.json").read_text())["results"]
    table = certified_tables.load(path)[name]
    assert len(results) == table.legal.sum()
    for result in results:
        place = tuple(table.knobs[k].index(v) for k, v in result["configuration"].items())
        (measurement,) = result["measurements"]
        assert measurement == {
            "name": "cycles", "value": table.measure(place), "unit": "cycles"
        }  # fmt: skip
        assert result["invalidity"] == "correct"
    assert certified_tables.main([path, name, str(tmp_path / "two.json")]) == 2
    assert certified_tables.main([path, "none", str(tmp_path / "x.json")]) == 2
    assert certified_tables.main([path, name, str(tmp_path / "none" / "x.json")]) == 2
    assert certified_tables.main([path]) == 0
    assert f"{name}: {len(results)} of" in capsys.readouterr().out.replace(",", "")


def test_a_file_that_is_not_whole_is_refused(made, tmp_path):
    whole = (made / "tables.npz").read_bytes()
    rng, end = fresh_rng(), whole.rindex(b"PK\5\6") + 22  # behind it is a comment
    for number in range(12):
        cut = whole[: int(rng.integers(end))]
        path = tmp_path / f"{number}.npz"
        path.write_bytes(cut)
        with pytest.raises(StoreError, match="is no file of certified tables"):
            release.open_tables(path)
    for about in ({}, [], 3, {"format": 2}, {"format": 1, "tables": {"x": {}}}):
        content = io.BytesIO()
        np.savez(content, about=np.array(json.dumps(about)), x=np.zeros(3, np.int32))
        path.write_bytes(content.getvalue())
        with pytest.raises(StoreError, match="is no file of certified tables"):
            release.open_tables(path)


def rewritten(source, path, change):
    """A copy of a file whose description and arrays were changed."""
    with np.load(source, allow_pickle=False) as arrays:
        held = {name: arrays[name] for name in arrays}
    about = json.loads(str(held.pop("about")))
    about = change(about, held) or about
    with path.open("wb") as file:
        np.savez(file, about=np.array(json.dumps(about)), **held)
    return path


NAME = "fresh-1.two"


def _cycles_of(value):
    def change(_, held):
        cycles = held[NAME]
        cycles.flat[fresh_rng().choice(np.flatnonzero(cycles > 0))] = value

    return change


def _told(change):
    def changed(about, _):
        change(about["tables"][NAME])

    return changed


def _twice(about, held):
    about["tables"]["again"] = json.loads(json.dumps(about["tables"][NAME]))
    about["tables"]["again"]["about"]["workload"].update(name="again", count=3)
    held["again"] = held[NAME] + 5


def _knob(table):
    """A knob of several values other than the configurations."""
    names = [name for name, values in table["knobs"].items() if len(values) > 1 and name != "hw"]
    return table["knobs"][str(fresh_rng().choice(names))]


SEEN_BY_ALL = {
    "cycles 0": _cycles_of(0),
    "negative cycles": _cycles_of(-2),
    "all illegal": lambda _, held: held[NAME].fill(-1),
    "other numbers": lambda _, held: held.update({NAME: held[NAME].astype(float)}),
    "two of one task": _twice,
    "track": _told(lambda t: t["about"].update(track="x/../y")),
    "another track": _told(lambda t: t["about"].update(track="schedule")),
    "set": _told(lambda t: t["about"].update(set=["fresh"])),
    "no set": _told(lambda t: t["about"].pop("set")),
    "no twin": _told(lambda t: t["about"].pop("twin")),
    "no workload": _told(lambda t: t["about"].pop("workload")),
    "memory 5": _told(lambda t: t["about"].update(memory=5)),
    "no about": _told(lambda t: t.update(about=None)),
    "no configuration": _told(lambda t: t["about"].update(configurations=[])),
    "order of configurations": _told(lambda t: t["about"]["configurations"].reverse()),
    "a value twice": _told(lambda t: _knob(t).__setitem__(0, _knob(t)[0]) or _knob(t).append(1)),
    "unordered": _told(lambda t: t.update(unordered=["tile"])),
    "NaN": _told(lambda t: t["about"].update(count=float("nan"))),
}
SEEN_BY_ARENA = {
    "a point below the bound": _cycles_of(1),
    "a knob's values": _told(lambda t: _knob(t).__setitem__(0, 977)),
    "order of a knob": _told(lambda t: _knob(t).reverse()),
    "order of knobs": _told(lambda t: t.update(knobs=dict(reversed(t["knobs"].items())))),
    "another layer": _told(lambda t: t["about"]["workload"].update(channels_out=48)),
    "no layer": _told(lambda t: t["about"]["workload"].update(height=-3)),
    "no such key": _told(lambda t: t["about"]["workload"].update(foo=3)),
    "no such memory": _told(lambda t: t["about"].update(memory={"name": 5})),
    "ordered": _told(lambda t: t.update(unordered=[])),
}


@pytest.mark.parametrize("of", [*SEEN_BY_ALL, *SEEN_BY_ARENA])
def test_a_table_that_contradicts_its_task_is_refused(made, tmp_path, of):
    change = {**SEEN_BY_ALL, **SEEN_BY_ARENA}[of]
    path = rewritten(made / "tables.npz", tmp_path / "t.npz", change)
    if of in SEEN_BY_ALL:
        with pytest.raises(ValueError, match="is no file of certified tables"):
            certified_tables.load(path)
        assert certified_tables.main([str(path)]) == 2
    said = refusal("bench", "tuners", "--tables", str(path), "--folder", str(tmp_path / "runs"),
                   "--tuners", "random")  # fmt: skip
    assert NAME in said or of == "NaN"
    assert "tilewright bench tables" in said


HOSTILE = (None, -1, 5, 1e300, "x", "", [], {}, [[]], {"x": 1}, True, "../x", [None], [{"name": 1}])


def test_whatever_is_damaged_in_a_file_is_refused_in_one_way(made, tmp_path):
    rng = fresh_rng()
    for _ in range(150):

        def change(about, _):
            root = held = {"about": about}
            key = "about"
            while isinstance(held[key], (dict, list)) and held[key] and rng.random() < 0.8:
                held = held[key]
                keys = list(held) if isinstance(held, dict) else range(len(held))
                key = keys[int(rng.integers(len(keys)))]
            held[key] = HOSTILE[int(rng.integers(len(HOSTILE)))]
            return root["about"]

        path = rewritten(made / "tables.npz", tmp_path / "t.npz", change)
        with contextlib.suppress(StoreError):
            release.tables_of(path, release.SETS, hard=False)


def test_files_that_are_none_at_all_are_told(tmp_path, capsys):
    deep = io.BytesIO()
    np.savez(deep, about=np.array("[" * 100_000))
    huge = io.BytesIO()
    with zipfile.ZipFile(huge, "w", zipfile.ZIP_DEFLATED) as archive:
        head = b"{'descr': '<i4', 'fortran_order': False, 'shape': (100000000000000,), }"
        archive.writestr("about.npy", b"\x93NUMPY\x01\x00v\x00" + head.ljust(117) + b"\n")
    alone = io.BytesIO()
    np.save(alone, np.zeros(3))
    contents = [b"", b"hello", deep.getvalue(), huge.getvalue(), alone.getvalue(), b"PK\x03\x04"]
    for content in contents:
        (tmp_path / "t.npz").write_bytes(content)
        with pytest.raises(ValueError, match="is no file of certified tables"):
            certified_tables.load(tmp_path / "t.npz")
        assert certified_tables.main([str(tmp_path / "t.npz")]) == 2
    assert certified_tables.main([str(tmp_path / "none.npz")]) == 2
    capsys.readouterr()


def test_equal_tables_make_equal_files_and_ours_alone_are_replaced(made, tmp_path):
    found = release.open_tables(made / "tables.npz")
    first, second = io.BytesIO(), io.BytesIO()
    certified_tables.save(first, found)
    certified_tables.save(second, found)
    assert first.getvalue() == second.getvalue()
    assert zipfile.ZipFile(made / "tables.npz").comment
    (tmp_path / "certified_tables.py").write_text("mine = 1\n")
    said = refusal("bench", "tables", "--fresh", "1", "--output", str(tmp_path / "t.npz"),
                   "--folder", str(tmp_path / "arena"))  # fmt: skip
    assert "certified_tables.py" in said
    assert (tmp_path / "certified_tables.py").read_text() == "mine = 1\n"


def test_runs_on_another_table_of_the_task_are_not_taken(made, tmp_path):
    def run(path):
        done = call("bench", "tuners", "--tables", str(path), "--seeds", "2", "--budget", "16",
                    "--tuners", "random", "--folder", str(tmp_path / "runs"), "--workers", "1",
                    "--json", str(tmp_path / "runs.json"))  # fmt: skip
        assert done.exit_code == 0, done.output
        rows = json.loads((tmp_path / "runs.json").read_text())["rows"]
        return [row for row in rows if row["what"] == "run"]

    def slower(_, held):
        for cycles in held.values():
            best = cycles[cycles > 0].min()
            cycles[cycles <= 1.2 * best] += (
                int(fresh_rng().integers(best)) * (cycles > 0)[cycles <= 1.2 * best]
            )

    first = run(made / "tables.npz")
    again = run(rewritten(made / "tables.npz", tmp_path / "slower.npz", slower))

    def twin(about, _):
        for told in about["tables"].values():
            told["about"]["twin"] = "another"

    run(rewritten(made / "tables.npz", tmp_path / "twin.npz", twin))
    assert len((tmp_path / "runs" / "runs.jsonl").read_text().splitlines()) == 4 + 4 + 4
    for row in (*first, *again):
        assert min(row["regret"].values()) >= 0
        assert row["cycles"] >= row["optimum"]
    assert [row["tuner_seconds"] for row in run(made / "tables.npz")] == [
        row["tuner_seconds"] for row in first
    ]


def test_tuners_run_on_the_tasks_of_a_file(made, tmp_path):
    result = call(
        "bench", "tuners", "--tables", str(made / "tables.npz"), "--seeds", "1", "--budget", "16",
        "--tuners", "random coordinate", "--folder", str(tmp_path), "--workers", "1",
        "--json", str(tmp_path / "runs.json"),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "runs.json").read_text())
    runs = [row for row in document["rows"] if row["what"] == "run"]
    assert len(runs) == 2 * 2
    assert document["conditions"]["twin"] == identity_of("twin")
    found = release.open_tables(made / "tables.npz")
    assert {r["optimum"] for r in runs} == {t.optimum for t in found.values()}
    said = refusal("bench", "tuners", "--tables", str(made / "tables.npz"), "--sets", "known",
                   "--folder", str(tmp_path))  # fmt: skip
    assert "no such tasks" in said


# -- the page ---------------------------------------------------------------------------------


def a_study(of, needs, count=7):
    task = {"what": "task", "layer": "x", "points": 9, "legal": 6, "optimum_cycles": 1000,
            "within_1pct": 1, "within_5pct": 2, "random_median_1pct": 40}  # fmt: skip
    runs = [
        a_record(tuner, f"{of}/{n}", seed, own + n)
        for tuner, own in needs.items() for n in range(count) for seed in range(2)
    ]  # fmt: skip
    conditions = {**dict.fromkeys(study_page.CONDITIONS, 0), "sets": [of], "budget": 32,
                  "small_budgets": {"slow": 16}, "track": "per-layer", "networks": []}  # fmt: skip
    return {
        "command": "x",
        "conditions": conditions,
        "rows": [*({**task, "task": f"{of}/{n}"} for n in range(count)), *runs],
    }


SHARES = {
    "conditions": {"samples": 1},
    "rows": [
        {"interval": interval, "effects": effects, "clusters": size, "share": 0.95}
        for interval in INTERVALS for effects in POPULATIONS for size in SIZES
    ],
}  # fmt: skip


def test_a_page_is_made_from_its_file_alone(tmp_path):
    page = tmp_path / "study.md"
    page.write_text(
        "Before.\n<!-- table: fresh measurements -->\nold\n<!-- end of table -->\nAfter.\n"
        "<!-- table: known tilewright -->\n<!-- end of table -->\n"
        "<!-- table: intervals -->\n<!-- end of table -->\n"
    )
    needs = {"random": 20, "tilewright": 3}
    parts = [a_study("fresh", needs), a_study("known", needs), SHARES]
    study_page.write_study(parts, page)
    text, document = page.read_text(), json.loads(page.with_suffix(".json").read_text())
    assert text.startswith("Before.\n<!-- table: fresh measurements -->\n\n| tuner |")
    assert "old" not in text
    assert "| tilewright | grey-box | 14 | 2 | 32 | 6 (3 to 9) |" in text
    assert renewed(text, dict(study_page.tables(document))) == text
    study_page.write_study(parts, page)
    assert page.read_text() == text
    changed = json.loads(json.dumps(document))
    column = document["columns"].index("trials_to_1pct")
    for run in changed["runs"]:
        run[column] += 1
    assert renewed(text, dict(study_page.tables(changed))) != text
    with pytest.raises(ConfigError, match="no such table"):
        renewed("<!-- table: x -->\n<!-- end of table -->", dict(study_page.tables(document)))
    with pytest.raises(ConfigError, match="no place for a table"):
        renewed("text", dict(study_page.tables(document)))
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "other.md").write_text(text)
    with pytest.raises(Exception, match="must be a new file"):
        study_page.write_study(parts, tmp_path / "other.md")


PAGE = (
    "<!-- table: fresh measurements -->\n<!-- end of table -->\n"
    "<!-- table: known tasks -->\n<!-- end of table -->\n"
    "<!-- table: intervals -->\n<!-- end of table -->\n"
)


def some_parts():
    needs = {"random": 20, "tilewright": 3}
    return [a_study("fresh", needs), a_study("known", needs), json.loads(json.dumps(SHARES))]


def _a_run(parts):
    runs = [row for part in parts[:2] for row in part["rows"] if row["what"] == "run"]
    return runs[int(fresh_rng().integers(len(runs)))]


def _no_random(parts):
    parts[1]["rows"] = [row for row in parts[1]["rows"] if row.get("tuner") != "random"]


BROKEN = {
    "another twin": lambda p: p[1]["conditions"].update(twin="other"),
    "another space": lambda p: p[1]["conditions"].update(space="full"),
    "a budget": lambda p: _a_run(p).update(budget=999),
    "NaN regret": lambda p: _a_run(p)["regret"].update({"16": float("nan")}),
    "negative regret": lambda p: _a_run(p)["regret"].update({"32": -0.1}),
    "no regret": lambda p: _a_run(p)["regret"].pop("16"),
    "text for trials": lambda p: _a_run(p).update(trials_to_1pct="5"),
    "trials beyond the budget": lambda p: _a_run(p).update(trials_to_5pct=33),
    "another optimum": lambda p: _a_run(p).update(optimum=999),
    "no random": _no_random,
    "no intervals": lambda p: p.pop(),
    "two intervals": lambda p: p.append(p[2]),
    "half the intervals": lambda p: p[2].update(rows=p[2]["rows"][1:]),
    "tables": lambda p: p.append({"conditions": {"twin": "t"}, "rows": [{"name": "x"}]}),
    "no conditions": lambda p: p[0].pop("conditions"),
    "no task": lambda p: p[0].update(rows=p[0]["rows"][7:]),
    "no rows": lambda p: p[0].update(rows=[]),
    "another table": lambda p: p[0]["rows"].append({**p[0]["rows"][0], "optimum_cycles": 7}),
    "no set": lambda p: p[0]["conditions"].update(sets=["fresh", "known"]),
    "number for command": lambda p: p[0].update(command=5),
}


@pytest.mark.parametrize("of", BROKEN)
def test_documents_that_make_no_page_are_refused(tmp_path, of):
    page, parts = tmp_path / "study.md", some_parts()
    page.write_text(PAGE)
    BROKEN[of](parts)
    with pytest.raises(ConfigError):
        study_page.write_study(parts, page)
    assert page.read_text() == PAGE
    names = [str(tmp_path / f"{number}.json") for number in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        Path(name).write_text(json.dumps(part))
    refusal("bench", "study-page", *names, "--page", str(page))


def test_whatever_is_damaged_in_a_document_is_refused_in_one_way(tmp_path):
    rng, page = fresh_rng(), tmp_path / "study.md"
    page.write_text(PAGE)
    for _ in range(60):
        parts = some_parts()
        held, key = parts, int(rng.integers(len(parts)))
        while isinstance(held[key], (dict, list)) and held[key] and rng.random() < 0.9:
            held = held[key]
            keys = list(held) if isinstance(held, dict) else range(len(held))
            key = keys[int(rng.integers(len(keys)))]
        held[key] = HOSTILE[int(rng.integers(len(HOSTILE)))]
        if all(isinstance(part, dict) and isinstance(part.get("rows"), list) for part in parts):
            with contextlib.suppress(ConfigError):  # what `read_document` would have refused
                study_page.write_study(parts, page)


def test_a_name_of_a_layer_stays_a_name_in_a_page(tmp_path):
    page, parts = tmp_path / "study.md", some_parts()
    page.write_text(PAGE)
    for row in parts[1]["rows"]:
        row["layer"] = "<img src=x onerror=alert(1)>|[x](javascript:y)\n<!-- end of table -->"
    study_page.write_study(parts, page)
    text = page.read_text()
    assert "<img" not in text
    assert "[x]" not in text
    assert text.count("<!-- end of table -->") == 3
    lines = [line for line in text.splitlines() if "onerror" in line]
    assert {line.count("|") for line in lines} == {2 + len(study_page.TASK[2:])}


def test_the_page_of_the_study_equals_its_file():
    page = ROOT / "docs" / "results" / "tuners-study.md"
    document = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    text = page.read_text(encoding="utf-8")
    assert renewed(text, dict(study_page.tables(document))) == text


def test_fresh_layers_are_none_that_something_was_chosen_on():
    drawn = list(itertools.islice(tasks.fresh_layers(0), 60))
    assert drawn == list(itertools.islice(tasks.fresh_layers(0), 60))
    known = {w.key for name in tasks.CHOSEN_ON for w in load_network(name).workloads}
    assert not known & {w.key for w in drawn}
    page = json.loads((ROOT / "docs" / "results" / "tuners-study.json").read_text(encoding="utf-8"))
    fresh = [task["layer"] for task in page["tasks"].values() if task["set"] == "fresh"]
    names = iter(w.name for w in drawn)
    assert all(layer in names for layer in fresh)  # in the order of the draw
