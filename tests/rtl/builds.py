# SPDX-License-Identifier: Apache-2.0
"""Elaborations that the RTL tests run: sources, parameters and how a bench is started."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from tilewright.host.machine.hwconfig import PARAMETERS, HwConfig
from tilewright.sim.verify.cocotb_runner import SEED_VARIABLE, Bench, run_bench
from tilewright.sim.verilator.build import CHECKS, LINT_WAIVERS, MANIFEST, read_manifest
from tilewright.sim.verilator.interactive import Interactive, load

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent.parent / "build" / "cocotb"
MANIFESTS = (
    MANIFEST,
    MANIFEST.with_name("system.f"),
    MANIFEST.parent / "boards" / "ulx3s.f",
    MANIFEST.parent / "boards" / "zynq7000.f",
)
"""Of one core, systems and boards, ordered by dependency; the mutation check has others."""
TOP = "tilewright_top"


def fresh_seed() -> int:
    """TILEWRIGHT_SEED, else a new one; printed, so that a failure can be repeated."""
    chosen = os.environ.get(SEED_VARIABLE, "")
    seed = int(chosen) if chosen else secrets.randbelow(2**31)
    sys.stdout.write(f"{SEED_VARIABLE}={seed}\n")
    return seed


def run_top(
    hw: HwConfig,
    *,
    test_filter: str | None = None,
    module: str = "cocotb_top",
    protocol: bool = True,
) -> None:
    """Run the top's tests; without `protocol` the memory may break the rules of AXI."""
    checks = [path for path in CHECKS if protocol or "protocol" not in path.stem]
    values = {p.rtl_name: getattr(hw, p.name) for p in PARAMETERS}
    bench = Bench(
        top=TOP,
        sources=[LINT_WAIVERS, *read_manifest(MANIFESTS[0]), *checks],
        parameters={**values, "ConfigHash": f"32'd{hw.config_hash}"},
    )
    run_bench(
        bench,
        module,
        search_path=HERE,
        cache=CACHE,
        seed=fresh_seed(),
        variables={"TILEWRIGHT_HW": json.dumps(hw.parameters())},
        test_filter=test_filter,
    )


def sources_of(unit: str, *extra: str) -> list[Path]:
    """The RTL up to a unit, and files of ``hdl`` before it: nothing after it enters its build."""
    manifest = [source for each in MANIFESTS for source in read_manifest(each)]
    last = [source.stem for source in manifest].index(unit)
    return [*manifest[:last], *(HERE / "hdl" / name for name in extra), manifest[last]]


def open_unit(
    unit: str, *extra: str, clock: str = "", bench: str = "", **parameters: int | str
) -> Interactive:
    """A unit, or a bench of ``hdl`` around it, whose pins a test drives itself (`sources_of`)."""
    sources = [*sources_of(unit, *extra), *([HERE / "hdl" / f"{bench}.sv"] if bench else [])]
    return load(bench or unit, clock=clock, sources=sources, **parameters)


def run_unit(unit: str, parameters: Mapping[str, int], *, wrapper: bool = False) -> None:
    """Run a unit's tests; a wrapper flattens ports that a simulator's VPI does not offer."""
    sources = [LINT_WAIVERS, *sources_of(unit)]
    top = unit
    if wrapper:
        top = f"bench_{unit.removeprefix('tw_')}"
        sources.append(HERE / "hdl" / f"{top}.sv")
    bench = Bench(top=top, sources=sources, parameters=dict(parameters))
    run_bench(
        bench,
        f"cocotb_{unit.removeprefix('tw_')}",
        search_path=HERE,
        cache=CACHE,
        seed=fresh_seed(),
        variables={"TILEWRIGHT_PARAMETERS": json.dumps(dict(parameters))},
    )
