# SPDX-License-Identifier: Apache-2.0
"""Two variants of the RTL side by side: every layer of a network, area and estimated clock.

Each layer runs on the full RTL of both with the same program and data; every output byte is
compared with the golden model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.names import counted
from tilewright.host.compiler.tasks import load_network
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.verilator.rtl_variant import STOCK, rtl_variant
from tilewright.tuner.measure.measurement import Measurement, Request
from tilewright.tuner.measure.oracle import DeviceOracle
from tilewright.tuner.study.conduct import open_executor
from tilewright.tuner.study.schedule_lookup import ScheduleLookup

OURS: Final = "ours"
"""Stands for the manifest of Tilewright's RTL."""

_LIMIT: Final = 1_000_000_000
"""Cycles after which a layer has hung."""

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class LayerPair:
    """A layer on both."""

    name: str
    count: int  # how often the network has it
    cycles: tuple[int | None, int | None]  # None: it did not end, or its output was wrong
    failures: tuple[str, str]  # why; empty: the output is bit-exact


@dataclass(frozen=True, kw_only=True)
class Netlist:
    """What Yosys makes of one variant, and the clock that its netlist may reach, in MHz."""

    lut: int
    ff: int
    bram36: float
    dsp: int
    low_mhz: float  # with long wires
    high_mhz: float  # with short ones
    short_ns: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two variants: the first is what the second is compared with."""

    names: tuple[str, str]
    hw: HwConfig
    memory: MemoryModel
    network: str
    layers: tuple[LayerPair, ...]
    netlists: tuple[Netlist, Netlist] | None = None  # None: not asked for

    @property
    def right(self) -> tuple[bool, bool]:
        """Whether every output of each was bit-exact."""
        first, second = (not any(pair.failures[i] for pair in self.layers) for i in (0, 1))
        return first, second

    def total(self, which: int) -> int | None:
        """Cycles of the network, its layers one after another; None: one failed."""
        cycles = [pair.cycles[which] for pair in self.layers]
        if None in cycles:
            return None
        return sum((each or 0) * pair.count for each, pair in zip(cycles, self.layers, strict=True))

    def rows(self) -> list[dict[str, Any]]:
        """A row for each layer."""
        return [
            {
                "layer": pair.name,
                "count": pair.count,
                "cycles": list(pair.cycles),
                "failures": list(pair.failures),
            }
            for pair in self.layers
        ]

    def summary(self) -> dict[str, Any]:
        """Totals of both."""
        return {
            "rtl": list(self.names),
            "cycles": [self.total(0), self.total(1)],
            "bit_exact": list(self.right),
            "netlists": None if self.netlists is None else [asdict(n) for n in self.netlists],
        }


def manifest_of(name: str) -> Path:
    """The manifest that a name stands for: a file, or `OURS`."""
    return STOCK if name == OURS else Path(name)


def compare_rtl(
    names: tuple[str, str],
    hw: HwConfig,
    memory: MemoryModel,
    network: str,
    *,
    layers: Sequence[str] = (),
    synthesis: bool = True,
    workers: int = 2,
    say: Say = lambda _: None,
) -> Comparison:
    """Compare two variants on all layers of a network, or on some."""
    for name in names:  # before anything long
        with rtl_variant(manifest_of(name)):
            pass
    table = load_network(network, hw=hw)
    wanted = table.select(layers)
    with ScheduleLookup(hw, memory, budget=0) as book:
        requests = [
            Request(hw=hw, workload=each, schedule=book(each), memory=memory, max_cycles=_LIMIT)
            for each in wanted
        ]
    found = [_measured(name, requests, workers, say) for name in names]
    netlists: list[Netlist] = []
    if synthesis:
        say("Yosys, then paths, of both")
        with ThreadPoolExecutor(min(workers, 2)) as pool:
            netlists = list(pool.map(lambda name: _synthesise(manifest_of(name), hw), names))
    pairs = tuple(
        LayerPair(
            name=layer.name,
            count=layer.count,
            cycles=(one.cycles, other.cycles),
            failures=(one.failure, other.failure),
        )
        for layer, one, other in zip(wanted, *found, strict=True)
    )
    return Comparison(
        names=names,
        hw=hw,
        memory=memory,
        network=table.name,
        layers=pairs,
        netlists=(netlists[0], netlists[1]) if netlists else None,
    )


def _measured(name: str, requests: Sequence[Request], workers: int, say: Say) -> list[Measurement]:
    """Every layer on the full RTL of one variant; what fails is told, and ends nothing."""
    say(f"{name}: building {requests[0].hw.name} in Verilator")
    found: dict[int, Measurement] = {}
    with rtl_variant(manifest_of(name)):
        oracle = DeviceOracle(Fidelity.RTL, open_executor("", workers))
        try:
            for number, measured in oracle.measure(requests):
                found[number] = measured
                layer = requests[number].workload.name
                say(f"{name}: {layer}, {len(found)} of {counted(len(requests), 'layer')}")
        finally:
            oracle.close()
    return [found[number] for number in range(len(requests))]


def _synthesise(manifest: Path, hw: HwConfig) -> Netlist:
    """Area and clock of one variant, for xc7."""
    from tilewright.sim.synth.design import accelerator  # noqa: PLC0415  (loads Yosys)
    from tilewright.sim.synth.synthesis import synthesise  # noqa: PLC0415  (loads Yosys)
    from tilewright.sim.timing.estimate import estimate  # noqa: PLC0415  (loads Yosys)

    design = accelerator(hw, manifest)
    area = synthesise(design)
    clock = estimate(design)
    low, high = clock.mhz
    return Netlist(
        lut=area.lut, ff=area.ff, bram36=area.bram36, dsp=area.dsp,
        low_mhz=low, high_mhz=high, short_ns=1e3 / high,
    )  # fmt: skip
