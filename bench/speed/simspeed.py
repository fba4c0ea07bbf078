# SPDX-License-Identifier: Apache-2.0
"""How fast the simulations are: cycles per second of every fidelity, side by side in one run.

Each configuration runs the same layer on every fidelity in turn, several times; a figure is the
median over the rounds, with the lowest and the highest beside it. Seconds are those of the CPU, not
of the wall, so that other work on the machine disturbs less; ``load`` says how much there was.
Counters must be equal, and results bit-exact where a fidelity computes any.

    tilewright bench simspeed --quick
"""

from __future__ import annotations

import json
import os
import secrets
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.bench.commands import ARRAYS, SimspeedSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.host.common.errors import BuildError
from tilewright.host.lowering import lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import PARAMETERS, HwConfig, load_hwconfig
from tilewright.host.machine.program import Program
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Workload
from tilewright.host.network.zoo import load_network
from tilewright.sim.synth.design import rtl_digest
from tilewright.sim.tools.toolchain import find_compiler, find_verilator
from tilewright.sim.twin.device import Twin
from tilewright.sim.verify.cocotb_runner import Bench, run_bench
from tilewright.sim.verilator import build, interactive
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.sim.verilator.elaboration import SIMULATED
from tilewright.tuner.exhaustive.exhaust import exhaust
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

HERE = Path(__file__).resolve().parent
Bytes = npt.NDArray[np.uint8]


