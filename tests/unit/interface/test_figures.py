# SPDX-License-Identifier: Apache-2.0
"""Studies as data frames and figures: what is drawn is what the store holds."""

import csv
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from support.command_line import call, refusal
from support.randomness import generator

import tilewright as tw
from tilewright.tuner.report import plots
from tilewright.tuner.report.trial_table import COLUMNS

LAYER = tw.conv2d("example", 14, 16, 16, kernel=3, pad=1)
TUNERS = ("random", "coordinate")
SEEDS = 3
BUDGET = 12


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder of studies: two tuners with seeds, one that chooses hardware, one per layer."""
    folder = tmp_path_factory.mktemp("runs")
    rng = generator("figures")
    options = {"fidelity": "twin", "runs": folder}
    for tuner in TUNERS:
        for seed in rng.choice(1000, size=SEEDS, replace=False).tolist():
            name = f"{tuner}-{seed}"
            tw.tune(
                LAYER, hw="tiny-4x4", budget=BUDGET, tuner=tuner, seed=seed, name=name, **options
            )
    tw.tune(LAYER, budget=40, name="shared", **options)
    tw.tune(LAYER, hw="tiny-4x4", budget=8, mode="per-layer", name="each", **options)
    tw.tune(LAYER, hw="tiny-4x4", budget=8, name="confirmed", runs=folder)
    return folder


def names_of(folder, prefixes=TUNERS):
    return sorted(path.stem for path in folder.glob("*.html") if path.stem.startswith(prefixes))


@pytest.fixture(scope="module")
def pyplot():
    """matplotlib, with nothing on a screen."""
    pytest.importorskip("matplotlib", reason="of the extra plot").use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415  (where it is installed)

    yield plt
    plt.close("all")


def test_a_study_is_found_by_what_tune_wrote(runs):
    by_name = tw.load_study("shared", runs=runs)
    for place in (runs / "shared.html", str(runs / "shared.html"), runs / "shared.yaml"):
        found = tw.load_study(place)
        assert (found.name, found.cycles) == ("shared", by_name.cycles)
        assert found.report == runs / "shared.html"
    for place in (runs, str(runs), runs / "studies.sqlite"):
        assert tw.load_study(place).name == "confirmed", "the last one"


def test_the_page_explains_every_column():
    page = (Path(tw.__file__).parents[2] / "docs/how-to/plot-a-study.md").read_text()
    told = set(re.findall(r"`([\w.]+\*?)`", page.partition("| column |")[2]))
    assert told >= {re.sub(r"(?<=\.).*", "*", name) for name in COLUMNS}


def test_figures_go_into_the_axes_that_are_given_and_into_files(runs, pyplot, tmp_path):
    study = tw.load_study("shared", runs=runs)
    _, axes = pyplot.subplots(1, 3)
    draws = [study.plot_convergence, study.plot_regret, study.plot_pareto]
    for ax, draw in zip(axes, draws, strict=True):
        assert draw(ax=ax) is ax
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        assert draw() is not ax
    energies = [y for line in axes[2].get_lines() for y in line.get_ydata()]
    cycles = [x for line in axes[2].get_lines() for x in line.get_xdata()]
    assert min(cycles) == study.cycles
    assert energies[cycles.index(min(cycles))] == 1
    for ending, start in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")):
        path = tmp_path / f"figure{ending}"
        axes[0].figure.savefig(path)
        assert path.read_bytes().startswith(start)


def test_what_cannot_be_drawn_or_compared_is_told(runs, pyplot):
    study, per_layer = tw.load_study("shared", runs=runs), tw.load_study("each", runs=runs)
    with pytest.raises(tw.TilewrightError, match="must not be above what a study found"):
        study.plot_regret(optimum=study.cycles + 1)
    with pytest.raises(tw.TilewrightError, match="mode='shared'"):
        per_layer.plot_pareto()
    with pytest.raises(tw.TilewrightError, match="did you mean tuner"):
        tw.compare([study], by="tunr")
    with pytest.raises(tw.TilewrightError, match="must hold a study"):
        tw.compare([])
    other = tw.tune(tw.dense("fc", 4, 64, 16), hw="tiny-4x4", budget=4, fidelity="twin", runs=runs,
                    name="other")  # fmt: skip
    with pytest.raises(tw.TilewrightError, match="must have the tasks of shared"):
        tw.compare([study, other])


@pytest.mark.parametrize(
    ("module", "use"), [("matplotlib", "plot_convergence"), ("pandas", "trials")]
)
def test_a_missing_package_is_told_with_the_line_that_installs_it(runs, monkeypatch, module, use):
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Absent(module), *sys.meta_path])
    with pytest.raises(tw.TilewrightError, match=module) as caught:
        getattr(tw.load_study("shared", runs=runs), use)()
    assert caught.value.remedy == "pip install 'tilewright[plot]'"


class Absent:
    """An importer that finds a package nowhere."""

    def __init__(self, module):
        self.module = module

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == self.module:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_the_command_writes_csv_and_figures_and_replaces_its_own(runs, pyplot, tmp_path):
    names = names_of(runs)
    table = tmp_path / "trials.csv"
    for figure, ending in zip(plots.KINDS, plots.FORMATS, strict=True):
        path = tmp_path / f"deep/{figure}{ending}"
        words = ("export", *names, "--runs", str(runs), "--plot", str(path), "--figure", figure)
        for _ in range(2):
            done = call(*words, "--csv", str(table))
            assert done.exit_code == 0, done.stderr
        assert f"{path}: replaced" in done.stderr
        assert f"{table}: replaced" in done.stderr
        assert path.stat().st_size > 4000
        path.write_text("mine", encoding="utf-8")
        assert "must be a new file" in refusal(*words)
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(names) * BUDGET
    told = tw.load_study(names[0], runs=runs).trials()
    assert [r["cycles"] for r in rows[:BUDGET]] == [
        "" if np.isnan(value) else f"{value:.0f}" for value in told["cycles"]
    ]


def test_what_the_command_cannot_write_is_refused(runs):
    words = ("export", "shared", "--runs", str(runs))
    assert "name a file" in refusal(*words)
    assert "must end in .svg" in refusal(*words, "--plot", "x.gif")
    assert "takes one study" in refusal(*words, "each", "--optuna", "x")
    assert "did you mean regret" in refusal(*words, "--plot", "x.svg", "--figure", "regrt")
