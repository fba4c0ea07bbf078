# SPDX-License-Identifier: Apache-2.0
"""TILEWRIGHT_SEED repeats what every test draws, and no test draws from anything else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import randomness

TESTS = Path(__file__).resolve().parents[2]

DRAWS = """
from hypothesis import given, settings, strategies as st
from support.randomness import fresh_rng, generator

def test_twice(capsys):
    draws = [rng.integers(2**40) for rng in (fresh_rng(), fresh_rng(), generator("x"))]
    with capsys.disabled():
        print("DREW", *draws)

@settings(max_examples=5)
@given(st.integers(0, 2**40))
def test_any(number):
    with open("drawn", "a") as file:
        print("DREW", number, file=file)
"""

ANOTHER_SOURCE = re.compile(
    r"\bsecrets\.|default_rng\(\)|\bRandom\(\)|SeedSequence\(\)|[^.]random\.(random|randint|choice)\("
)
ALLOWED = {"support/randomness.py", "unit/support/test_randomness.py"}
RECORDED = {"mutation/mutate.py", "rtl/builds.py"}
"""Commands and benches, which write the seed that they chose down."""


def drawn(folder: Path, seed: int) -> list[str]:
    """What the tests `DRAWS` draw in a process of its own, as in continuous integration."""
    folder.mkdir()
    (folder / "test_draws.py").write_text(DRAWS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-q",
         "--rootdir", ".", "test_draws.py"],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(TESTS), "TILEWRIGHT_SEED": str(seed), "CI": "true"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "DREW" in line]
    return [*lines, *(folder / "drawn").read_text().splitlines()]


def test_the_seed_repeats_what_is_drawn_and_another_does_not(tmp_path: Path) -> None:
    first, again, other = (drawn(tmp_path / str(n), seed) for n, seed in enumerate((7, 7, 8)))
    assert len(first) == 1 + 5
    assert first == again
    assert first[0] != other[0]
    assert first[1:] != other[1:]
    assert len(set(first[0].split()[-3:])) == 3, "generators of a test are not each other's copy"


FILES = sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py"))


def test_no_test_draws_from_another_source() -> None:
    drawing = {
        name for name in FILES if ANOTHER_SOURCE.search((TESTS / name).read_text(encoding="utf-8"))
    }
    assert drawing <= ALLOWED | RECORDED


@pytest.mark.parametrize(("share", "count"), [(0.01, 1), (0.25, 5), (1, 20)])
def test_a_slow_run_takes_its_share_of_fixed_cases(monkeypatch, share, count) -> None:
    monkeypatch.setattr(randomness, "SLOW_SHARE", share)
    found = randomness.drawn("a test", range(20))
    assert len(found) == count
    assert found == sorted(set(found))
    assert found == randomness.drawn("a test", range(20)), "every worker takes the same"


def test_runs_of_other_seeds_take_other_cases(monkeypatch) -> None:
    monkeypatch.setattr(randomness, "SLOW_SHARE", 0.1)
    found = set()
    for seed in range(40):
        monkeypatch.setattr("tilewright.testing.randomness.SEED", seed)
        found |= set(randomness.drawn("a test", range(4)))
    assert found == set(range(4))


@pytest.mark.parametrize(("share", "skipped"), [(0, True), (1, False)])
def test_a_very_slow_test_is_taken_as_often_as_the_share_says(monkeypatch, share, skipped) -> None:
    monkeypatch.setattr(randomness, "SLOW_SHARE", share)
    assert randomness.rarely("a test").args == (skipped,)


def test_a_fast_run_takes_some_cases_and_a_slow_run_takes_all(monkeypatch) -> None:
    monkeypatch.setattr(randomness, "SLOW_SHARE", 0.1)
    cases = randomness.often("a test", ["a", pytest.param("b", id="second"), *"cdef"], 2)
    assert len(cases) == 6
    slow = [case for case in cases if getattr(case, "marks", ())]
    assert len(slow) == 4
    assert all(mark.name == "slow" for case in slow for mark in case.marks)
    assert [case.values[0] if hasattr(case, "values") else case for case in cases] == list("abcdef")


def test_a_fast_run_takes_all_cases_if_told_so(monkeypatch) -> None:
    monkeypatch.setattr(randomness, "SLOW_SHARE", 1)
    assert randomness.often("a test", "abcdef", 2) == list("abcdef")
