# SPDX-License-Identifier: Apache-2.0
"""`tilewright tune` on an ONNX file against the RTL, killed in the middle and taken up again."""

import re
import signal
import sqlite3
import subprocess
import time
from contextlib import closing

import onnx
import psutil
import pytest
from e2e.command import arguments, environment, tilewright
from support.networks.small_models import Model
from support.randomness import generator, where

from tilewright.host.common.errors import StoreError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.verilator.build import build_model
from tilewright.tuner.store.store import Store

HW = "tiny-4x4"
BUDGET = 60
TASKS = 4  # pooling is one
ORPHAN_LIMIT_S = 20


def write_model(path):
    """Two convolutions, the second with a residual add, a pooling for the CPU and a dense layer."""
    model = Model(generator("small"))
    x = model.input(1, 3, 12, 12)
    y = model.add("Conv", x, model.weights(8, 3, 3, 3), pads=[1] * 4, strides=[2, 2])
    first = model.add("Relu", y)
    y = model.add("Add", model.add("Conv", first, model.weights(8, 8, 3, 3), pads=[1] * 4), first)
    y = model.add("Flatten", model.add("GlobalAveragePool", model.add("Relu", y)))
    onnx.save(model.proto(model.add("Gemm", y, model.weights(10, 8), transB=1)), path)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with the model; the simulator of `HW` is built, so that kills hit trials."""
    folder = tmp_path_factory.mktemp("tune")
    write_model(folder / "small.onnx")
    build_model(load_hwconfig(HW), checks=False)
    return folder


def words(runs):
    return (
        "tune", "small.onnx", "--hw", HW, "--budget", BUDGET, "--workers", 2, "--seed", 5,
        "--name", "study", "--runs", runs, "--screen", "none",
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(work):
    """An uninterrupted run: the finished process and its wall-clock seconds."""
    started = time.monotonic()
    return tilewright(*words("whole"), cwd=work), time.monotonic() - started


def trials(folder):
    """Every stored trial of the study, in proposal order; none before the first commit."""
    path = folder / "studies.sqlite"
    if not path.exists():
        return []
    try:
        store = Store(path, must_exist=True)
    except StoreError as error:  # a file without tables yet
        if "holds no trial store" not in str(error):
            raise
        return []
    with store:
        names = [study.name for study in store.studies()]
        return store.trials(store.study("study").id) if "study" in names else []


def count_stored(folder):
    """How many trials are stored; quicker than `trials`."""
    try:
        with closing(
            sqlite3.connect(f"file:{folder / 'studies.sqlite'}?mode=ro", uri=True)
        ) as file:
            return file.execute("SELECT COUNT(*) FROM trials").fetchone()[0]
    except sqlite3.OperationalError:  # no file or no tables yet, or they are being written
        return 0


def identity(trial):
    return (trial.task, str(sorted(trial.schedule.items())), trial.config_hash)


def outcome(trial):
    """What must not depend on a kill: everything but times."""
    m = trial.measurement
    return (trial.sequence, identity(trial), trial.origin, m.status, m.cycles, m.counters)


def network_cycles(found):
    """Cycles of the network with the untuned and with the best schedules."""
    default, best = {}, {}
    for trial in found:
        cycles = trial.measurement.cycles
        if cycles is None:
            continue
        if trial.origin == "default":
            default[trial.task] = cycles
        best[trial.task] = min(cycles, best.get(trial.task, cycles))
    return default, best


def test_a_study_of_an_onnx_model_completes_and_is_no_worse_than_untuned(work, whole):
    done, _ = whole
    assert (done.returncode, done.stderr) == (0, "")
    found = trials(work / "whole")
    assert len(found) == BUDGET
    assert [trial.sequence for trial in found] == list(range(BUDGET))
    assert all(t.measurement.output_checked for t in found if t.measurement.cycles is not None)
    default, best = network_cycles(found)
    assert set(default) == set(best) == {trial.task for trial in found}
    assert len(best) == TASKS
    assert sum(best.values()) < sum(default.values())
    with Store(work / "whole" / "studies.sqlite", must_exist=True) as store:
        assert store.study("study").status == "complete"


def test_the_report_is_one_file_that_loads_nothing(work, whole):
    assert whole[0].returncode == 0
    (report,) = (work / "whole").glob("*.html")
    html = report.read_text(encoding="utf-8")
    assert report.name in whole[0].stdout.replace("\n", "")
    tags = re.sub(r"(<script[^>]*>).*?</script>", r"\1", html, flags=re.DOTALL)
    assert len(tags) < len(html), "the plots' script is inside the file"
    assert not re.findall(r"""<[^>]+\b(?:src|href)\s*=\s*["']?(?:https?:)?//""", tags)
    assert not re.findall(r"""@import|url\(\s*["']?(?:https?:)?//""", tags)
    for trial in trials(work / "whole"):
        assert trial.task in html


