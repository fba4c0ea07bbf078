# SPDX-License-Identifier: Apache-2.0
"""How near the accelerator comes to the bound of each layer, with the best schedule found.

The schedule is searched on the twin, which has the counters of the RTL to the cycle: the space of
divisors in random order until ``--search-cycles`` are simulated, then coordinate descent with every
tile size from the best points. The best is then run on the full RTL with real operands: its output
must be bit-exact and its cycles those of the twin. Layers above ``--confirm-cycles`` stay with
the twin, and their records say so. On `ideal` the memory moves a full bus word per cycle and
direction, whatever the width of the bus.

    tilewright bench roofline --quick
    tilewright bench roofline --hw edge-8x8 --axi 64,128 --networks vgg16 --memory ideal

Tokens per second of a GPT that writes, one token at a time, weights with 8 and with 4 bits: the
products of one block with a vector run on the twin, each with the best schedule that the search
finds. The network is as many blocks, and the scores of all words. The figures leave out softmax,
layer normalisation, activations, sampling, and transfers to the CPU.

    tilewright bench decode --width 256 --context 64 --blocks 4 --words 1024
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.bench.commands import DecodeSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.host.lowering import lower
from tilewright.host.lowering.operands import random_operands
from tilewright.host.machine.board import MemoryModel, load_board, load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.golden import conv2d_int8
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Kind, Workload, dense
from tilewright.host.network.zoo import load_network
from tilewright.host.network.zoo.transformer import decoder_block
from tilewright.sim.synth.design import rtl_digest
from tilewright.sim.twin.device import COUNTER_NAMES, Twin
from tilewright.sim.twin.native_lowering import NativeLowering, encode_schedules
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

OFFLOADED = [f"C{number}" for number in range(2, 12)]
THREE_BY_THREE = ["C2", "C3", "C5", "C6", "C8", "C9", "C11"]
LIMIT = 1.5
"""A run is given up at this multiple of the best so far."""
LINE = 24
"""Values of a knob that descent tries in one line."""
NEVER = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Case:
    """One layer of a network on a configuration and a memory."""

    hw: HwConfig
    memory: MemoryModel
    network: str
    task: Workload


def chunks(order: npt.NDArray[np.int64], size: int = 32) -> Iterator[npt.NDArray[np.int64]]:
    """Pieces of an array."""
    return (order[at : at + size] for at in range(0, len(order), size))


class Search:
    """Minimises the cycles of a layer on the twin."""

    def __init__(self, case: Case, search_cycles: int, seed: int) -> None:
        rules = host_rules()
        self.divisors = ScheduleSpace(case.task, case.hw, rules, "vta")
        self.all = ScheduleSpace(case.task, case.hw, rules, "full")
        self.twin = Twin(case.hw, case.memory)
        self.lowering = NativeLowering(case.hw, case.task)
        self.left = search_cycles
        self.rng = np.random.default_rng(seed)
        self.found: dict[Schedule, int] = {}
        self.counters: dict[Schedule, dict[str, int]] = {}
        self.evaluated = 0

    @property
    def best(self) -> Schedule | None:
        """The schedule with the fewest cycles."""
        return min(self.found, key=self.found.__getitem__, default=None)

    def run(self) -> None:
        """Divisors in random order, then descent from the three best."""
        half = self.left // 2
        for chunk in chunks(self.rng.permutation(self.divisors.raw_size)):
            if self.left < half:
                break
            shape = tuple(len(knob) for knob in self.divisors.knobs)
            self.evaluate(
                self.divisors.decode(tuple(int(i) for i in np.unravel_index(flat, shape)))
                for flat in chunk
            )
        for start in sorted(self.found, key=self.found.__getitem__)[:3]:
            self.descend(start)

    def descend(self, schedule: Schedule) -> None:
        """Coordinate descent: the best value of one knob after the other."""
        improved = True
        while improved and self.left > 0:
            improved = False
            for knob in self.all.knobs:
                values = knob.values
                if len(values) > LINE:
                    at = values.index(getattr(schedule, knob.name))
                    near = range(max(0, at - 4), min(len(values), at + 5))
                    far = self.rng.choice(len(values), size=LINE - 9, replace=False)
                    values = tuple(values[i] for i in {*near, *(int(i) for i in far)})
                line = [replace(schedule, **{knob.name: value}) for value in values]
                self.evaluate(line)
                best = min(line, key=lambda s: self.found.get(s, NEVER))
                if self.found.get(best, NEVER) < self.found.get(schedule, NEVER):
                    schedule, improved = best, True

    def evaluate(self, schedules: Iterable[Schedule]) -> None:
        """Measure what is new; a run that exceeds `LIMIT` times the best is given up."""
        fresh = [s for s in dict.fromkeys(schedules) if s not in self.found]
        if not fresh:
            return
        best = self.best
        limit = int(LIMIT * self.found[best]) if best else 0
        batch = self.twin.batch(self.lowering, encode_schedules(fresh), max_cycles=limit)
        self.evaluated += int((batch.rules == 0).sum())
        for schedule, rule, refusal, row in zip(
            fresh, batch.rules, batch.refusals, batch.counters, strict=True
        ):
            if rule:
                continue
            self.left -= limit if refusal else int(row[0])
            if not refusal:
                self.found[schedule] = int(row[0])
                self.counters[schedule] = dict(
                    zip(COUNTER_NAMES, (int(value) for value in row), strict=True)
                )


def confirm(case: Case, schedule: Schedule, cycles: int, seed: int) -> None:
    """Run a schedule on the full RTL: the twin's cycles and the golden output, or exit."""
    tensors = random_operands(case.hw, case.task, np.random.default_rng(seed))
    layer = lower(case.hw, case.task, schedule)
    device = VerilatorDevice(case.hw, case.memory)
    run = device.run(layer.program, layer.image(tensors), max_cycles=2 * cycles)
    device.close()
    if not np.array_equal(layer.output(run.memory), conv2d_int8(case.task, tensors)):
        raise SystemExit(f"{case.task.name} on {case.hw.name}: wrong output with {schedule}")
    if run.counters.cycles != cycles:
        raise SystemExit(
            f"{case.task.name} on {case.hw.name}: {run.counters.cycles} cycles on the RTL, "
            f"{cycles} on the twin, with {schedule}"
        )


