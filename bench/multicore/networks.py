# SPDX-License-Identifier: Apache-2.0
"""A stream of images and a small network: on two cores, and in turns on one core of the same area.

Every row is a network on one of the two. The two cores run at the same time behind one DRAM, the
small network as often as it can: once with the system's weights, once with the small network's core
first at the memory port. On the one core whole frames take turns: once per frame of the
stream, and once as often as the two cores ran the small network.

    tilewright bench multicore-networks --quick
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final

import numpy as np

from tilewright.bench.result import BenchResult
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
from tilewright.host.machine.board import Board, load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.system_area import estimate_system
from tilewright.host.machine.system_config import (
    MAX_WEIGHT,
    SystemConfig,
    SystemCore,
    load_system,
)
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.system_devices import WITH_DATA, open_system
from tilewright.sim.twin.network_timing import time_network
from tilewright.tuner.study.schedule_lookup import ScheduleLookup

SAMPLES: Final = 2
"""Calibration inputs; cycles do not depend on them."""

Keep = Callable[[BenchResult], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is compared.

    Attributes:
        system: cores that run side by side: the stream on core 0, the small network on core 1.
        one: configuration of the core that has about the same area.
        stream: network of `examples/networks` on core 0.
        small: networks for core 1, one after another.
        frames: of the stream.
        device: what simulates.
        board: clock and memory.
        search: measurements per layer.
    """

    system: str = "big-little"
    one: str = "pynq-16x32"
    stream: str = "resnet18"
    small: Sequence[str] = ("keyword", "transformer")
    frames: int = 2
    device: str = "rtl"
    board: str = "pynq-z2"
    search: int = 16


QUICK: Final = Options(
    system="dual-tiny", one="edge-8x8", stream="keyword", small=("digits",), search=0
)


def imported(name: str) -> ImportedNetwork:
    """A network of `examples/networks`, quantised with noise.

    Raises:
        ConfigError: there is none of that name.
    """
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


def run(
    options: Options, tell: Callable[[Mapping[str, Any]], None], keep: Keep | None = None
) -> BenchResult:
    """Run every pair on the system and on the one core.

    Args:
        options: what is compared.
        tell: takes each row as it is found.
        keep: takes what there is after each pair; None: nobody does.

    Raises:
        ConfigError: a system, configuration or network that there is not.
        BuildError: a system cannot be built.
    """
    system, hw = load_system(options.system), load_hwconfig(options.one)
    one = SystemConfig(name=f"one {hw.name}", cores=(SystemCore(hw=hw),))
    board = load_board(options.board)
    rows: list[dict[str, Any]] = []
    stream = imported(options.stream)
    streams = [compiled(stream, each, board, options.search) for each in (system.cores[0].hw, hw)]
    layers = time_network(streams[1], board.memory).layers
    facts = {
        "area": {each.name: vars(estimate_system(each)) for each in (system, one)},
        "longest_layer_cycles": max(layer.cycles for layer in layers),
    }
    check = options.device in WITH_DATA
    tenants = [tenant(each, 0, with_data=check) for each in streams]
    with (
        closing(open_system(options.device, system, board.memory)) as side,
        closing(open_system(options.device, one, board.memory)) as alone,
    ):
        for name in options.small:
            small = imported(name)
            pair = [compiled(small, e, board, options.search) for e in (system.cores[1].hw, hw)]
            both = [tenants[0], tenant(pair[0], 1, with_data=check)]
            found = measure(side, system, both, options.frames, check=check)
            _stop(found)
            counts = [len(each.times) for each in found.sharing()]
            first = Measured(
                alone=found.alone,
                together=run_together(side, _small_first(system), both, counts, check=check),
            )
            turns = [tenants[1], tenant(pair[1], 0, with_data=check)]
            once = measure(alone, one, turns, [options.frames] * 2, check=check)
            _stop(once)
            often = Measured(
                alone=once.alone, together=run_together(alone, one, turns, counts, check=check)
            )
            for how, measured, who in (
                ("side by side", found, both),
                ("side by side, small first", first, both),
                ("turns, one each", once, turns),
                ("turns, as often", often, turns),
            ):
                for row in _rows(how, measured, who, board):
                    rows.append({"stream": options.stream, "small": name, **row})
                    tell(rows[-1])
            if keep is not None:
                keep(_result(options, rows, facts))
    return _result(options, rows, facts)


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


def _result(
    options: Options, rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]
) -> BenchResult:
    wrong = [row["wrong_bytes"] for row in rows if row["wrong_bytes"] is not None]
    return BenchResult(
        rows=rows,
        conditions={
            "system": options.system,
            "one": options.one,
            "board": options.board,
            "memory": options.board,
            "fidelity": options.device,
            "frames": options.frames,
            "search": options.search,
            "cpus": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2),
        },
        summary={**summarise(rows), **facts, "wrong_bytes": sum(wrong) if wrong else None},
        passed=not any(wrong),
    )


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


def line(row: Mapping[str, Any]) -> str:
    """A row as a line of text."""
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
