# SPDX-License-Identifier: Apache-2.0
"""`tune --fidelity board` on agents that are killed, noisy or lie."""

import re
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e.command import arguments, running, serving_agent, tilewright
from support.boards.simulated import write_layer, write_pool

from tilewright.tuner.store.store import Store

AGENT = Path(__file__).parents[1] / "support" / "boards" / "board_agent.py"


def agent(folder: Path, **options: object):
    """A process that serves a simulated board which may be slow, noisy or a liar."""
    words = [f"--{name}={value}" for name, value in options.items()]
    return serving_agent([sys.executable, AGENT, *words], folder)


def tune_words(*more: str) -> tuple[str, ...]:
    return (
        "tune", "layer.yaml", "--hw", "tiny-4x4", "--board", "pynq-z2", "--fidelity", "board",
        "--boards", "pool.yaml", "--budget", "24", "--name", "s", *more,
    )  # fmt: skip


def trials(folder: Path):
    with Store(folder / "runs" / "studies.sqlite", read_only=True) as store:
        study = store.study("s")
        return study, list(store.trials(study.id))


@pytest.mark.slow
def test_a_study_survives_a_killed_board_and_a_liar(tmp_path):
    write_layer(tmp_path)
    with ExitStack() as stack:
        victim, one = stack.enter_context(agent(tmp_path, seed=1, pause=0.05))
        _, two = stack.enter_context(agent(tmp_path, seed=2, pause=0.02))
        _, three = stack.enter_context(agent(tmp_path, seed=3, pause=0.02, lies_after=4))
        write_pool(tmp_path, victim=one, noisy=two, liar=three)
        study = stack.enter_context(running(arguments(*tune_words()), tmp_path))
        while study.poll() is None and "runs a program" not in victim.stderr.readline():
            pass
        victim.send_signal(signal.SIGKILL)  # in the middle of a trial
        out, err = study.communicate(timeout=900)
        assert study.returncode == 0, out + err
        assert "board victim gets no more trials: " in out
        assert "its trial goes to another board" in out
        assert re.search(r"board liar: a result of \S+ is refused: \d+ of \d+ output elements", out)
        assert re.search(r"board liar gets no more trials: it computed \S+ wrongly, and", out)
        row, found = trials(tmp_path)
        assert row.status == "complete"
        assert len(found) == 24
        assert [trial.sequence for trial in found] == list(range(24))
        assert all(t.measurement.valid and t.measurement.output_checked for t in found)
        assert {t.measurement.runs.board for t in found} >= {"noisy"}
        assert any(t.measurement.relative_error > 0 for t in found)


@pytest.mark.slow
def test_a_study_whose_boards_all_died_ends_with_2_and_goes_on_later(tmp_path):
    write_layer(tmp_path)
    with ExitStack() as stack:
        processes = [stack.enter_context(agent(tmp_path, seed=n, pause=0.03)) for n in (1, 2)]
        write_pool(tmp_path, one=processes[0][1], two=processes[1][1])
        study = stack.enter_context(running(arguments(*tune_words()), tmp_path))
        deadline = time.monotonic() + 900
        while time.monotonic() < deadline and study.poll() is None:
            if (tmp_path / "runs" / "studies.sqlite").exists() and trials_made(tmp_path) >= 4:
                break
            time.sleep(0.05)
        for process, _ in processes:
            process.send_signal(signal.SIGKILL)
        out, err = study.communicate(timeout=900)
        assert study.returncode == 2, out + err
        assert re.search(r"no board is left for \d+ trials?", err)
        assert "the same command goes on from here" in err
        row, before = trials(tmp_path)
        assert row.status == "interrupted"
        assert 4 <= len(before) < 24
    with agent(tmp_path, seed=5) as (_, address):
        write_pool(tmp_path, one=address)
        done = tilewright(*tune_words(), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        row, after = trials(tmp_path)
    assert row.status == "complete"
    assert len(after) == 24
    assert [t.measurement for t in after[: len(before)]] == [t.measurement for t in before]


def trials_made(folder: Path) -> int:
    try:
        return len(trials(folder)[1])
    except Exception:  # the store is being made
        return 0
