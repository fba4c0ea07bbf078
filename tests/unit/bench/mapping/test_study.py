"""The study of mappers: certified tasks, resumable rows, and figures that follow from them."""

import json
from pathlib import Path

import pytest

from tilewright.bench.commands import MappingSettings
from tilewright.bench.framework.study import run_study
from tilewright.bench.framework.tables import renewed
from tilewright.bench.mapping import study as study_module
from tilewright.bench.mapping.page import (
    published,
    published_tables,
    samples_to,
    summarise,
    tables,
    value_at,
)
from tilewright.bench.mapping.study import Mapping, tasks_of
from tilewright.host.common.errors import ConfigError

OPTIONS = MappingSettings(
    networks=("transformer_encoder",),
    objectives=("latency", "edp"),
    methods=("random", "structured"),
    per_network=1,
    budget=60,
    seeds=2,
)


def run_row(method, seed, improvements, **more):
    value = improvements[-1][1]
    row = {"what": "run", "network": "n", "layer": "l", "objective": "edp", "method": method}
    row |= {"seed": seed, "value": value, "samples": 100, "setup_samples": 0, "core_seconds": 1.0}
    return row | {"improvements": improvements} | more


OPTIMUM = {
    "what": "optimum", "network": "n", "layer": "l", "objective": "edp", "value": 10.0,
    "bound": 10.0, "certified": True, "core_seconds": 2.0,
}  # fmt: skip
ROWS = [
    OPTIMUM,
    run_row("ppo", 0, [[1, 80.0], [50, 20.0]]),
    run_row("marl", 0, [[1, 40.0], [5, 20.0]], setup_samples=20),
    run_row("structured", 0, [[2, 10.0]]),
]


def test_a_study_certifies_runs_and_goes_on_where_it_was_stopped():
    study = Mapping(OPTIONS)
    whole = run_study(study)
    assert [r["what"] for r in whole.rows].count("optimum") == 2
    assert [r["what"] for r in whole.rows].count("run") == 2 * 2 * 2
    assert whole.passed
    first = json.loads(json.dumps({"rows": whole.rows[:4], "conditions": whole.conditions}))
    again = run_study(Mapping(OPTIONS), known=first)

    def plain(row):
        return {k: v for k, v in row.items() if k not in ("core_seconds", "notes")}

    assert list(map(plain, again.rows)) == list(map(plain, whole.rows))
    assert "structured" in study.text(whole.document)
    assert study.page(whole.document)


@pytest.mark.parametrize(
    "row", [{"what": "other"}, {k: v for k, v in OPTIMUM.items() if k != "value"}]
)
def test_a_file_with_rows_of_others_is_refused(row):
    with pytest.raises(ConfigError, match="row 2: the file holds a row that this study"):
        Mapping(OPTIONS).summarise([OPTIMUM, row])


@pytest.mark.parametrize("at", ["best_mapping", "make_mapper"])
def test_ctrl_c_ends_a_study_and_leaves_out_what_was_stopped(at, monkeypatch, tmp_path):
    class Stopped:
        """A proof or a run that Ctrl-C ended with its best so far."""

        stopped = True

        def run(self, *_):
            return self

    study, written = Mapping(OPTIONS), []
    monkeypatch.setattr(study_module, at, lambda *_, **__: Stopped())
    with pytest.raises(KeyboardInterrupt):
        run_study(study, path=tmp_path / "m.json", write=written.append)
    rows = [row["what"] for result in written for row in result.rows]
    assert rows == ([] if at == "best_mapping" else ["optimum"] * 2)


def test_layers_are_drawn_evenly_and_shared_ones_count_once():
    all_layers = tasks_of(MappingSettings(per_network=0, objectives=("edp",)))
    assert len({(t.nest.kind, t.nest.sizes, t.nest.stride_y) for t in all_layers}) == len(
        all_layers
    )
    few = tasks_of(
        MappingSettings(networks=("vgg16", "dlrm"), per_network=3, objectives=("edp", "area"))
    )
    assert len(few) == 2 * 3 * 2


def test_figures_follow_from_rows():
    summary = summarise(ROWS)
    assert summary["bound_violations"] == 0
    assert summary["certified_layers"] == 1
    assert summary["regret_pct"]["edp"]["structured"]["value"] == 0
    assert summary["regret_pct"]["edp"]["ppo"]["value"] == 100
    assert summary["regret_pct_at_tenth"]["edp"]["ppo"]["value"] == 700
    assert summary["ratio_to_marl"]["edp"]["structured"]["value"] == 0.5
    efficiency = summary["sample_efficiency_over_ppo"]
    assert efficiency["marl"]["ratio"]["value"] == 10
    assert efficiency["marl"]["with_setup"]["value"] == 2
    assert efficiency["structured"]["ratio"]["value"] == 25
    assert summary["share_within_1_pct"] == {"ppo": 0, "marl": 0, "structured": 1}


def test_a_cost_below_the_certified_bound_is_a_violation():
    assert summarise([OPTIMUM, run_row("random", 0, [[1, 9.9]])])["bound_violations"] == 1


def test_a_page_says_what_its_file_says_and_the_file_what_the_rows_say():
    result = run_study(Mapping(MappingSettings(**{**vars(OPTIONS), "methods": ("ppo", "marl")})))
    document, found = published([{**result.document, "command": "x"}])
    whole = [table.markdown() for table in tables(result.summary)]
    assert [table.markdown() for table in found.values()] == whole
    again = published_tables(json.loads(json.dumps(document)))
    assert [table.markdown() for table in again.values()] == whole


def test_the_page_of_the_study_equals_its_file():
    page = Path(__file__).resolve().parents[4] / "docs" / "results" / "mapping.md"
    document = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    text = page.read_text(encoding="utf-8")
    assert renewed(text, published_tables(document)) == text


def test_reads_runs_at_any_budget():
    run = run_row("random", 0, [[3, 5.0], [10, 4.0]])
    assert [value_at(run, at) for at in (2, 3, 9, 10)] == [float("inf"), 5.0, 5.0, 4.0]
    assert (samples_to(run, 5.0), samples_to(run, 4.5), samples_to(run, 1.0)) == (3, 10, None)
