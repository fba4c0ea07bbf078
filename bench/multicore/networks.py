# SPDX-License-Identifier: Apache-2.0
"""Compiled networks on several cores: side by side, and one of them in stages.

A stream of images and a small network run on two cores, and in turns on one core of the same area.
Every row is a network on one of the two. The two cores run at the same time behind one DRAM, the
small network as often as it can: once with the system's weights, once with the small network's core
first at the memory port. On the one core whole frames take turns: once per frame of the
stream, and once as often as the two cores ran the small network.

A pipeline is one network in stages on the cores of a system, against one core of about the same
area.

    tilewright bench multicore-networks --quick
    tilewright bench multicore-pipeline --quick
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import Any, Final

import numpy as np

from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import BenchResult, Study, machine
from tilewright.host.common.clone_parts import clone_part
from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import choices
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.pipeline import ImportedNetwork, compile_network, import_network
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.compiler.run.recorded import blank_frame, record
from tilewright.host.compiler.run.side_by_side import (
    Measured,
    Tenant,
    jain,
    measure,
    run_together,
)
from tilewright.host.machine.area import estimate
from tilewright.host.machine.board import Board, load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.system_config import (
    MAX_WEIGHT,
    SystemConfig,
    SystemCore,
    load_system,
)
from tilewright.sim.devices import WITH_DATA, open_system
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.twin.network_timing import time_network
from tilewright.tuner.multicore.pipeline import measure_pipeline, pipeline_rows
from tilewright.tuner.study.schedule_lookup import ScheduleLookup

SAMPLES: Final = 2
"""Calibration inputs; cycles do not depend on them."""


def imported(name: str) -> ImportedNetwork:
    """A network of `examples/networks`, quantised with noise."""
    examples = clone_part("examples/networks", "networks")
    import_module("networks.digits")
    if name not in examples.NETWORKS:
        raise ConfigError(
            "no network of that name",
            field="network",
            value=name,
            remedy=choices(name, tuple(examples.NETWORKS)),
        )
    shape = examples.NETWORKS[name].input_shape
    samples = np.random.default_rng(0).standard_normal((SAMPLES, *shape[1:]), dtype=np.float32)
    return import_network(
        examples.build(name),
        calibration=Calibration(arrays={"x": samples}),
        options=ImportOptions(name=name, example_inputs=[samples[:1]]),
    )


def compiled(network: ImportedNetwork, hw: HwConfig, board: Board, search: int) -> CompiledNetwork:
    """A network for a configuration, with schedules searched on the twin."""
    with closing(ScheduleLookup(hw, board.memory, budget=search)) as book:
        return compile_network(network, hw, board, book).network


def tenant(network: CompiledNetwork, core: int, *, with_data: bool) -> Tenant:
    """A network on a core; with data: with an inference on noise, as the reference runs it."""
    if not with_data:
        return Tenant(name=network.name, core=core, frames=[blank_frame(network)])
    noise = Calibration(random_samples=1)
    with closing(ReferenceDevice(network.hw)) as reference:
        frames = record(network, reference, noise.batches(network.inputs), trusted=True)
    return Tenant(name=network.name, core=core, frames=frames)


def _small_first(system: SystemConfig) -> SystemConfig:
    """The system with all the weight that there is on core 1."""
    weights = [MAX_WEIGHT if number == 1 else 1 for number in range(len(system.cores))]
    cores = [replace(core, weight=w) for core, w in zip(system.cores, weights, strict=True)]
    return replace(system, cores=tuple(cores))


def _stop(found: Measured) -> None:
    if found.stopped:
        raise KeyboardInterrupt


def _rows(
    how: str, found: Measured, tenants: Sequence[Tenant], board: Board
) -> Iterator[dict[str, Any]]:
    sharing = found.sharing()
    assert found.together is not None
    fairness = jain([each.progress for each in sharing])
    for number, (tenant_, mine) in enumerate(zip(tenants, sharing, strict=True)):
        first, middle, worst = mine.latencies
        yield {
            "how": how,
            "network": tenant_.name,
            "frames": len(mine.times),
            "programs": len(tenant_.frames[0].runs),
            "alone_cycles": mine.alone,
            "together_cycles": round(mine.together, 1),
            "slow_down": round(mine.slow_down, 4),
            "latency_first": first,
            "latency_median": middle,
            "latency_worst": worst,
            "latency_worst_ms": round(worst / board.clock_mhz / 1e3, 3),
            "frames_per_s": round(mine.per_second(board.clock_mhz), 3),
            "jain": round(fairness, 4),
            "wrong_bytes": found.together.wrong_bytes[number],
        }


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the rows say of each small network.

    ``worst_latency_gain``: its worst latency in turns on the one core, over that on a core of its
    own. ``stream_cost``: frames per second of the stream on the one core, over those on the two,
    where the small network runs as often.
    """
    gains, costs = {}, {}
    for name in dict.fromkeys(row["small"] for row in rows):
        found = {
            (row["how"], row["network"] == row["stream"]): row
            for row in rows
            if row["small"] == name
        }
        side, turn = found["side by side", False], found["turns, one each", False]
        gains[name] = round(turn["latency_worst"] / side["latency_worst"], 3)
        often, own = found["turns, as often", True], found["side by side", True]
        costs[name] = round(often["frames_per_s"] / own["frames_per_s"], 3)
    return {"worst_latency_gain": gains, "stream_cost": costs}


