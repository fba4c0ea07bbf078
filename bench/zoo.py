# SPDX-License-Identifier: Apache-2.0
"""The zoo: where networks that people bring run, and what one inference takes from end to end.

Each architecture of `examples/networks/zoo.py` is built with random weights, quantised with one
random input and compiled. Told for each: regions, the share of the multiplications that the
accelerator computes, and the milliseconds of accelerator, crossings and CPU apart
(`host.compiler.pack.latency`). Cycles are the twin's. The network runs once on the reference
device, or on the RTL, and its outputs are compared with those of ONNX Runtime on the same quantised
model.

    tilewright bench networks --zoo --quick
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from math import exp, log
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.bench.networks import agreement
from tilewright.bench.result import BenchResult
from tilewright.host.common.clone_parts import clone_part
from tilewright.host.common.errors import DeviceError, WorkloadError
from tilewright.host.common.names import counted
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.pack.latency import Latency, latency, mac_share
from tilewright.host.compiler.pipeline import compile_network, for_hardware, import_network
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.run.relax_host import HostModule, HostProgram
from tilewright.host.compiler.run.runtime import open_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.twin.network_timing import time_network
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.tuner.study.schedule_lookup import ScheduleLookup

_examples: Final = clone_part("examples/networks", "networks")
ZOO: Final = import_module("networks.zoo").ZOO
QUICK: Final = ("keyword-spotter", "bert-tiny", "gpt-block", "mobilenet-v3-small")

BEFORE_FILE: Final = Path(__file__).with_name("zoo_before.yaml")
"""Milliseconds that `zoo.geomean_speedup` compares with."""

HOST_RUNS: Final = 3
"""Runs of the CPU's part on this machine, of which the fastest counts."""

Record = dict[str, Any]


def measure(
    name: str, *, hw_name: str, board_name: str, fidelity: str, search: int, int8_ends: bool
) -> Record:
    """One network.

    Args:
        name: of `ZOO`.
        hw_name: configuration that it is compiled for.
        board_name: board that it is compiled for.
        fidelity: ``twin``: outputs come from the reference device; ``rtl`` or ``dpi``: the device
            runs too and must agree.
        search: measurements on the twin per layer.
        int8_ends: the network takes and gives int8, so that nobody converts on the board's CPU.

    Raises:
        DeviceError: device and reference differ.
    """
    hw, board = load_hwconfig(hw_name), load_board(board_name)
    sample = np.random.default_rng(0).standard_normal(ZOO[name].input_shape, dtype=np.float32)
    network = import_network(
        _examples.build(name),
        calibration=Calibration(arrays={"x": sample}),
        options=for_hardware(
            ImportOptions(
                name=name,
                example_inputs=[sample],
                quantise=QuantiseOptions(
                    method="minmax",
                    equalisation=False,
                    bias_correction=False,
                    int8_ends=int8_ends,
                ),
            ),
            hw,
        ),
    )
    book = ScheduleLookup(hw, board.memory, budget=search)
    compiled = compile_network(network, hw, board, book).network
    book.close()
    cycles = time_network(compiled, board.memory).cycles
    image = next(Calibration(arrays={"x": sample}).batches(compiled.inputs))
    run = open_network(compiled, ReferenceDevice(hw), trusted=True).run(image)
    if fidelity != "twin":
        with closing(VerilatorDevice(hw, board.memory, fidelity=Fidelity(fidelity))) as device:
            found = open_network(compiled, device, trusted=True).run(image)
        exact = all(np.array_equal(a, run.outputs[n]) for n, a in found.outputs.items())
        if not exact or found.cycles != cycles:
            raise DeviceError(
                f"bit-exact {exact}; {fidelity} {found.cycles} cycles, twin {cycles}", field=name
            )
    spent = latency(compiled, board, cycles)
    placed = compiled.placements
    return {
        "network": name,
        "regions": len(compiled.regions),
        "operators": len(placed),
        "accelerated": sum(p.where == "accelerator" for p in placed),
        "macs": sum(p.macs for p in placed),
        "mac_share": mac_share(compiled),
        "cycles": cycles,
        "accelerator_milliseconds": 1e3 * spent.accelerator,
        "crossings_milliseconds": 1e3 * spent.crossings,
        "cpu_milliseconds": 1e3 * spent.cpu,
        "milliseconds": 1e3 * spent.total,
        "cpu_and_crossings_share": spent.cpu_share,
        "bottleneck": spent.bottleneck,
        "host_milliseconds": 1e3
        * (spent.cpu + board.cpu.work_seconds(nbytes=compiled.conversion_bytes)),
        "host_milliseconds_here": 1e3 * host_seconds(compiled, image),
        **agreement(network, run.outputs, image),
    }


def host_seconds(compiled: CompiledNetwork, inputs: Mapping[str, Any]) -> float:
    """Processor seconds of the CPU's part on this machine, the least of `HOST_RUNS` runs.

    Regions return zeros at once: what the CPU does takes no longer for other numbers. Seconds are
    those of all threads, so that other load on the machine does not count.
    """
    host = HostProgram(module=HostModule.from_json(compiled.host))

    def nothing(number: int, _: Sequence[Any]) -> Sequence[Any]:
        region = compiled.regions[number]
        shapes = [region.model_shapes.get(n, region.tensors[n].shape) for n in region.outputs]
        return [np.zeros(shape, np.int8) for shape in shapes]

    found = []
    for _ in range(HOST_RUNS):
        started = time.process_time()
        host.run(inputs, nothing)
        found.append(time.process_time() - started)
    return min(found)


