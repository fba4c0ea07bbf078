# SPDX-License-Identifier: Apache-2.0
"""Seed faults in copies of the RTL and count those that the regression finds.

A mutant of one accelerator is built and goes through the stages of `stages.STAGES`, then through
the bench of its unit, until one finds it; one of what stands around it, in a system or on a board,
through the bench of its unit alone. Results are written one by one, so that a run can be stopped
and resumed.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import yaml
from mutation import models
from mutation.faults import Mutation, sample
from mutation.quick_build import quick_model
from mutation.stages import STAGES

from tilewright.host.common.errors import BuildError, DeviceError, TilewrightError
from tilewright.host.common.names import choices
from tilewright.host.common.places import ROOT
from tilewright.host.common.whole_file import own_folder
from tilewright.sim.executor.job import Outcome, OutcomeStatus
from tilewright.sim.executor.worker import WorkerPool
from tilewright.sim.verilator.build import MANIFEST, read_manifest

HERE: Final = Path(__file__).resolve().parent
OUTPUT: Final = ROOT / "build" / "mutation"
EXPLANATIONS: Final = HERE / "survivors.yaml"
PERMANENT: Final = HERE / "permanent.yaml"
WALL_LIMIT_S: Final = 900.0
BENCH_LIMIT_S: Final = 300
MANIFESTS: Final = ("tilewright.f", "system.f", "boards/ulx3s.f", "boards/zynq7000.f")
"""Lists of the RTL in ``rtl/``; the first is that of one accelerator."""
_GOAL: Final = 0.95
# A dropped condition may leave a signal without a reader, and a changed constant may make a
# comparison always true: neither is a reason to refuse a mutant, or lint would count as a test.
_LINT_OFF: Final = "/* verilator lint_off UNUSED */ /* verilator lint_off CMPCONST */ "

Record = dict[str, Any]


def hardware(rtl: Path) -> dict[str, str]:
    """Text of every file in a copy of ``rtl/`` that nobody generates, by name."""
    return {
        path.name: path.read_text(encoding="utf-8")
        for manifest in MANIFESTS
        for path in sorted(read_manifest(rtl / manifest))
        if path.parent.name != "generated"
    }


def _stages(mutation: Mutation | None, rtl: Path) -> Mapping[str, Any]:
    """What a mutant goes through before its unit's bench: nothing outside of one accelerator."""
    inside = {path.name for path in read_manifest(rtl / MANIFESTS[0])}
    return STAGES if mutation is None or mutation.file in inside else {}


def judge(mutation: Mutation | None, rtl: Path, work: Path, seed: int, cocotb: bool) -> Record:
    """Build a mutant and run the regression on it (without a mutation: on the RTL as it is).

    Runs in a worker process; ``phase`` in the work folder says how far it came. The record's
    ``killed_by`` is a stage, ``stillborn`` or empty.
    """
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(rtl, work / "rtl")
    if mutation is not None:
        (path,) = (work / "rtl").rglob(mutation.file)
        path.write_text(_LINT_OFF + mutation.apply(path.read_text(encoding="utf-8")), "utf-8")
    os.environ["TILEWRIGHT_CACHE"] = str(rtl.parent / "cache")
    libraries: dict[str, Path] = {}
    try:
        stages = _stages(mutation, rtl)
        for stage, (name, checks) in stages.items():
            hw = models.CONFIGS[name]
            if name not in libraries:
                _phase(work, "build")
                try:
                    libraries[name] = quick_model(hw, work / "rtl" / "tilewright.f")
                except BuildError as error:
                    return {"killed_by": "stillborn", "detail": str(error)[:300]}
            model = models.Model(hw=hw, library=libraries[name], seed=seed)
            for check in checks:
                _phase(work, stage)
                try:
                    check(model)
                except (AssertionError, DeviceError) as error:
                    text = f"{check.__name__}: {str(error) or _where(error)}"
                    return {"killed_by": stage, "detail": text[:300]}
        if mutation is not None and (cocotb or not stages):
            _phase(work, "bench")
            if problem := run_bench(mutation, work, seed):
                refused = not stages and "BuildError" in problem
                killed_by = "stillborn" if refused else "bench"
                return {"killed_by": killed_by, "detail": problem[:300]}
        return {"killed_by": "", "detail": ""}
    finally:
        for library in libraries.values() if mutation is not None else ():
            shutil.rmtree(library.parent, ignore_errors=True)
        shutil.rmtree(work / "rtl", ignore_errors=True)


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"line {trace.tb_lineno}" if trace is not None else "?"