class SideBySide(Study):
    """Each small network beside the stream on the system, and in turns on the one core."""

    @cached_property
    def board(self) -> Board:
        """Clock and memory."""
        return load_board(self.settings.board)

    @cached_property
    def system(self) -> SystemConfig:
        """Cores that run side by side: the stream on core 0, the small network on core 1."""
        return load_system(self.settings.system)

    @cached_property
    def one(self) -> SystemConfig:
        """The core that has about the same area."""
        hw = load_hwconfig(self.settings.one)
        return SystemConfig(name=f"one {hw.name}", cores=(SystemCore(hw=hw),))

    @cached_property
    def streams(self) -> list[CompiledNetwork]:
        """The stream for the first core, and for the one core."""
        return self._compiled(imported(self.settings.stream), 0)

    @cached_property
    def stream_tenants(self) -> list[Tenant]:
        """The stream with its data, on the system and on the one core."""
        return [tenant(each, 0, with_data=self.checks) for each in self.streams]

    @property
    def checks(self) -> bool:
        """Whether the device computes, so that its results are compared."""
        return self.settings.device.value in WITH_DATA

    def _compiled(self, network: ImportedNetwork, core: int) -> list[CompiledNetwork]:
        """A network for a core of the system, and for the one core."""
        return [
            compiled(network, hw, self.board, self.settings.search)
            for hw in (self.system.cores[core].hw, self.one.cores[0].hw)
        ]

    def cells(self) -> list[Cell]:
        return [{"stream": self.settings.stream, "small": name} for name in self.settings.small]

    def measure(self, cell: Cell) -> Iterator[Row]:
        frames, device = self.settings.frames, self.settings.device.value
        stream = self.stream_tenants
        pair = self._compiled(imported(cell["small"]), 1)
        both = [stream[0], tenant(pair[0], 1, with_data=self.checks)]
        turns = [stream[1], tenant(pair[1], 0, with_data=self.checks)]
        with closing(open_system(device, self.system, self.board.memory)) as side:
            found = measure(side, self.system, both, frames, check=self.checks)
            _stop(found)
            counts = [len(each.times) for each in found.sharing()]
            weighed = run_together(side, _small_first(self.system), both, counts, check=self.checks)
        with closing(open_system(device, self.one, self.board.memory)) as alone:
            once = measure(alone, self.one, turns, [frames] * 2, check=self.checks)
            _stop(once)
            often = run_together(alone, self.one, turns, counts, check=self.checks)
        for how, measured, who in (
            ("side by side", found, both),
            ("side by side, small first", Measured(alone=found.alone, together=weighed), both),
            ("turns, one each", once, turns),
            ("turns, as often", Measured(alone=once.alone, together=often), turns),
        ):
            yield from _rows(how, measured, who, self.board)

    def conditions(self) -> Row:
        given = self.settings
        return {
            **self.of_settings("system", "one", "board"),
            "memory": given.board,
            "fidelity": given.device.value,
            **self.of_settings("frames", "search"),
        }

    def environment(self) -> Row:
        return {name: value for name, value in machine().items() if name != "python"}

    def summarise(self, rows: Sequence[Row]) -> Row:
        wrong = [row["wrong_bytes"] for row in rows if row["wrong_bytes"] is not None]
        layers = time_network(self.streams[1], self.board.memory).layers
        return {
            **summarise(rows),
            "area": {each.name: vars(estimate(each)) for each in (self.system, self.one)},
            "longest_layer_cycles": max(layer.cycles for layer in layers),
            "wrong_bytes": sum(wrong) if wrong else None,
        }

    def passed(self, result: BenchResult) -> bool:
        return not result.summary.get("wrong_bytes")

    def line(self, row: Row) -> str:
        wrong = row["wrong_bytes"]
        right = "" if wrong is None else ", bit-exact" if not wrong else f", {wrong} WRONG BYTES"
        return (
            f"{row['stream']} + {row['small']}, {row['how']}: {row['network']} "
            f"{row['alone_cycles']:,} cycles alone, {row['together_cycles']:,.0f} together "
            f"({row['slow_down']:.3f}), latency {row['latency_first']:,} first, "
            f"{row['latency_median']:,.0f} median, {row['latency_worst']:,} worst "
            f"({row['latency_worst_ms']:.2f} ms), {row['frames_per_s']:.2f} frames/s, Jain "
            f"{row['jain']:.3f}{right}"
        )


