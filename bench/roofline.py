# SPDX-License-Identifier: Apache-2.0
"""How near the RTL comes to the bound of each layer, with the best schedule that a search finds.

Every figure is a cycle count of the full RTL in Verilator, its output checked bit-exact. The
schedule is the best of up to ``--budget`` measurements of the guided tuner a layer; the search of
a layer also ends when it has simulated ``--cycles`` cycles, so that a layer of 30 M cycles gets one
measurement and not sixteen. On `ideal` the memory moves a full bus word a cycle and direction,
whatever the width of the bus.

``--json`` is written after every record and read at the start: a stopped run goes on.

    python bench/roofline.py --quick
    python bench/roofline.py --json build/roofline.json
    python bench/roofline.py --hw edge-8x8 --axi 64 128 --network vgg16 --memory ideal
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.host.board import MemoryModel, load_memory
from tilewright.host.errors import DeviceTimeoutError
from tilewright.host.golden import conv2d_int8, random_tensors
from tilewright.host.hwconfig import HwConfig, load_hwconfig
from tilewright.host.lowering import lower
from tilewright.host.networks import load_network
from tilewright.host.schedule import Schedule
from tilewright.host.workload import Kind, Workload
from tilewright.sim.build import build_model
from tilewright.sim.synthesis import rtl_digest
from tilewright.sim.verilator_device import VerilatorDevice
from tilewright.tuner.rules import host_rules
from tilewright.tuner.search import Result, make_tuner
from tilewright.tuner.spaces import ScheduleSpace

OFFLOADED = [f"C{number}" for number in range(2, 12)]
THREE_BY_THREE = ["C2", "C3", "C5", "C6", "C8", "C9", "C11"]
KEY = ("hw", "axi_data_bits", "memory", "network", "layer")
LIMIT = 3
"""A measurement is stopped at this multiple of the best so far."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One layer of a network on a configuration and a memory."""

    hw: HwConfig
    memory: MemoryModel
    network: str
    task: Workload

    @property
    def key(self) -> tuple[str, int, str, str, str]:
        """What names the record of this case."""
        hw = self.hw
        return hw.name, hw.axi_data_bits, self.memory.name, self.network, self.task.name


def measure(case: Case, budget: int, cycle_budget: int, seed: int) -> dict[str, Any]:
    """The best of at most ``budget`` measurements of one layer, as a flat record."""
    hw, memory, task, rules = case.hw, case.memory, case.task, host_rules()
    bound = rules.bound(hw, task, memory)
    space = ScheduleSpace(task, hw, rules, "full")
    tuner = make_tuner(
        "guided",
        space,
        seed=seed,
        prior=lambda schedule: rules.predicted_cycles(hw, task, schedule, memory),
    )
    tensors = random_tensors(task, np.random.default_rng(seed))
    golden = conv2d_int8(task, tensors)
    device = VerilatorDevice(hw, memory)
    best: tuple[int, Schedule, dict[str, int]] | None = None
    measured = simulated = 0
    while measured < budget and (best is None or simulated < cycle_budget):
        candidates = tuner.ask(1)
        if not candidates:
            break
        candidate = candidates[0]
        layer = lower(hw, task, candidate.point)
        limit = LIMIT * best[0] if best else 40 * bound.cycles + 100_000
        measured += 1
        try:
            run = device.run(layer.program, layer.image(tensors), max_cycles=limit)
        except DeviceTimeoutError:
            simulated += limit
            tuner.tell([Result(index=candidate.index, value=None)])
            continue
        if not np.array_equal(layer.output(run.memory), golden):
            raise SystemExit(f"{task.name} on {hw.name}: wrong output with {candidate.point}")
        cycles = run.counters.cycles
        simulated += cycles
        tuner.tell([Result(index=candidate.index, value=float(cycles))])
        if best is None or cycles < best[0]:
            best = (cycles, candidate.point, dict(run.counters.values))
    device.close()
    if best is None:
        raise SystemExit(f"{task.name} on {hw.name}: no measurement within its limit")
    cycles, schedule, counters = best
    stalls = {
        name: counters[name] / cycles
        for name in counters
        if name.startswith("gemm_") and name not in ("gemm_busy", "gemm_instructions")
    }
    return {
        "hw": hw.name,
        "axi_data_bits": hw.axi_data_bits,
        "memory": memory.name,
        "network": case.network,
        "layer": task.name,
        "depthwise": task.kind is Kind.DEPTHWISE,
        "count": task.count,
        "cycles": cycles,
        "bound": bound.cycles,
        "limiter": bound.limiter,
        "ratio": round(bound.cycles / cycles, 4),
        "measurements": measured,
        "utilisation": round(counters["macs_tiles"] / cycles, 4),
        **{name: round(share, 4) for name, share in stalls.items()},
        "schedule": json.dumps(schedule.to_mapping()),
    }


def cases(
    names: Sequence[str], widths: Sequence[int], memories: Sequence[str], networks: Sequence[str]
) -> list[Case]:
    """The product of configurations, bus widths, memories and the layers of networks."""
    chosen = []
    for name, bits in itertools.product(names, widths):
        hw = load_hwconfig(name).with_(axi_data_bits=bits, name=name)
        for memory_name, network in itertools.product(memories, networks):
            memory = load_memory(memory_name)
            if memory_name == "ideal":
                width = float(hw.axi_bytes)
                memory = replace(memory, read_bytes_per_cycle=width, write_bytes_per_cycle=width)
            chosen += [
                Case(hw=hw, memory=memory, network=network, task=task)
                for task in load_network(network).workloads
            ]
    return chosen