def _phase(work: Path, text: str) -> None:
    (work / "phase").write_text(text, encoding="utf-8")


_BENCHES: Final = {
    **dict.fromkeys(("tilewright_top", "tw_core"), "test_top"),
    **dict.fromkeys(("tw_lane", "tw_reduce", "tw_log2"), "test_vector"),
    "tw_queue": "test_queue or test_core_slot",
    "tw_scrub": "test_core_slot",
    **dict.fromkeys(
        ("tw_uart_rx", "tw_uart_tx", "tw_uart_shell", "tw_host_link", "tw_axil_access"),
        "test_byte_shell",
    ),
    "ulx3s_top": "test_byte_shell",
    "tw_block_memory": "test_block_memory or test_byte_shell",
}


def bench_of(file: str) -> str:
    """The tests of ``tests/rtl`` that run a module, as pytest's ``-k`` takes them."""
    unit = file.removesuffix(".sv")
    return _BENCHES.get(unit, f"test_{unit.removeprefix('tw_')}")


def run_bench(mutation: Mutation, work: Path, seed: int) -> str:
    """Run the bench of the mutated unit; its failure as text, empty if it passes.

    It takes every parameter set that a fast run may draw: a fault is not missed by the draw.
    """
    test = bench_of(mutation.file)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow"]
    command += ["-p", "mutation.bench_plugin", "-k", test, str(HERE.parent / "rtl")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TILEWRIGHT_SEED": str(seed),
        "TILEWRIGHT_MUTANT": str(work),
        "TILEWRIGHT_SLOW_CASES": "100",
    }
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment,
            timeout=BENCH_LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{test} does not end"
    if done.returncode not in (0, 1):
        raise TilewrightError(f"the bench cannot run: {done.stdout[-500:]}{done.stderr}")
    lines = [line for line in done.stdout.splitlines() if line.startswith(("E ", "FAILED"))]
    return "" if done.returncode == 0 else (lines or ["fails"])[0]