PAIRS: Final = (
    {"system": "dual-8x8", "one": "pynq-16x32", "board": "pynq-z2"},
    {"system": "big-little", "one": "pynq-16x32", "board": "pynq-z2"},
    {"system": "dual-16x16", "one": "zu-32x32", "board": "zcu104"},
)
"""Systems, the core that each is compared with, and a board."""
QUICK: Final = ({"system": "dual-tiny", "one": "edge-8x8", "board": "pynq-z2"},)


def pipeline(
    network: ImportedNetwork, pair: Row, *, device: str, search: int, frames: int = 3
) -> dict[str, Any]:
    """A network in stages, and whole on the one core."""
    system, one = load_system(pair["system"]), load_hwconfig(pair["one"])
    board = load_board(pair["board"])
    single = SystemConfig(name=f"one {one.name}", cores=(SystemCore(hw=one),))
    books: dict[int, ScheduleLookup] = {}
    with ExitStack() as stack:

        def book(hw: HwConfig) -> ScheduleLookup:
            if hw.config_hash not in books:
                lookup = ScheduleLookup(hw, board.memory, budget=search)
                books[hw.config_hash] = stack.enter_context(lookup)
            return books[hw.config_hash]

        opened = stack.enter_context(closing(open_system(device, system, board.memory)))
        found = measure_pipeline(
            network,
            opened,
            system,
            board,
            board.memory,
            book,
            frames=frames,
            one=one,
            check=device in WITH_DATA,
        )
    rows, summary = pipeline_rows(found, board)
    return {
        "stages": rows,
        "area": {each.name: vars(estimate(each)) for each in (system, single)},
        **summary,
    }


class Pipelines(Study):
    """A network in stages on each pair of hardware."""

    @cached_property
    def network(self) -> ImportedNetwork:
        """What is cut."""
        return imported(self.settings.network)

    def cells(self) -> list[Cell]:
        pairs = QUICK if self.settings.quick else PAIRS
        return [{"network": self.settings.network, **pair} for pair in pairs]

    def measure(self, cell: Cell) -> list[Row]:
        given = self.settings
        return [pipeline(self.network, cell, device=given.device.value, search=given.search)]

    def conditions(self) -> Row:
        return {"fidelity": self.settings.device.value, "search": self.settings.search}

    def summarise(self, rows: Sequence[Row]) -> Row:
        gains = {
            row["system"]: round(row["frames_per_s"] / row["whole"][row["one"]]["frames_per_s"], 3)
            for row in rows
        }
        return {"pipeline_over_one": gains}

    def passed(self, result: BenchResult) -> bool:
        return not any(row[k] for row in result.rows for k in ("wrong_bytes", "wrong_elements"))

    def line(self, row: Row) -> str:
        whole = row["whole"][row["one"]]
        stages = " + ".join(f"{stage['together_cycles']:,}" for stage in row["stages"])
        return (
            f"{row['network']} in stages on {row['system']}: {stages} cycles, tick "
            f"{row['tick_cycles']:,}, {row['moved_bytes']:,} bytes moved, "
            f"{row['frames_per_s']:.2f} frames/s ({row['overlapped_frames_per_s']:.2f} with copies "
            f"beside), latency {row['latency_ms']:.2f} ms; whole on {row['one']}: "
            f"{whole['cycles']:,} cycles, {whole['frames_per_s']:.2f} frames/s"
        )