def test_no_trial_is_measured_twice(work, whole):
    assert whole[0].returncode == 0
    found = [identity(trial) for trial in trials(work / "whole")]
    assert len(set(found)) == len(found)


def kill_in_the_middle(work, runs, wanted):
    """Start a study and end it with SIGKILL as soon as ``wanted`` trials are stored."""
    process = subprocess.Popen(
        arguments(*words(runs)),
        cwd=work,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while count_stored(work / runs) < wanted and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)  # while its workers are looked for
    family = {p.pid: p for p in psutil.Process(process.pid).children(recursive=True)}
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(family.values(), timeout=ORPHAN_LIMIT_S)
    return family, alive


def test_a_killed_study_resumes_and_gives_the_result_of_an_uninterrupted_one(work, whole):
    rng = generator("kill")
    kills = sorted(int(n) for n in rng.choice(BUDGET // 4, 2, replace=False))
    before, workers = {}, {}
    for wanted in kills:
        family, alive = kill_in_the_middle(work, "killed", wanted)
        assert not alive, where(kills=kills, orphans=alive)
        workers |= family
        stored = trials(work / "killed")
        assert wanted <= len(stored) < BUDGET, where(kills=kills)
        # Trials of a batch are stored as they end: there may be holes in the sequence.
        now = {identity(trial): trial for trial in stored}
        assert len(now) == len(stored), "a trial was stored twice"
        assert {k: now.get(k) for k in before} == before, "a trial was lost or made again"
        before = now
    assert workers, "the study ran in worker processes"
    done = tilewright(*words("killed"), cwd=work)
    assert (done.returncode, done.stderr) == (0, ""), where(kills=kills)
    final, uninterrupted = trials(work / "killed"), trials(work / "whole")
    kept = {identity(trial): trial for trial in final}
    assert {k: kept.get(k) for k in before} == before, "a trial was lost or made again"
    assert [outcome(t) for t in final] == [outcome(t) for t in uninterrupted], where(kills=kills)
    assert tilewright(*words("killed"), cwd=work).returncode == 0
    assert trials(work / "killed") == final, "a complete study measures nothing"


def test_the_report_command_needs_only_the_store(work, whole, tmp_path):
    assert whole[0].returncode == 0
    (first,) = (work / "whole").glob("*.html")
    done = tilewright("report", "--runs", work / "whole", "--output", "r.html", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "r.html").read_text() == first.read_text()


def test_what_the_twin_screened_is_confirmed_on_the_rtl(work):
    done = tilewright(
        "tune", "small.onnx", "--hw", HW, "--budget", 60, "--workers", 2, "--name", "fast",
        "--runs", "screened", cwd=work,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "search on twin, confirmed on rtl" in done.stdout
    with Store(work / "screened" / "studies.sqlite", must_exist=True) as store:
        screened = store.trials(store.study("fast/screen").id)
        confirmed = store.trials(store.study("fast").id)
    assert {t.measurement.fidelity for t in screened} == {"twin"}
    assert len(screened) == 60
    assert {t.measurement.fidelity for t in confirmed} == {"rtl"}
    assert all(t.measurement.output_checked for t in confirmed)
    on_twin = {identity(t): t.measurement.counters for t in screened}
    assert confirmed
    for trial in confirmed:
        assert on_twin[identity(trial)] == trial.measurement.counters
    default, best = network_cycles(confirmed)
    assert len(best) == TASKS
    assert sum(best.values()) < sum(default.values())