class Run:
    """One mutation run: its folder, its draw of mutants, and what is known of them."""

    def __init__(self, output: Path, *, resume: bool, seed: int, modules: Sequence[str]) -> None:
        self._output = output
        self._rtl = output / "rtl"
        self._log = output / "results.jsonl"
        self.records: dict[str, Record] = {}
        settings = output / "run.json"
        if resume and settings.is_file():
            stored = json.loads(settings.read_text(encoding="utf-8"))
            self.seed, self.modules = int(stored["seed"]), list(stored["modules"])
            if self._log.is_file():
                for line in self._log.read_text(encoding="utf-8").splitlines():
                    record = json.loads(line)
                    self.records[record["ident"]] = record
        else:
            own_folder(output)
            for old in (*output.glob("work-*"), self._rtl):  # the folder `cache` stays
                shutil.rmtree(old, ignore_errors=True)
            for name in ("results.jsonl", "run.json", "report.json"):
                (output / name).unlink(missing_ok=True)
            shutil.copytree(MANIFEST.parent, self._rtl)
            self.seed, self.modules = seed or secrets.randbelow(2**31), list(modules)
            text = json.dumps({"seed": self.seed, "modules": self.modules})
            settings.write_text(text + "\n", encoding="utf-8")
        self._sources = hardware(self._rtl)
        for module in self.modules:
            if f"{module}.sv" not in self._sources:
                raise TilewrightError(
                    "must be a module of rtl/",
                    field="--module",
                    value=module,
                    remedy=choices(module, sorted(n[:-3] for n in self._sources)),
                )

    def permanent(self) -> list[Mutation]:
        """Faults that every run must find (see `permanent.yaml`)."""
        return load_permanent(self._sources)

    def draw(self) -> Iterator[Mutation]:
        """The mutants in their order: the same for the same seed and RTL."""
        only = [f"{module}.sv" for module in self.modules]
        return sample(self._sources, np.random.default_rng(self.seed), only=only)

    def check_original(self, pool: WorkerPool) -> None:
        """The RTL itself must pass, or every mutant would be found."""
        pool.submit("", judge, None, self._rtl, self._output / "work-original", self.seed, False)
        for outcome in pool.results():
            record = self._record(outcome)
            if record["killed_by"]:
                raise TilewrightError(
                    f"the RTL without a fault must pass: {record['killed_by']}: {record['detail']}",
                    remedy="repair it, or record changed timing on purpose with "
                    "`python tests/mutation/pinned_cycles.py --write`",
                )

    def work_off(
        self, mutants: Iterator[Mutation], count: int, pool: WorkerPool, jobs: int, cocotb: bool
    ) -> list[Record]:
        """Judge mutants until ``count`` of them were viable; their records in order."""
        order: list[Mutation] = []
        running: dict[str, Mutation] = {}
        results = self._outcomes(pool)
        while True:
            done = [self.records[m.ident] for m in order if m.ident in self.records]
            viable = sum(record["killed_by"] != "stillborn" for record in done)
            while len(running) < jobs and viable + len(running) < count:
                mutation = next(mutants, None)
                if mutation is None:
                    break
                order.append(mutation)
                if mutation.ident in self.records:
                    viable += self.records[mutation.ident]["killed_by"] != "stillborn"
                    continue
                running[mutation.ident] = mutation
                work = self._output / f"work-{mutation.ident}"
                pool.submit(mutation.ident, judge, mutation, self._rtl, work, self.seed, cocotb)
            if not running:
                return [self.records[m.ident] for m in order]
            outcome = next(results)
            mutation = running.pop(str(outcome.job_id))
            self._keep(mutation, self._record(outcome), viable, count)

    @staticmethod
    def _outcomes(pool: WorkerPool) -> Iterator[Outcome]:
        while True:
            yield from pool.results()

    def _record(self, outcome: Outcome) -> Record:
        work = self._output / f"work-{outcome.job_id or 'original'}"
        if outcome.status is OutcomeStatus.OK:
            record = dict(outcome.value)
        elif outcome.status is OutcomeStatus.ERROR and outcome.error is not None:
            raise TilewrightError(f"mutant {outcome.job_id}: {outcome.error}\n{outcome.detail}")
        else:  # the simulation crashed or does not end
            phase = (work / "phase").read_text(encoding="utf-8") if work.is_dir() else "build"
            stage = "stillborn" if phase == "build" else phase
            record = {"killed_by": stage, "detail": outcome.detail}
        shutil.rmtree(work, ignore_errors=True)
        return {**record, "seconds": round(outcome.seconds, 1)}

    def _keep(self, mutation: Mutation, record: Record, viable: int, count: int) -> None:
        place = {k: v for k, v in asdict(mutation).items() if k not in ("start", "end")}
        whole = {**place, **record}
        self.records[mutation.ident] = whole
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(whole) + "\n")
        verdict = record["killed_by"] or "SURVIVED"
        _say(
            f"{viable + (verdict != 'stillborn'):>4}/{count} {mutation.file}:{mutation.line} "
            f"{mutation.operator}: {verdict} ({record['seconds']:.0f} s)"
        )


def load_permanent(sources: Mapping[str, str], path: Path = PERMANENT) -> list[Mutation]:
    """The faults that were once missed, each of whose texts must occur once in the RTL."""
    found = []
    for name, entry in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        text, old, new = sources[entry["file"]], str(entry["old"]), str(entry["new"])
        if text.count(old) != 1:
            raise TilewrightError(
                "the text of a permanent fault must occur once in its file",
                field=f"{path.name}: {name}",
                value=text.count(old),
                remedy="adapt the fault to the RTL",
            )
        start = text.index(old)
        found.append(
            Mutation(
                file=entry["file"],
                operator="permanent",
                start=start,
                end=start + len(old),
                replacement=new,
                line=text.count("\n", 0, start) + 1,
                original=" ".join(old.split()),
                mutated=" ".join(new.split()),
                ident=f"permanent-{name}",
            )
        )
    return found