def plain_runs(
    library: Path, hw: HwConfig, program: Program, image: Bytes, *, runs: int, folder: Path
) -> list[tuple[int, float]]:
    """(cycles, CPU seconds) of some runs under a testbench in C++ alone, on memory ``ideal``."""
    binary, data = folder / "plain_simulation", folder / "image.bin"
    if not binary.is_file():
        command = [str(find_compiler().path), "-std=gnu++17", "-O2", f"-I{build.HARNESS_DIR}"]
        source = HERE / "plain_simulation.cpp"
        built = subprocess.run(
            [*command, str(source), "-o", str(binary), "-ldl"],
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode:
            raise BuildError(built.stderr, field=source.name)
    image.tofile(data)
    ideal = load_memory("ideal")
    done = subprocess.run(
        [
            str(binary),
            str(library),
            str(hw.axi_burst_beats),
            str(program.regions["insn"].offset),
            str(program.instruction_count),
            str(data),
            str(runs),
            str(ideal.read_latency),
            str(ideal.write_latency),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the plain testbench failed: {done.stderr}")
    rows = [line.split() for line in done.stdout.splitlines()]
    return [(int(cycles), float(seconds)) for cycles, seconds in rows]


def cocotb_run(hw: HwConfig, program: Program, image: Bytes, *, folder: Path) -> tuple[int, float]:
    """(cycles, CPU seconds) of a program on the top as cocotb drives it, AXI slaves in Python."""
    image.tofile(folder / "image.bin")
    settings = {
        "insn_base": program.regions["insn"].offset,
        "insn_count": program.instruction_count,
    }
    (folder / "layer.json").write_text(json.dumps(settings), encoding="utf-8")
    values = {p.rtl_name: getattr(hw, p.name) for p in PARAMETERS}
    bench = Bench(
        top=build.TOP,
        sources=[build.LINT_WAIVERS, *build.read_manifest()],
        parameters={**values, "ConfigHash": f"32'd{hw.config_hash}"},
    )
    run_bench(
        bench,
        "cocotb_layer",
        search_path=HERE,
        cache=folder / "cocotb",
        seed=secrets.randbelow(2**31),
        variables={"TILEWRIGHT_LAYER": str(folder)},
    )
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return int(result["cycles"]), float(result["seconds"])


NETWORK = "vta-resnet18"
OFFLOADED = [f"C{number}" for number in range(2, 12)]
LAYER = "C9"
COCOTB_LAYER = "C10"
"""cocotb takes a thousand times as long a cycle: a short layer."""
MEMORY = "ideal"
TWIN_REPEATS = 50


def _schedule(
    tile_h: int, tile_w: int, tile_ci: int, tile_co: int, h: int, oc: int, order: str, fusion: str
) -> Schedule:
    return Schedule(
        tile_h=tile_h, tile_w=tile_w, tile_ci=tile_ci, tile_co=tile_co,
        h_threading=h, oc_threading=oc, loop_order=LoopOrder(order), fusion=Fusion(fusion),
    )  # fmt: skip


SCHEDULES = {
    ("edge-8x8", "C9"): _schedule(4, 4, 8, 4, 1, 2, "output", "block"),
    ("pynq-16x16", "C2"): _schedule(28, 9, 1, 1, 1, 2, "weight", "tile"),
    ("pynq-16x16", "C3"): _schedule(4, 14, 1, 2, 1, 2, "output", "block"),
    ("pynq-16x16", "C4"): _schedule(8, 8, 2, 4, 1, 2, "weight", "block"),
    ("pynq-16x16", "C5"): _schedule(14, 8, 2, 1, 1, 2, "weight", "tile"),
    ("pynq-16x16", "C6"): _schedule(7, 7, 1, 2, 2, 2, "output", "tile"),
    ("pynq-16x16", "C7"): _schedule(7, 7, 2, 8, 1, 2, "weight", "block"),
    ("pynq-16x16", "C8"): _schedule(4, 14, 4, 1, 1, 2, "weight", "block"),
    ("pynq-16x16", "C9"): _schedule(7, 7, 1, 2, 2, 2, "output", "tile"),
    ("pynq-16x16", "C10"): _schedule(7, 7, 2, 7, 1, 2, "input", "block"),
    ("pynq-16x16", "C11"): _schedule(7, 7, 2, 2, 1, 2, "output", "block"),
    ("zu-32x32", "C9"): _schedule(7, 7, 1, 1, 1, 2, "input", "tile"),
}
"""Fixed, so that figures of different days are of the same programs."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Something that simulates: called for one round, it gives (cycles, CPU seconds)."""

    name: str
    array: int
    round: Callable[[], tuple[int, float]]
    close: Callable[[], None]
    notes: dict[str, Any]


def device_subject(array: int, hw: HwConfig, task: Workload, fidelity: Fidelity) -> Subject:
    """A layer on a fidelity; the first round checks its results."""
    layer = lower(hw, task, SCHEDULES[hw.name, task.name])
    tensors = random_tensors(task, np.random.default_rng(0))
    image, golden = layer.image(tensors), conv2d_int8(task, tensors)
    started = time.process_time(), time.perf_counter()
    # Like a tuner's: without the assertions on the bus, which the memory model checks as well.
    library = build.build_model(hw, fidelity=fidelity, checks=False)
    build_s = time.perf_counter() - started[1]
    device = VerilatorDevice(hw, load_memory(MEMORY), fidelity=fidelity, library=library)
    checked = False

    def once() -> tuple[int, float]:
        nonlocal checked
        begin = time.process_time()
        run = device.run(layer.program, image)
        seconds = time.process_time() - begin
        if fidelity.computes and not checked:
            if not np.array_equal(layer.output(run.memory), golden):
                raise SystemExit(f"{hw.name} {fidelity}: wrong output")
            checked = True
        return run.counters.cycles, seconds

    notes = {"layer": task.name, "build_seconds": round(build_s, 2)}
    return Subject(name=fidelity.value, array=array, round=once, close=device.close, notes=notes)


def twin_subject(array: int, hw: HwConfig, task: Workload) -> Subject:
    """A layer on the twin, often enough in a round to be timed."""
    program = lower(hw, task, SCHEDULES[hw.name, task.name]).program
    twin = Twin(hw, load_memory(MEMORY))

    def once() -> tuple[int, float]:
        begin = time.process_time()
        for _ in range(TWIN_REPEATS):
            cycles = twin.counters(program).cycles
        return cycles, (time.process_time() - begin) / TWIN_REPEATS

    return Subject(
        name="twin", array=array, round=once, close=twin.close, notes={"layer": task.name}
    )


def stepped_subject(array: int, hw: HwConfig, cycles: int) -> Subject:
    """The idle top, stepped cycle by cycle from Python."""
    simulation = interactive.load("tilewright_top", AxiDataBits=hw.axi_data_bits)

    def once() -> tuple[int, float]:
        begin = time.process_time()
        simulation.clock.tick(cycles)
        return cycles, time.process_time() - begin

    notes = {"layer": "idle"}
    return Subject(name="interactive", array=array, round=once, close=simulation.close, notes=notes)


def plain_subject(array: int, hw: HwConfig, task: Workload, folder: Path) -> Subject:
    """A layer on full RTL under a testbench in C++ alone, in a process of its own."""
    layer = lower(hw, task, SCHEDULES[hw.name, task.name])
    image = layer.image(random_tensors(task, np.random.default_rng(0)))
    library = build.build_model(hw, checks=False)

    def once() -> tuple[int, float]:
        return plain_runs(library, hw, layer.program, image, runs=1, folder=folder)[0]

    return Subject(
        name="plain C++", array=array, round=once, close=lambda: None, notes={"layer": task.name}
    )


def cocotb_record(array: int, hw: HwConfig, task: Workload, folder: Path) -> dict[str, Any]:
    """A layer on full RTL as cocotb drives it, once."""
    layer = lower(hw, task, SCHEDULES[hw.name, task.name])
    image = layer.image(random_tensors(task, np.random.default_rng(0)))
    cycles, seconds = cocotb_run(hw, layer.program, image, folder=folder)
    return {"fidelity": "cocotb", "array": array, "layer": task.name, "cycles": cycles,
            "seconds": round(seconds, 2), "cycles_per_s": round(cycles / seconds)}  # fmt: skip


def measure(subjects: list[Subject], rounds: int) -> list[dict[str, Any]]:
    """Rounds of all subjects in turn; one record a subject."""
    speeds: list[list[float]] = [[] for _ in subjects]
    seen: dict[tuple[int, Any, bool], int] = {}
    for _ in range(rounds):
        for subject, speed in zip(subjects, speeds, strict=True):
            cycles, seconds = subject.round()
            speed.append(cycles / seconds)
            # The plain testbench counts from the start of the run to the interrupt.
            key = (subject.array, subject.notes["layer"], subject.name == "plain C++")
            if seen.setdefault(key, cycles) != cycles:
                raise SystemExit(f"{subject.name} at {subject.array}: another number of cycles")
    records = []
    for subject, speed in zip(subjects, speeds, strict=True):
        records.append(
            {
                "fidelity": subject.name,
                "array": subject.array,
                "cycles": seen[subject.array, subject.notes["layer"], subject.name == "plain C++"],
                "cycles_per_s": round(statistics.median(speed)),
                "lowest": round(min(speed)),
                "highest": round(max(speed)),
                **subject.notes,
            }
        )
        subject.close()
    return records


def resnet18(hw: HwConfig) -> dict[str, Any]:
    """CPU seconds of the offloaded ResNet-18 on full RTL: each layer once, times its count."""
    device = VerilatorDevice(hw, load_memory(MEMORY), library=build.build_model(hw, checks=False))
    cycles, seconds = 0, 0.0
    for task in load_network(NETWORK).workloads:
        if task.name not in OFFLOADED:
            continue
        layer = lower(hw, task, SCHEDULES[hw.name, task.name])
        tensors = random_tensors(task, np.random.default_rng(0))
        image = layer.image(tensors)
        begin = time.process_time()
        run = device.run(layer.program, image)
        seconds += task.count * (time.process_time() - begin)
        cycles += task.count * run.counters.cycles
        if not np.array_equal(layer.output(run.memory), conv2d_int8(task, tensors)):
            raise SystemExit(f"{task.name}: wrong output")
    device.close()
    return {"fidelity": "rtl", "array": 16, "layer": "C2-C11 times count", "cycles": cycles,
            "seconds": round(seconds, 2), "cycles_per_s": round(cycles / seconds)}  # fmt: skip


def twin_layers(hw: HwConfig, rounds: int) -> list[dict[str, Any]]:
    """Twin cycles per second on each offloaded layer."""
    records = []
    for task in load_network(NETWORK).workloads:
        if task.name in OFFLOADED and task.name != LAYER:
            records += measure([twin_subject(16, hw, task)], rounds)
    return records


def twin_spaces(hw: HwConfig) -> dict[str, Any]:
    """Every schedule of the VTA spaces of C2-C11 on the twin, one thread, lowering included."""
    memory, rules, trials, cycles = load_memory(MEMORY), host_rules(), 0, 0
    begin, wall = time.process_time(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for task in load_network(NETWORK).workloads:
            if task.name not in OFFLOADED:
                continue
            space = ScheduleSpace(task, hw, rules, "vta")
            legal = exhaust(space, memory, Path(folder), identity="bench", workers=1).legal
            trials += len(legal)
            cycles += int(legal.sum())
    seconds = time.process_time() - begin
    return {"fidelity": "twin", "array": 16, "layer": "spaces of C2-C11", "cycles": cycles,
            "trials": trials, "seconds": round(seconds, 2),
            "wall_seconds": round(time.perf_counter() - wall, 2),
            "cycles_per_s": round(cycles / seconds)}  # fmt: skip


def summarise(records: Sequence[Row]) -> dict[str, float]:
    """The figures that the project's targets name, of what was measured."""
    speed = {(r["fidelity"], r["array"]): r["cycles_per_s"] for r in records if r["layer"] == LAYER}
    summary: dict[str, float] = {}
    for array in (16, 32):
        if ("rtl", array) in speed:
            summary[f"rtl_cycles_per_s_{array}"] = speed["rtl", array]
    if ("timing", 16) in speed:
        summary["timing_cycles_per_s_16"] = speed["timing", 16]
    for array in (16, 32):
        if {("dpi", array), ("timing", array)} <= speed.keys():
            ratio = speed["dpi", array] / speed["timing", array]
            summary[f"dpi_over_timing_{array}"] = round(ratio, 3)
    twin = [
        r["cycles_per_s"]
        for r in records
        if (r["fidelity"], r["array"]) == ("twin", 16) and r["layer"] in OFFLOADED
    ]
    if twin and ("timing", 16) in speed:
        summary["twin_cycles_per_s_16"] = statistics.median(twin)
        summary["twin_over_timing_16"] = round(statistics.median(twin) / speed["timing", 16], 1)
    for record in records:
        if record["layer"] == "C2-C11 times count":
            summary["resnet18_rtl_seconds"] = record["seconds"]
        if record["layer"] == "spaces of C2-C11":
            summary["twin_trials_per_s"] = round(record["trials"] / record["seconds"], 1)
            summary["exhaust_resnet18_seconds"] = record["wall_seconds"]
    return summary


class SimulationSpeed(Study):
    """Every fidelity on each array, side by side."""

    def __init__(self, settings: SimspeedSettings) -> None:
        super().__init__(settings)
        self._before = os.getloadavg()[0]

    def measure(self, cell: Cell) -> Iterator[Row]:
        del cell
        rounds = self.settings.rounds
        tasks = {task.name: task for task in load_network(NETWORK).workloads}
        with tempfile.TemporaryDirectory() as name:
            scratch = Path(name)
            for array in map(int, self.settings.arrays):
                hw = load_hwconfig(ARRAYS[str(array)])
                subjects = [device_subject(array, hw, tasks[LAYER], each) for each in SIMULATED]
                subjects.append(plain_subject(array, hw, tasks[LAYER], scratch))
                subjects.append(twin_subject(array, hw, tasks[LAYER]))
                if array == 16:
                    subjects.append(stepped_subject(array, hw, 2000))
                yield from measure(subjects, rounds)
            if "16" in self.settings.arrays:
                hw = load_hwconfig(ARRAYS["16"])
                yield cocotb_record(16, hw, tasks[COCOTB_LAYER], scratch)
                yield from twin_layers(hw, rounds)
                yield resnet18(hw)
                yield twin_spaces(hw)

    def conditions(self) -> Row:
        return {
            "rtl": rtl_digest(),
            "memory": asdict(load_memory(MEMORY)),
            "rounds": self.settings.rounds,
            "seconds": "CPU time of the process",
            "load_before_after": [self._before, os.getloadavg()[0]],
            "verilator": find_verilator().version,
            "compiler": find_compiler().version,
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        return summarise(rows)

    def line(self, row: Row) -> str:
        spread = f" ({row['lowest']:,} to {row['highest']:,})" if "lowest" in row else ""
        return (
            f"{row['array']:3} {row['fidelity']:12} {row['layer']:20} "
            f"{row['cycles']:>10,} cycles {row['cycles_per_s']:>12,} cycles/s{spread}"
        )
