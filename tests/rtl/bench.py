# SPDX-License-Identifier: Apache-2.0
"""What every cocotb bench shares: seed, clock, reset, and the flow-control knobs."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

KNOBS = ("none", "idle", "back-pressure")
"""No flow control; sources that pause; sinks that pause."""

_PAUSES = (0.1, 0.5, 0.9)


def generator(salt: str) -> np.random.Generator:
    """The test's own generator: seed of the run and name of the test."""
    seed = int(os.environ["TILEWRIGHT_SEED"])
    cocotb.log.info("TILEWRIGHT_SEED=%d repeats this run (%s)", seed, salt)
    return np.random.default_rng([seed, zlib.crc32(salt.encode())])


def parameters() -> dict[str, int]:
    """The HDL parameters of this build."""
    loaded: dict[str, int] = json.loads(os.environ["TILEWRIGHT_PARAMETERS"])
    return loaded


class Knob:
    """Decides in each cycle whether a source or a sink pauses; how often is drawn once a test."""

    def __init__(self, name: str, rng: np.random.Generator) -> None:
        self.name = name
        self._rng = rng
        self._density = float(rng.choice(_PAUSES))

    def source_pauses(self) -> bool:
        """Whether a source offers nothing in this cycle."""
        return self.name == "idle" and bool(self._rng.random() < self._density)

    def sink_pauses(self) -> bool:
        """Whether a sink takes nothing in this cycle."""
        return self.name == "back-pressure" and bool(self._rng.random() < self._density)

    def slow(self, sources: Iterable[Any], sinks: Iterable[Any]) -> None:
        """Endless pauses for cocotbext-axi channels."""
        for channels, pauses in ((sources, self.source_pauses), (sinks, self.sink_pauses)):
            for channel in channels:
                channel.set_pause_generator(iter(pauses, None))


async def start_clock(dut: Any, name: str = "clk_i") -> None:
    """Start the clock; every bench is synchronous to its rising edge."""
    cocotb.start_soon(Clock(getattr(dut, name), 10, unit="ns", impl="gpi").start())
    await RisingEdge(getattr(dut, name))


async def reset(dut: Any, cycles: int = 3) -> None:
    """Hold the synchronous, active-high reset of a unit."""
    dut.rst_i.value = 1
    await ClockCycles(dut.clk_i, cycles)
    dut.rst_i.value = 0
    await RisingEdge(dut.clk_i)


async def pulse(dut: Any, name: str, value: int = 1) -> None:
    """Hold an input for one cycle."""
    getattr(dut, name).value = value
    await RisingEdge(dut.clk_i)
    getattr(dut, name).value = 0


async def until(clock: Any, done: Callable[[], bool], limit: int, what: str) -> int:
    """Wait until a condition holds at a clock edge, or fail; returns the cycles that passed."""
    edge = RisingEdge(clock)
    for cycle in range(limit):
        await edge
        if done():
            return cycle
    raise AssertionError(f"{what}: not within {limit} cycles")


def signed(value: int, bits: int) -> int:
    """Two's complement value of a field."""
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def random_bits(rng: np.random.Generator, bits: int) -> int:
    """Uniform random integer of any width."""
    return int.from_bytes(rng.bytes((bits + 7) // 8), "little") & ((1 << bits) - 1)
