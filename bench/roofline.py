# SPDX-License-Identifier: Apache-2.0
"""How near the RTL comes to the bound of each layer, with the best schedule that a search finds.

Every figure is a cycle count of the full RTL in Verilator, its output checked bit-exact. The
schedule is the best of ``--budget`` measurements of the guided tuner a layer. Writes flat records,
a summary and the conditions as JSON.

    python bench/roofline.py --quick
    python bench/roofline.py --json build/roofline.json
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.host.board import load_memory
from tilewright.host.errors import DeviceTimeoutError
from tilewright.host.golden import conv2d_int8, random_tensors
from tilewright.host.hwconfig import HwConfig, load_hwconfig
from tilewright.host.lowering import lower
from tilewright.host.networks import load_network
from tilewright.host.schedule import Schedule
from tilewright.host.workload import Workload
from tilewright.sim.build import build_model
from tilewright.sim.verilator_device import VerilatorDevice
from tilewright.tuner.rules import host_rules
from tilewright.tuner.search import Result, make_tuner
from tilewright.tuner.spaces import ScheduleSpace

OFFLOADED = [f"C{number}" for number in range(2, 12)]
THREE_BY_THREE = ["C2", "C3", "C5", "C6", "C8", "C9", "C11"]
LIMIT = 3
"""A measurement is stopped at this multiple of the best so far."""


def measure(
    hw: HwConfig, memory_name: str, task: Workload, budget: int, seed: int
) -> dict[str, Any]:
    """The best of ``budget`` measurements of one layer, as a flat record."""
    memory, rules = load_memory(memory_name), host_rules()
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
    for _ in range(budget):
        candidates = tuner.ask(1)
        if not candidates:
            break
        candidate = candidates[0]
        layer = lower(hw, task, candidate.point)
        limit = LIMIT * best[0] if best else 40 * bound.cycles + 100_000
        try:
            run = device.run(layer.program, layer.image(tensors), max_cycles=limit)
        except DeviceTimeoutError:
            tuner.tell([Result(index=candidate.index, value=None)])
            continue
        if not np.array_equal(layer.output(run.memory), golden):
            raise SystemExit(f"{task.name} on {hw.name}: wrong output with {candidate.point}")
        cycles = run.counters.cycles
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
        "memory": memory_name,
        "layer": task.name,
        "count": task.count,
        "cycles": cycles,
        "bound": bound.cycles,
        "limiter": bound.limiter,
        "ratio": round(bound.cycles / cycles, 4),
        "utilisation": round(counters["macs_tiles"] / cycles, 4),
        **{name: round(share, 4) for name, share in stalls.items()},
        "schedule": json.dumps(schedule.to_mapping()),
    }


def cases(quick: bool) -> list[tuple[HwConfig, str, Workload]]:
    """(configuration, memory, layer) of every record."""
    vta = load_network("vta-resnet18")
    base = load_hwconfig("pynq-16x16")
    chosen = [(base, memory, task) for memory in ("ideal", "pynq-z2") for task in vta.workloads]
    if quick:
        return chosen
    dense = [w for w in load_network("resnet18").workloads if w.name == "FC"]
    chosen += [(base, memory, task) for memory in ("ideal", "pynq-z2") for task in dense]
    for name in ("edge-8x8", "pynq-16x16", "zu-32x32"):
        for bits in (64, 128, 256):
            hw = load_hwconfig(name).with_(axi_data_bits=bits, name=f"{name}-axi{bits}")
            if (name, bits) != ("pynq-16x16", 64):
                chosen += [(hw, "ideal", vta[layer]) for layer in ("C2", "C4", "C8", "C11")]
    for network in ("vgg16", "mobilenet_v2"):
        chosen += [(base, "ideal", task) for task in load_network(network).workloads]
    return chosen


def summarise(records: list[dict[str, Any]]) -> dict[str, float]:
    """The figures that the project's targets name."""

    def rows(memory: str) -> dict[str, dict[str, Any]]:
        return {
            r["layer"]: r
            for r in records
            if r["hw"] == "pynq-16x16" and r["memory"] == memory and r["layer"] in OFFLOADED
        }

    ideal, board = rows("ideal"), rows("pynq-z2")
    return {
        "resnet18_c2_c11_min_ratio": min(r["ratio"] for r in ideal.values()),
        "resnet18_3x3_min_ratio": min(ideal[name]["ratio"] for name in THREE_BY_THREE),
        "resnet18_offloaded_cycles_ideal": sum(r["cycles"] * r["count"] for r in ideal.values()),
        "resnet18_offloaded_cycles_pynq_z2": sum(r["cycles"] * r["count"] for r in board.values()),
    }


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="ResNet-18 at pynq-16x16 only")
    parser.add_argument("--json", type=Path, help="write records, summary and conditions here")
    parser.add_argument("--budget", type=int, default=16, help="measurements a layer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    work = cases(options.quick)
    for hw in {hw.config_hash: hw for hw, _, _ in work}.values():
        build_model(hw)
    records = []
    with ProcessPoolExecutor(options.workers) as pool:
        futures = [pool.submit(measure, *case, options.budget, options.seed) for case in work]
        for future in futures:
            record = future.result()
            records.append(record)
            print(
                f"{record['hw']:22} {record['memory']:8} {record['layer']:10} "
                f"{record['cycles']:>10,} of {record['bound']:>10,}  {record['ratio']:.3f}",
                flush=True,
            )
    conditions = {
        "fidelity": "full RTL in Verilator, outputs bit-exact",
        "tuner": "guided",
        "budget_per_layer": options.budget,
        "seed": options.seed,
        "memories": {name: asdict(load_memory(name)) for name in ("ideal", "pynq-z2")},
    }
    result = {"records": records, "summary": summarise(records), "conditions": conditions}
    for name, value in result["summary"].items():
        print(f"{name} = {value}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