def summarise(records: list[dict[str, Any]]) -> dict[str, float]:
    """The figures that the project's targets name, of what was measured."""

    def ratios(select: Callable[[dict[str, Any]], bool]) -> list[float]:
        return [r["ratio"] for r in records if select(r)]

    def at_base(r: dict[str, Any]) -> bool:
        return r["hw"] == "pynq-16x16" and r["axi_data_bits"] == 64

    summary: dict[str, float] = {}
    for memory in ("ideal", "pynq-z2"):
        rows = [
            r
            for r in records
            if at_base(r)
            and (r["network"], r["memory"]) == ("vta-resnet18", memory)
            and r["layer"] in OFFLOADED
        ]
        if len(rows) == len(OFFLOADED):
            suffix = "" if memory == "ideal" else "_pynq_z2"
            summary[f"resnet18_c2_c11_min_ratio{suffix}"] = min(r["ratio"] for r in rows)
            summary[f"resnet18_3x3_min_ratio{suffix}"] = min(
                r["ratio"] for r in rows if r["layer"] in THREE_BY_THREE
            )
            summary[f"resnet18_offloaded_cycles_{memory.replace('-', '_')}"] = sum(
                r["cycles"] * r["count"] for r in rows
            )
    if found := ratios(lambda r: at_base(r) and r["depthwise"] and r["memory"] == "ideal"):
        summary["depthwise_max_cycles_over_bound"] = round(1 / min(found), 4)
    small, large = (
        {
            (r["axi_data_bits"], r["memory"], r["network"], r["layer"]): r["ratio"]
            for r in records
            if r["hw"] == name and r["limiter"] == "mac" and not r["depthwise"]
        }
        for name in ("edge-8x8", "zu-32x32")
    )
    if both := small.keys() & large.keys():
        summary["utilisation_drop_8x8_to_32x32"] = round(max(small[k] - large[k] for k in both), 4)
    return summary


def _resumed(path: Path, conditions: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of a stopped run with the same conditions."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    for name in ("rtl", "budget_per_layer", "simulated_cycles_per_layer", "seed"):
        if stored["conditions"][name] != conditions[name]:
            raise SystemExit(
                f"{path}: its records were made with {name} = {stored['conditions'][name]}, "
                f"not {conditions[name]}; choose another file"
            )
    records: list[dict[str, Any]] = stored["records"]
    return records


def _save(path: Path | None, result: dict[str, Any]) -> None:
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        part.replace(path)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="ResNet-18 at pynq-16x16 only")
    parser.add_argument("--json", type=Path, help="write records, summary and conditions here")
    parser.add_argument("--hw", nargs="+", default=["edge-8x8", "pynq-16x16", "zu-32x32"])
    parser.add_argument("--axi", nargs="+", type=int, default=[64, 128, 256], help="bus bits")
    parser.add_argument("--memory", nargs="+", default=["ideal", "pynq-z2"])
    parser.add_argument(
        "--network", nargs="+", default=["vta-resnet18", "resnet18", "vgg16", "mobilenet_v2"]
    )
    parser.add_argument("--budget", type=int, default=16, help="measurements a layer")
    parser.add_argument(
        "--cycles", type=int, default=10_000_000, help="simulated cycles that end a search"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.quick:
        work = cases(["pynq-16x16"], [64], ["ideal", "pynq-z2"], ["vta-resnet18"])
    else:
        work = cases(options.hw, options.axi, options.memory, options.network)
    conditions = {
        "fidelity": "full RTL in Verilator, outputs bit-exact",
        "tuner": "guided",
        "rtl": rtl_digest(),
        "budget_per_layer": options.budget,
        "simulated_cycles_per_layer": options.cycles,
        "seed": options.seed,
        "memories": {
            f"{case.memory.name}, {case.hw.axi_data_bits}-bit bus": asdict(case.memory)
            for case in work
        },
    }
    records: list[dict[str, Any]] = []
    if options.json and options.json.exists():
        records = _resumed(options.json, conditions)
    known = {tuple(record[field] for field in KEY) for record in records}
    work = [case for case in work if case.key not in known]
    for hw in {case.hw.config_hash: case.hw for case in work}.values():
        build_model(hw)
    with ProcessPoolExecutor(options.workers) as pool:
        futures = [
            pool.submit(measure, case, options.budget, options.cycles, options.seed)
            for case in work
        ]
        for future in as_completed(futures):
            record = future.result()
            records.append(record)
            print(
                f"{record['hw']:12} {record['axi_data_bits']:4} {record['memory']:8} "
                f"{record['network']:12} {record['layer']:14} {record['cycles']:>11,} of "
                f"{record['bound']:>11,}  {record['ratio']:.3f}",
                flush=True,
            )
            result = {"records": records, "summary": summarise(records), "conditions": conditions}
            _save(options.json, result)
    for name, value in summarise(records).items():
        print(f"{name} = {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