def run(
    names: Sequence[str],
    *,
    hw: str,
    board: str,
    fidelity: str,
    search: int,
    int8_ends: bool = False,
    known: Mapping[str, Any] | None = None,
    keep: Callable[[BenchResult], None] | None = None,
) -> BenchResult:
    """Measure networks one after another.

    Args:
        names: of `ZOO`.
        hw: configuration.
        board: clock, memory and the rates of the CPU.
        fidelity: see `measure`.
        search: see there.
        int8_ends: see there.
        known: document of a stopped run with the same conditions; its rows are taken over.
        keep: told the result so far after each network.

    Returns:
        The rows, and in the summary what kept a network from being compiled.

    Raises:
        DeviceError: a result is not bit-exact, or the twin counts other cycles.
    """
    conditions = {
        "hw": hw,
        "board": board,
        "fidelity": fidelity,
        "search": search,
        "weights": "random, seed 0",
        "calibration": "one random input, minmax",
        "host_runs": HOST_RUNS,
        "int8_ends": int8_ends,
    }
    same = known is not None and known.get("conditions", {}) == conditions
    done = {row["network"]: row for row in known["rows"]} if known is not None and same else {}
    before = before_milliseconds(hw, board)
    records: list[Record] = []
    failures: dict[str, str] = {}

    def result() -> BenchResult:
        return BenchResult(
            rows=records,
            conditions=conditions,
            summary=summary(records, before) | {"failures": failures},
            passed=not failures,
        )

    for name in names:
        started = time.perf_counter()
        try:
            record = done.get(name) or measure(
                name,
                hw_name=hw,
                board_name=board,
                fidelity=fidelity,
                search=search,
                int8_ends=int8_ends,
            )
        except WorkloadError as error:
            failures[name] = str(error)
            print(f"{name}: {error}", flush=True)
            continue
        record.setdefault("seconds", time.perf_counter() - started)
        records.append(record)
        print(_line(record), flush=True)
        if keep is not None and name not in done:
            keep(result())
    return result()


def summary(records: Sequence[Record], before: Mapping[str, float]) -> Record:
    """The figures of `zoo`, and how the CPU's model compares with this machine.

    Args:
        records: rows.
        before: end-to-end milliseconds by network; the speed-up is over those that have any.
    """
    ratios = [
        log(before[r["network"]] / r["milliseconds"]) for r in records if r["network"] in before
    ]
    factors = sorted(
        r["host_milliseconds"] / r["host_milliseconds_here"]
        for r in records
        if r["host_milliseconds"] >= MEASURABLE_MILLISECONDS
    )
    return {
        "zoo": {
            "worst_mac_share": min((r["mac_share"] for r in records), default=None),
            "worst_cpu_and_crossings_share": max(
                (r["cpu_and_crossings_share"] for r in records), default=None
            ),
            "geomean_speedup": exp(sum(ratios) / len(ratios)) if ratios else None,
            "networks": len(records),
            "networks_with_before": len(ratios),
            "before_hw": _recorded()["conditions"]["hw"] if ratios else None,
        },
        "host_factor": {
            "median": factors[len(factors) // 2] if factors else None,
            "least": factors[0] if factors else None,
            "most": factors[-1] if factors else None,
        },
    }


MEASURABLE_MILLISECONDS: Final = 1.0
"""Less work on the CPU is not compared with this machine: calls of TVM outweigh it."""


def before_milliseconds(hw: str, board: str) -> dict[str, float]:
    """End-to-end milliseconds on record for a configuration and a board; empty: there are none.

    They hold for configurations of the same parameters that have options more: what an option is
    worth belongs to the comparison.
    """
    recorded = _recorded()
    conditions = recorded["conditions"]
    plain = load_hwconfig(hw).without_options().config_hash
    same = plain == load_hwconfig(conditions["hw"]).config_hash
    if not same or conditions["board"] != board:
        return {}
    return {
        name: Latency(**{part: value / 1e3 for part, value in parts.items()}).total * 1e3
        for name, parts in recorded["milliseconds"].items()
    }


def _recorded() -> Mapping[str, Any]:
    return read_yaml_mapping(BEFORE_FILE, "figures of the zoo")


def _line(r: Mapping[str, Any]) -> str:
    return (
        f"{r['network']}: {counted(r['regions'], 'region')}, {r['accelerated']} of "
        f"{r['operators']} operators, {100 * r['mac_share']:.1f} % of the MACs; "
        f"{r['milliseconds']:.2f} ms = accelerator {r['accelerator_milliseconds']:.2f} + crossings "
        f"{r['crossings_milliseconds']:.2f} + CPU {r['cpu_milliseconds']:.2f} "
        f"(bottleneck: {r['bottleneck']}); largest gap to ONNX Runtime "
        f"{100 * r['largest_gap_to_ort']:.2f} % of the range"
    )