def measure(case: Case, search_cycles: int, confirm_cycles: int, seed: int) -> dict[str, Any]:
    """The best schedule of one layer, as a flat record."""
    hw, memory, task = case.hw, case.memory, case.task
    bound = host_rules().bound(hw, task, memory)
    search = Search(case, max(search_cycles, 20 * bound.cycles), seed)
    search.run()
    schedule = search.best
    if schedule is None:
        raise SystemExit(f"{task.name} on {hw.name}: no legal schedule was found")
    cycles, counters = search.found[schedule], search.counters[schedule]
    confirmed = cycles <= confirm_cycles
    if confirmed:
        confirm(case, schedule, cycles, seed)
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
        "confirmed_on_rtl": confirmed,
        "evaluations": search.evaluated,
        "utilisation": round(counters["macs_tiles"] / cycles, 4),
        **{name: round(share, 4) for name, share in stalls.items()},
        "schedule": json.dumps(schedule.to_mapping()),
    }


def case_of(cell: Cell) -> Case:
    """What a cell of the grid names; memory `ideal` moves a bus word per cycle and direction."""
    hw = load_hwconfig(cell["hw"]).with_(axi_data_bits=cell["axi_data_bits"], name=cell["hw"])
    memory = load_memory(cell["memory"])
    if cell["memory"] == "ideal":
        width = float(hw.axi_bytes)
        memory = replace(memory, read_bytes_per_cycle=width, write_bytes_per_cycle=width)
    network = load_network(cell["network"])
    return Case(hw=hw, memory=memory, network=cell["network"], task=network[cell["layer"]])


def summarise(records: Sequence[Row]) -> dict[str, float]:
    """The figures that the project's targets name, of what was measured."""

    def ratios(select: Callable[[Row], bool]) -> list[float]:
        return [r["ratio"] for r in records if select(r)]

    def at_base(r: Row) -> bool:
        return bool(r["hw"] == "pynq-16x16" and r["axi_data_bits"] == 64)

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


