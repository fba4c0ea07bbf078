# SPDX-License-Identifier: Apache-2.0
"""The faults of `permanent.yaml` have their places in the RTL, and are found."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mutation.mutate import PERMANENT, bench_of, hardware, judge, load_permanent, run_bench
from support.randomness import SEED

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.places import ROOT
from tilewright.sim.verilator.build import MANIFEST

SOURCES = hardware(MANIFEST.parent)
NAMES = tuple(yaml.safe_load(PERMANENT.read_text(encoding="utf-8")))


def test_every_permanent_fault_has_its_place_in_the_rtl() -> None:
    faults = load_permanent(SOURCES)
    assert len(faults) == len(NAMES) >= 7
    assert all(fault.apply(SOURCES[fault.file]) != SOURCES[fault.file] for fault in faults)


def test_every_module_that_can_have_a_fault_has_a_bench() -> None:
    folder = ROOT / "tests" / "rtl"
    benches = (folder / "test_rtl.py").read_text(encoding="utf-8")
    for file in SOURCES.keys() - {"tw_sizes.sv"}:
        for test in bench_of(file).split(" or "):
            known = f"def {test}(" in benches or f"\n{test} = " in benches
            assert known or (folder / f"{test}.py").is_file(), file


def test_faults_are_put_into_every_file_of_the_rtl_that_nobody_generates() -> None:
    files = {path.name for path in MANIFEST.parent.rglob("*.sv")}
    assert set(SOURCES) == files - {path.name for path in MANIFEST.parent.glob("generated/*")}


def test_a_fault_whose_place_is_gone_is_an_error_with_its_name(tmp_path: Path) -> None:
    gone = tmp_path / "faults.yaml"
    gone.write_text("lost: {file: tw_fifo.sv, old: no such text, new: none}\n", encoding="utf-8")
    with pytest.raises(TilewrightError, match="lost"):
        load_permanent(SOURCES, gone)


def test_the_bench_of_a_unit_runs_the_fault_and_not_the_rtl(tmp_path: Path) -> None:
    fault = load_permanent(SOURCES)[NAMES.index("key-kept-when-its-entry-leaves")]
    shutil.copytree(MANIFEST.parent, tmp_path / "rtl")
    (path,) = (tmp_path / "rtl").rglob(fault.file)
    path.write_text(fault.apply(path.read_text(encoding="utf-8")), encoding="utf-8")
    assert run_bench(fault, tmp_path, SEED)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_the_regression_finds_every_permanent_fault(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))  # `judge` sets it too
    rtl = tmp_path / "rtl"
    shutil.copytree(MANIFEST.parent, rtl)
    record = judge(load_permanent(SOURCES)[number], rtl, tmp_path / "work", SEED, True)
    assert record["killed_by"] not in ("", "stillborn"), record
