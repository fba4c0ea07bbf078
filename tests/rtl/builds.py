# SPDX-License-Identifier: Apache-2.0
"""Elaborations that the RTL tests run: sources, parameters and how a bench is started."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tilewright.host.machine.hwconfig import PARAMETERS, HwConfig
from tilewright.host.machine.isa import Field, layout_bits, pack_fields
from tilewright.host.machine.wires import CONFIG, SIZES
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
    module: str = "top.cocotb_top",
    protocol: bool = True,
    cases: int = 3,
) -> None:
    """Run the top's tests; without `protocol` the memory may break the rules of AXI.

    Of random programs, benches that count them run ``cases``.
    """
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
        variables={"TILEWRIGHT_HW": json.dumps(hw.parameters()), "TILEWRIGHT_CASES": str(cases)},
        test_filter=test_filter,
    )


def sources_of(unit: str, *extra: str) -> list[Path]:
    """The RTL up to a unit, and files of ``hdl`` before it: nothing after it enters its build."""
    manifest = [source for each in MANIFESTS for source in read_manifest(each)]
    last = [source.stem for source in manifest].index(unit)
    return [*manifest[:last], *(HERE / "hdl" / name for name in extra), manifest[last]]


def open_unit(
    unit: str, *extra: str, clock: str = "", bench: str = "", reset: int = 0,
    **parameters: int | str,
) -> Interactive:  # fmt: skip
    """A unit, or a bench of ``hdl`` around it, whose pins a test drives itself (`sources_of`).

    It has been in its reset for so many cycles.
    """
    sources = [*sources_of(unit, *extra), *([HERE / "hdl" / f"{bench}.sv"] if bench else [])]
    sim = load(bench or unit, clock=clock, sources=sources, **parameters)
    if reset:
        sim.io.rst_i = 1
        sim.clock.tick(reset)
        sim.io.rst_i = 0
    return sim


def packed(values: Iterable[int], bits: int) -> int:
    """Values side by side, the first one lowest."""
    return sum(int(value) << bits * index for index, value in enumerate(values))


_MEMBERS = {
    "Batch": "batch", "BlockIn": "block_in", "BlockOut": "block_out", "Lanes": "vector_lanes",
    "MacPacked": "mac_packed", "MacPipeline": "mac_pipeline", "Int4Weights": "int4_weights",
    "RowUnit": "row_unit", "BurstBeats": "axi_burst_beats", "Outstanding": "write_outstanding",
    "InpDepth": "inp_depth", "WgtDepth": "wgt_depth", "AccDepth": "acc_depth",
    "OutDepth": "out_depth", "UopDepth": "uop_depth", "ResDepth": "res_depth",
    "ParDepth": "par_depth", "TableDepth": "table_depth", "AccBankShift": "acc_bank_shift",
}  # fmt: skip
"""Of `config_t` or `sizes_t`, by the name that the benches of units have for it."""
_SHIFTS = {
    "InpTileBytes": "inp_shift", "WgtTileBytes": "wgt_shift", "AccTileBytes": "acc_shift",
    "ParTileBytes": "par_shift", "ResTileBytes": "out_shift", "TileBytes": "out_shift",
    "DiagBytes": "diag_shift",
}  # fmt: skip


def literal(layout: tuple[Field, ...], values: Mapping[str, int]) -> str:
    """A structure of `tw_pkg` as Verilog, of the values that it has members for; others are 0."""
    members = {field.name: values.get(field.name, 0) for field in layout}
    return f"{layout_bits(layout)}'h{pack_fields(layout, members):x}"


def config_literal(hw: HwConfig, data_path: int = 1) -> str:
    """`tw_pkg::config_t` of a configuration."""
    added = {"config_hash": hw.config_hash, "data_path": data_path, "address_bits": 40}
    return literal(CONFIG, {**hw.parameters(), **added})


def unit_structures(parameters: Mapping[str, int]) -> dict[str, int | str]:
    """What a bench calls its parameters as those of a unit: also sizes that no legal core has."""
    values = {_MEMBERS[name]: value for name, value in parameters.items() if name in _MEMBERS}
    values |= {
        _SHIFTS[name]: value.bit_length() - 1
        for name, value in parameters.items()
        if name in _SHIFTS
    }
    values |= {"data_path": 1, "axi_data_bits": 8 * parameters.get("BeatBytes", 8)}
    if "Lanes" in parameters:
        block_out = values["block_out"]
        values["vector_parts"] = values["batch"] * block_out // values["vector_lanes"]
        values["par_rows"] = 16 * block_out // parameters["ParRowBytes"]
    return {"Config": literal(CONFIG, values), "Sizes": literal(SIZES, values)}


def run_unit(unit: str, parameters: Mapping[str, int], *, wrapper: bool = False) -> None:
    """Run a unit's tests; a wrapper flattens ports that a simulator's VPI does not offer."""
    sources = [LINT_WAIVERS, *sources_of(unit)]
    top = unit
    if wrapper:
        top = f"bench_{unit.removeprefix('tw_')}"
        sources.append(HERE / "hdl" / f"{top}.sv")
    structures = unit in ("tw_load", "tw_gemm", "tw_vector", "tw_store")
    values = unit_structures(parameters) if structures else dict(parameters)
    bench = Bench(top=top, sources=sources, parameters=values)
    run_bench(
        bench,
        f"benches.cocotb_{unit.removeprefix('tw_')}",
        search_path=HERE,
        cache=CACHE,
        seed=fresh_seed(),
        variables={"TILEWRIGHT_PARAMETERS": json.dumps(dict(parameters))},
    )