class Roofline(Study):
    """Every layer on every configuration, bus width and memory."""

    resumes = True

    says = (
        "{hw:12} {axi_data_bits:4} {memory:8} {network:12} "
        "{layer:14} {cycles:>11,} of {bound:>11,}  {ratio:.3f}"
    )

    @property
    def jobs(self) -> int:
        return int(self.settings.workers)

    def cells(self) -> list[Cell]:
        given = self.settings
        return [
            {"hw": hw, "axi_data_bits": bits, "memory": memory, "network": network, "layer": w.name}
            for hw, bits, memory, network in itertools.product(
                given.hw, given.axi, given.memory, given.networks
            )
            for w in load_network(network).workloads
        ]

    def measure(self, cell: Cell) -> list[Row]:
        given = self.settings
        case = case_of(cell)
        return [measure(case, given.search_cycles, given.confirm_cycles, given.seed)]

    def conditions(self) -> Row:
        return {
            "fidelity": "twin; the best schedule on full RTL in Verilator where confirmed_on_rtl",
            "rtl": rtl_digest(),
            **self.of_settings("search_cycles", "confirm_cycles", "seed"),
        }

    def environment(self) -> Row:
        cases = [case_of(cell) for cell in self.cells()]
        return {
            "memories": {
                f"{case.memory.name}, {case.hw.axi_data_bits}-bit bus": asdict(case.memory)
                for case in cases
            }
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        return summarise(rows)


def layers(hw: HwConfig, given: DecodeSettings, bits: int) -> Iterator[dict[str, Any]]:
    """Each product of a token: its cycles, its bound, and how often a token needs it."""
    memory = load_board(given.board).memory
    block = decoder_block(width=given.width, context=given.context, weight_bits=bits)
    work = [(layer, layer.count * given.blocks) for layer in block]
    if given.words:
        words = dense("words", 1, given.width, given.words)
        work.append((replace(words, weight_bits=bits), 1))
    for layer, count in work:
        case = Case(hw=hw, memory=memory, network="decode", task=layer)
        found = measure(case, given.search_cycles, 0, given.seed)
        kept = {name: found[name] for name in ("layer", "cycles", "bound", "limiter", "schedule")}
        yield {"weight_bits": layer.weight_bits, "of_token": count, **kept}


def tokens_per_second(rows: Sequence[Row], clock_mhz: float) -> float:
    """How many tokens follow one another in a second."""
    cycles = sum(int(row["cycles"]) * int(row["of_token"]) for row in rows)
    return clock_mhz * 1e6 / cycles


class Decode(Study):
    """Both precisions of the constant weights."""

    says = "{layer}, int{weight_bits}: {cycles:,} cycles (bound {bound:,}), {of_token} per token"

    @cached_property
    def hw(self) -> HwConfig:
        """The configuration; weights of 4 bits are added where it has none."""
        hw = load_hwconfig(self.settings.hw)
        return hw if hw.int4_weights else hw.with_(int4_weights=1)

    def cells(self) -> list[Cell]:
        return [{"decoded_with": bits} for bits in (8, 4)]

    def measure(self, cell: Cell) -> list[Row]:
        return list(layers(self.hw, self.settings, cell["decoded_with"]))

    def conditions(self) -> Row:
        board = load_board(self.settings.board)
        return {
            "fidelity": "twin",
            "rtl": rtl_digest(),
            "hw": self.hw.name,
            "int4_weights": self.hw.int4_weights,
            "board": board.name,
            "clock_mhz": board.clock_mhz,
            **self.of_settings("width", "context", "blocks", "words", "search_cycles", "seed"),
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        clock = load_board(self.settings.board).clock_mhz
        eight, four = (
            tokens_per_second([r for r in rows if r["decoded_with"] == bits], clock)
            for bits in (8, 4)
        )
        return {
            "tokens_per_second_int8": round(eight, 3),
            "tokens_per_second_int4": round(four, 3),
            "int4_over_int8": round(four / eight, 3),
        }