def summarise(records: Sequence[Record], explained: Mapping[str, Record]) -> Record:
    """Counts and the share killed; equivalent mutants are left out of it."""
    viable = [record for record in records if record["killed_by"] != "stillborn"]
    survivors = [record for record in viable if not record["killed_by"]]
    equivalent = [r for r in survivors if explained.get(r["ident"], {}).get("equivalent")]
    killed = len(viable) - len(survivors)
    counted = len(viable) - len(equivalent)
    return {
        "mutants": len(viable),
        "stillborn": len(records) - len(viable),
        "killed": killed,
        "survivors": len(survivors),
        "equivalent": len(equivalent),
        "unexplained": sum(r["ident"] not in explained for r in survivors),
        "share_killed": round(killed / counted, 4) if counted else 0.0,
        "by_stage": dict(Counter(r["killed_by"] for r in viable if r["killed_by"])),
        "by_operator": _shares(viable, "operator"),
        "by_file": _shares(viable, "file"),
    }


def _shares(records: Sequence[Record], key: str) -> dict[str, str]:
    total = Counter(record[key] for record in records)
    killed = Counter(record[key] for record in records if record["killed_by"])
    return {name: f"{killed[name]}/{total[name]}" for name in sorted(total)}


def load_explanations(path: Path = EXPLANATIONS) -> dict[str, Record]:
    """Explained survivors by ident: ``equivalent`` and ``reason``."""
    data = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
    return {str(name): dict(entry) for name, entry in (data or {}).items()}


def describe(records: Sequence[Record], summary: Record, explained: Mapping[str, Record]) -> str:
    """The result as text: table, survivors, totals."""
    lines = []
    for record in records:
        if record["killed_by"]:
            continue
        known = explained.get(record["ident"])
        kind = "unexplained" if known is None else known["reason"]
        if known is not None and known.get("equivalent"):
            kind = f"equivalent: {kind}"
        lines += [
            f"survivor {record['ident']} {record['file']}:{record['line']} {record['operator']}",
            f"  - {record['original']}",
            f"  + {record['mutated']}",
            f"  {kind}",
        ]
    stages = ", ".join(f"{name} {number}" for name, number in summary["by_stage"].items())
    operators = ", ".join(f"{name} {share}" for name, share in summary["by_operator"].items())
    files = ", ".join(f"{name} {share}" for name, share in summary["by_file"].items())
    lines += [
        f"killed by stage: {stages}",
        f"killed by operator: {operators}",
        f"killed by file: {files}",
        (
            f"{summary['mutants']} mutants ({summary['stillborn']} more do not elaborate), "
            f"{summary['killed']} killed, {summary['equivalent']} equivalent, "
            f"{summary['unexplained']} survivors unexplained: "
            f"{100 * summary['share_killed']:.1f} % killed"
        ),
    ]
    return "\n".join(lines)


def run_mutation(
    output: Path = OUTPUT,
    *,
    count: int,
    seed: int,
    modules: Sequence[str],
    resume: bool,
    jobs: int,
    cocotb: bool,
) -> tuple[Record, bool]:
    """Seed faults, print what became of each, and keep a report in ``output``.

    Returns records, summary and conditions; and whether at least 95 % are killed, the rest is
    explained, and every permanent fault is found. An RTL that fails as it is is an error.
    """
    run = Run(output, resume=resume, seed=seed, modules=modules)
    _say(f"seed {run.seed}, results in {output}")
    with WorkerPool(jobs, wall_limit_s=WALL_LIMIT_S) as pool:
        run.check_original(pool)
        kept = run.permanent()
        lasting = run.work_off(iter(kept), len(kept), pool, jobs, True)
        records = run.work_off(run.draw(), count, pool, jobs, cocotb)
    explained = load_explanations()
    summary = summarise(records, explained)
    report = {
        "records": records,
        "permanent": lasting,
        "summary": summary,
        "conditions": {
            "seed": run.seed,
            "modules": run.modules,
            "finished": time.strftime("%F %T"),
        },
    }
    (output / "report.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    _say(describe(records, summary, explained))
    missed = [record["ident"] for record in lasting if record["killed_by"] in ("", "stillborn")]
    _say(f"permanent faults: {len(lasting) - len(missed)} of {len(lasting)} found")
    for name in missed:
        _say(f"NOT FOUND: {name}")
    return report, not (summary["share_killed"] < _GOAL or summary["unexplained"] or missed)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
