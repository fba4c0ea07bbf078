# SPDX-License-Identifier: Apache-2.0
"""The best fused mapping of two small layers, by trying everything.

Written from docs/explanation/exact-mapper.md. Steps are walked through one by one, and what is in
L2 is compared from step to step. Costs of a mapping come from the totals of the plain cost model.
"""

import math
from itertools import pairwise, product

import numpy as np
from support.search.small_mappings import all_mappings

from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.cost import CostModel
from tilewright.tuner.mapping.mapping import Batch
from tilewright.tuner.mapping.methods.plain_form import order_classes
from tilewright.tuner.mapping.nest import LoopNest, NestKind, Tensor, window

Held = frozenset[str]
"""Of weights, inputs, sums, results: what L2 has as a whole."""


class Everything:
    """All mappings of nests on an architecture."""

    def __init__(self, arch: Architecture, objective: str) -> None:
        self.arch, self.objective = arch, objective
        self.values: dict[tuple[LoopNest, Held], tuple[np.ndarray, np.ndarray]] = {}

    def least(self, nest: LoopNest, held: Held, room: float) -> float:
        """The least objective with so many bytes of L2; infinite: nothing fits."""
        if (nest, held) not in self.values:
            self.values[nest, held] = self._all(nest, held)
        values, l2_bytes = self.values[nest, held]
        fits = values if self.arch.l2_bytes == 0 else values[l2_bytes <= room]
        return float(fits.min(initial=np.inf))

    def _all(self, nest: LoopNest, held: Held) -> tuple[np.ndarray, np.ndarray]:
        arch = self.arch
        free = CostModel(nest, Architecture(**{**vars(arch), "l2_bytes": 0}))
        orders = [a + b for a, b in product(order_classes(nest.kind), repeat=2)]
        rows = np.repeat(all_mappings(nest, arch), len(orders), axis=0)
        rows[:, 12:24] = np.tile(orders, (len(rows) // len(orders), 1))
        costs = free.costs(rows)
        rows, values = rows[costs.legal], costs.values[costs.legal]
        cost = {name: values[:, at] for at, name in enumerate(MEASURES)}
        outputs = nest.elements(Tensor.OUTPUTS)
        spilled = (cost["dram_output_bytes"] - outputs * arch.output_bytes) / 2
        dram = cost["dram_weight_bytes"] * ("weights" not in held)
        dram = dram + cost["dram_input_bytes"] * ("inputs" not in held)
        if "results" in held:
            dram = dram + 2 * spilled
        elif "sums" not in held:
            dram = dram + cost["dram_output_bytes"]
        into, out = cost["noc_in_bytes"], cost["noc_out_bytes"]
        if "sums" in held:
            into = into + outputs * arch.partial_bytes
            out = out - outputs * arch.output_bytes + outputs * arch.partial_bytes
        tiles = self._tiles(nest, rows)
        l2_bytes, fill = self._room_and_fill(nest, held, *tiles)
        if self.objective == "latency":
            busiest = np.maximum(
                cost["compute_cycles"], np.maximum(into, out) / arch.noc_bytes_per_cycle
            )
            return np.ceil(np.maximum(busiest, dram / arch.dram_bytes_per_cycle) + fill), l2_bytes
        given = cost["delivered_bytes"]
        of_mac = arch.weight_bytes + arch.input_bytes + 2 * arch.partial_bytes
        energy = nest.macs * (arch.mac_energy + of_mac * arch.l1_energy)
        energy = energy + given * (arch.l1_energy + arch.noc_energy)
        energy = energy + (dram + into + out) * arch.l2_energy + dram * arch.dram_energy
        return energy, l2_bytes

    def _tiles(self, nest: LoopNest, rows: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Iterations of all clusters and of all PEs in the first step, shape [6, n]."""
        chunks, spans = [], []
        for d, size in enumerate(nest.sizes):
            wide2 = np.where(rows[:, 24] == d, rows[:, 26], 1)
            wide1 = np.where(rows[:, 25] == d, rows[:, 27], 1)
            tile2, step = rows[:, d], rows[:, 6 + d] * wide1
            chunk = np.minimum(tile2 * wide2, size)
            chunks.append(chunk)
            spans.append(chunk // tile2 * np.minimum(step, tile2) + np.minimum(step, chunk % tile2))
        return np.array(chunks, dtype=float), np.array(spans, dtype=float)

    def _room_and_fill(
        self, nest: LoopNest, held: Held, chunk: np.ndarray, span: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        arch = self.arch

        def elements(of: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            k, c, y, x, r, s = of
            rows = (y - 1) * np.minimum(nest.stride_y, r) + r
            columns = (x - 1) * np.minimum(nest.stride_x, s) + s
            deep = c if nest.kind is NestKind.DEPTHWISE else 1
            return k * c * r * s, c * rows * columns, k * y * x * deep

        first2, first1, whole = (
            elements(of) for of in (chunk, span, np.array(nest.sizes, dtype=float)[:, None])
        )
        widths = (arch.weight_bytes, arch.input_bytes, arch.output_bytes)
        stored = (arch.weight_bytes, arch.input_bytes, arch.partial_bytes)
        room, moved = np.zeros(chunk.shape[1]), np.zeros(chunk.shape[1])
        for t, name in enumerate(("weights", "inputs", "sums")):
            if name in held:
                room = room + whole[t] * stored[t]
                continue
            room = room + arch.buffers * first2[t] * stored[t]
            if name == "sums" and "results" in held:
                room = room + whole[t] * widths[t]
                continue
            moved = moved + first2[t] * widths[t]
        near = sum(first1[t] * widths[t] for t in range(3))
        return room, moved / arch.dram_bytes_per_cycle + near / arch.noc_bytes_per_cycle


MEASURES = (
    "cycles", "energy", "area", "compute_cycles", "noc_in_bytes", "noc_out_bytes",
    "dram_weight_bytes", "dram_input_bytes", "dram_output_bytes",
    "l2_moved_bytes", "delivered_bytes", "l1_bytes", "l2_bytes", "pes",
)  # fmt: skip


def least_fused(
    first: LoopNest,
    second: LoopNest,
    pads: tuple[int, int],
    arch: Architecture,
    objective: str,
) -> float:
    """The least objective of all fused mappings; infinite: L2 holds none."""
    everything = Everything(arch, objective)
    own = first.kind is NestKind.DEPTHWISE
    channels = first.sizes[1] if own else first.sizes[0]
    least = math.inf
    for m, y, x in product(*(
        [d for d in range(1, n + 1) if n % d == 0] for n in (channels, *second.sizes[2:4])
    )):  # fmt: skip
        tiles = list(product(range(0, second.sizes[2], y), range(0, second.sizes[3], x)))
        deep = range(0, channels, m)
        for steps in (
            [(c, at) for at in tiles for c in deep],
            [(c, at) for c in deep for at in tiles],
        ):
            for kept in product((False, True), repeat=3):
                value = _walk(everything, first, second, pads, (m, y, x), steps, kept)
                least = min(least, value)
    return least


def _walk(
    everything: Everything,
    first: LoopNest,
    second: LoopNest,
    pads: tuple[int, int],
    tile: tuple[int, int, int],
    steps: list[tuple[int, tuple[int, int]]],
    kept: tuple[bool, bool, bool],
) -> float:
    """The cost of all steps; infinite: not a fused mapping, or one that does not fit."""
    arch = everything.arch
    m, y, x = tile
    deep1, deep2 = (nest.kind is NestKind.DEPTHWISE for nest in (first, second))
    parts = {
        "w1": [c for c, _ in steps],
        "i1": [(c if deep1 else 0, at) for c, at in steps],
        "w2": [c for c, _ in steps],
        "o2": [(c if deep2 else 0, at) for c, at in steps],
    }
    stays = {name: any(a == b for a, b in pairwise(of)) for name, of in parts.items()}
    for name, is_kept in zip(("w1", "i1", "w2"), kept, strict=True):
        if is_kept and not stays[name]:
            return math.inf
    sums = len(set(parts["o2"])) < len(steps)
    runs = [a for a, b in pairwise([*parts["o2"], None]) if a != b]
    if sums and len(runs) > len(set(runs)):
        return math.inf  # sums would have to come back

    def made(axis: int, start: int, length: int) -> int:
        stride = (second.stride_y, second.stride_x)[axis]
        wanted = {
            (start + out) * stride - pads[axis] + tap
            for out in range(length)
            for tap in range(second.sizes[4 + axis])
        } & set(range(first.sizes[2 + axis]))
        return max(wanted) - min(wanted) + 1 if wanted else 1

    def slices(at: tuple[int, int]) -> tuple[LoopNest, LoopNest]:
        k, c, _, _, r, s = first.sizes
        k, c = (k, m) if deep1 else (m, c)
        a = LoopNest(
            name="a", kind=first.kind, sizes=(k, c, made(0, at[0], y), made(1, at[1], x), r, s),
            stride_y=first.stride_y, stride_x=first.stride_x,
        )  # fmt: skip
        k, _, _, _, r, s = second.sizes
        b = LoopNest(name="b", kind=second.kind, sizes=(k, m, y, x, r, s),
                     stride_y=second.stride_y, stride_x=second.stride_x)  # fmt: skip
        return a, b

    def loaded(nest: LoopNest) -> float:
        _, c, rows, columns, r, s = nest.sizes
        height, width = window(rows, r, nest.stride_y), window(columns, s, nest.stride_x)
        return arch.input_bytes * c * height * width

    held1 = frozenset(["results", *["weights"] * kept[0], *["inputs"] * kept[1]])
    held2 = frozenset(["inputs", *["weights"] * kept[2], *["sums"] * sums])
    total, moved = 0.0, 0.0
    largest = max(loaded(slices(at)[0]) for _, at in steps) * kept[1]
    unread = max(
        max(0, a.elements(Tensor.OUTPUTS) - b.elements(Tensor.INPUTS))
        for a, b in (slices(at) for _, at in steps)
    )
    for number, (_, at) in enumerate(steps):
        a, b = slices(at)
        w1, w2 = (arch.weight_bytes * math.prod(n.sizes[d] for d in (0, 1, 4, 5)) for n in (a, b))
        for name, is_kept, size in (
            ("w1", kept[0], w1), ("i1", kept[1], loaded(a)), ("w2", kept[2], w2),
        ):  # fmt: skip
            if is_kept and (number == 0 or parts[name][number] != parts[name][number - 1]):
                moved += size
        results = b.elements(Tensor.OUTPUTS)
        if sums and parts["o2"][number : number + 2].count(parts["o2"][number]) == 1:
            moved += results * arch.output_bytes
        room1 = arch.l2_bytes - w2 * kept[2] - results * arch.partial_bytes * sums
        room2 = arch.l2_bytes - w1 * kept[0] - largest - unread * arch.input_bytes
        total += everything.least(a, held1, room1) + everything.least(b, held2, room2)
        if total == math.inf:
            return total
    if everything.objective == "latency":
        return total + math.ceil(moved / arch.dram_bytes_per_cycle)
    return total + moved * (arch.dram_energy + arch.l2_energy)
