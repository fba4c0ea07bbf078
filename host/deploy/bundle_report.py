# SPDX-License-Identifier: Apache-2.0
"""What runs of a bundle showed: for people in lines, for programs in rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tilewright.host.common.names import counted
from tilewright.host.compiler.run.network_runner import NetworkRun
from tilewright.host.deploy.measure import IN_FLIGHT, Measured

_TOP: Final = 5


def _largest(run: NetworkRun) -> Iterator[tuple[str, list[tuple[int, float]]]]:
    """Indices and values of the largest elements of every output."""
    for name, array in run.outputs.items():
        flat = np.asarray(array).reshape(-1)
        most = np.argsort(-flat.astype(np.float64), kind="stable")[:_TOP]
        yield name, [(int(i), float(flat[i])) for i in most]


def top_classes(run: NetworkRun, labels: Sequence[str]) -> str:
    """The largest elements of every output, in words."""
    words = []
    for name, most in _largest(run):
        known = [labels[i] if i < len(labels) else f"[{i}]" for i, _ in most]
        values = (f"{each} {value:.4g}" for each, (_, value) in zip(known, most, strict=True))
        words.append(f"{name}: {', '.join(values)}")
    return "; ".join(words)


@dataclass(frozen=True, kw_only=True, eq=False)
class BundleReport:
    """What runs of a bundle showed.

    Attributes:
        name: of the bundle.
        clock_mhz: of its board.
        clock_reached: a bitstream reached it; otherwise it is assumed.
        simulated: the times are those of a simulation on this machine.
        labels: of the classes; empty: none.
        titles: of the inputs, in their order.
        measured: the runs.
    """

    name: str
    clock_mhz: float
    clock_reached: bool
    simulated: bool
    labels: Sequence[str]
    titles: Sequence[str]
    measured: Measured

    def outputs(self) -> Iterator[str]:
        """A line for each input: the largest elements of its outputs."""
        for title, run in zip(self.titles, self.measured.runs, strict=True):
            yield f"{title}: {top_classes(run, self.labels)}"

    def figures(self) -> Iterator[str]:
        """Lines with cycles, latency and throughput."""
        found = self.summary()
        clock = f"{'' if self.clock_reached else 'an assumed '}{self.clock_mhz:g} MHz"
        whose = " (of the simulation on this machine, not of a board)" if self.simulated else ""
        yield (
            f"{self.name}: {counted(found['inputs'], 'input')}; {found['cycles']:,} cycles on the "
            f"accelerator, {found['accelerator_ms']:.3f} ms at {clock}"
        )
        low, middle, high = (found["latency_ms"][part] for part in ("low", "median", "high"))
        yield f"latency{whose}: median {middle:.3f} ms, 10 % to 90 %: {low:.3f} to {high:.3f} ms"
        yield (
            f"throughput{whose}: {found['one_by_one_per_second']:.2f} inputs per second one by "
            f"one, {found['pipelined_per_second']:.2f} pipelined ({IN_FLIGHT} in flight)"
        )

    def rows(self) -> list[dict[str, Any]]:
        """A row for each input."""
        done = self.measured
        return [
            {
                "input": title,
                "latency_ms": 1e3 * seconds,
                "cycles": run.cycles,
                "outputs": [
                    {"output": name, "top": [self._element(i, value) for i, value in most]}
                    for name, most in _largest(run)
                ],
            }
            for title, run, seconds in zip(self.titles, done.runs, done.latencies, strict=True)
        ]

    def summary(self) -> dict[str, Any]:
        """Figures of all inputs together."""
        done = self.measured
        cycles, count = done.runs[0].cycles, len(done.runs)
        low, middle, high = (1e3 * done.quantile(part) for part in (0.1, 0.5, 0.9))
        return {
            "inputs": count,
            "cycles": cycles,
            "accelerator_ms": cycles / self.clock_mhz / 1e3,
            "latency_ms": {"low": low, "median": middle, "high": high},
            "one_by_one_per_second": count / done.serial_seconds,
            "pipelined_per_second": count / done.pipelined_seconds,
        }

    def _element(self, index: int, value: float) -> dict[str, Any]:
        label = {"label": self.labels[index]} if index < len(self.labels) else {}
        return {"index": index, **label, "value": value}
