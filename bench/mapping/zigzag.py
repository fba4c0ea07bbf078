# SPDX-License-Identifier: Apache-2.0
"""The cost model against ZigZag on the same hardware and mappings: traffic, energy, cycles.

Both count the elements of weights, inputs and visits of outputs that move. What differs is how they
price outputs and halos; `explained` takes ZigZag's side in these three rules:

- *first visit*: an output tile that comes back is read at each visit, the first one, too, and
  written as partial sums even at the last. We read none at the first and write results at the last.
- *no partial sums*: an output tile that never comes back is neither read nor written into the PE,
  and leaves it as results. We count partial sums, written and read once.
- *shared halos*: PEs that work on neighbouring outputs share the inputs that both need. We send
  each PE its own tile.

`bench/mapping/zigzag_runs.py` prints the recorded rows.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.bench.framework.statistics import rank_correlation
from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.cost import CostModel, Costs
from tilewright.tuner.mapping.mapping import COLUMNS, Batch
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest, NestKind, Tensor

ARCHITECTURE: Final = Architecture(
    name="zigzag",
    pes=256,
    noc_bytes_per_cycle=64,
    dram_bytes_per_cycle=16,
    l1_energy=1,
    l2_energy=6,
    dram_energy=200,
)
"""The hardware of `bench/mapping/zigzag_runs.py`."""

HALOS: Final = "YXRS"

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Elements of one tensor that move, per mapping; of outputs: visits."""

    dram: Numbers  # between DRAM and L2
    noc: Numbers  # between L2 and PEs
    delivered: Numbers  # copies in PEs


@dataclass(frozen=True, kw_only=True)
class Priced:
    """Bytes and prices of mappings, by one of the two models; each of shape ``[n]``."""

    dram_weights: Numbers
    dram_inputs: Numbers
    dram_outputs: Numbers
    noc_weights: Numbers
    noc_inputs: Numbers
    noc_outputs: Numbers
    delivered_weights: Numbers
    delivered_inputs: Numbers
    delivered_outputs: Numbers
    energy: Numbers


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a recorded run."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def nest_of_row(row: dict[str, str]) -> LoopNest:
    """The nest of a row."""
    k, c, y, x, r, s = (int(row[d]) for d in DIMENSIONS)
    stride = int(row["stride"])
    kind = NestKind(row["kind"])
    return LoopNest(
        name=kind, kind=kind, sizes=(k, c, y, x, r, s), stride_y=stride, stride_x=stride
    )


def batch_of_rows(rows: Sequence[dict[str, str]]) -> Batch:
    """Mappings of rows, shape ``[n, len(COLUMNS)]``."""
    return np.array([[int(row[f"m{i}"]) for i in range(len(COLUMNS))] for row in rows], np.int32)


def moved(nest: LoopNest, batch: Batch) -> dict[Tensor, Moved]:
    """Elements that the cost model moves, from how its bytes grow with the width of elements."""
    base = CostModel(nest, ARCHITECTURE).costs(batch)
    outputs = nest.elements(Tensor.OUTPUTS)

    def growth(field: str) -> Costs:
        wider = replace(ARCHITECTURE, **{field: getattr(ARCHITECTURE, field) + 1})
        return CostModel(nest, wider).costs(batch)

    found = {}
    for tensor, field in ((Tensor.WEIGHTS, "weight_bytes"), (Tensor.INPUTS, "input_bytes")):
        wider = growth(field)
        column = f"dram_{field.removesuffix('_bytes')}_bytes"
        found[tensor] = Moved(
            dram=wider[column] - base[column],
            noc=wider["noc_in_bytes"] - base["noc_in_bytes"],
            delivered=wider["delivered_bytes"] - base["delivered_bytes"],
        )
    wider = growth("partial_bytes")
    found[Tensor.OUTPUTS] = Moved(
        dram=(wider["dram_output_bytes"] - base["dram_output_bytes"]) / 2 + outputs,
        noc=wider["noc_out_bytes"] - base["noc_out_bytes"] + outputs,
        delivered=(wider["delivered_bytes"] - base["delivered_bytes"]) / 2,
    )
    return found


def ours(nest: LoopNest, batch: Batch) -> Priced:
    """What the cost model says."""
    arch, elements = ARCHITECTURE, moved(nest, batch)
    outputs = nest.elements(Tensor.OUTPUTS)
    weights, inputs, sums = (elements[t] for t in Tensor)

    def both_ways(visits: Numbers) -> Numbers:
        return (visits - outputs) * 2 * arch.partial_bytes + outputs * arch.output_bytes

    return Priced(
        dram_weights=weights.dram * arch.weight_bytes,
        dram_inputs=inputs.dram * arch.input_bytes,
        dram_outputs=both_ways(sums.dram),
        noc_weights=weights.noc * arch.weight_bytes,
        noc_inputs=inputs.noc * arch.input_bytes,
        noc_outputs=both_ways(sums.noc),
        delivered_weights=weights.delivered * arch.weight_bytes,
        delivered_inputs=inputs.delivered * arch.input_bytes,
        delivered_outputs=sums.delivered * 2 * arch.partial_bytes,
        energy=CostModel(nest, arch).costs(batch)["energy"],
    )


def explained(nest: LoopNest, batch: Batch) -> Priced:
    """What the cost model would say with ZigZag's rules for outputs."""
    arch, elements, found = ARCHITECTURE, moved(nest, batch), ours(nest, batch)
    outputs = nest.elements(Tensor.OUTPUTS)
    sums = elements[Tensor.OUTPUTS]

    def both_ways(visits: Numbers) -> Numbers:
        once = outputs * arch.output_bytes
        return np.where(visits > outputs, visits * 2 * arch.partial_bytes, once)

    dram, noc = both_ways(sums.dram), both_ways(sums.noc)
    back = sums.noc > outputs
    delivered = np.where(back, found.delivered_outputs, sums.delivered * arch.output_bytes)
    l2 = noc - found.noc_outputs + dram - found.dram_outputs
    return replace(
        found,
        dram_outputs=dram,
        noc_outputs=noc,
        delivered_outputs=delivered,
        energy=found.energy
        + (dram - found.dram_outputs) * arch.dram_energy
        + l2 * arch.l2_energy
        + (delivered - found.delivered_outputs) * arch.l1_energy,
    )


def theirs(rows: Sequence[dict[str, str]]) -> Priced:
    """What ZigZag says."""

    def total(*names: str) -> Numbers:
        return np.array([sum(float(row.get(n) or 0) for n in names) for row in rows])

    return Priced(
        dram_weights=total("dram_W_read_down"),
        dram_inputs=total("dram_I_read_down"),
        dram_outputs=total("dram_O_read_down", "dram_O_write_up"),
        noc_weights=total("l2_W_read_down"),
        noc_inputs=total("l2_I_read_down"),
        noc_outputs=total("l2_O_read_down", "l2_O_write_up"),
        delivered_weights=total("l1_W_write_down"),
        delivered_inputs=total("l1_I_write_down"),
        delivered_outputs=total("l1_O_read_up", "l1_O_write_down"),
        energy=total("energy"),
    )


def shares_halos(batch: Batch) -> npt.NDArray[np.bool_]:
    """Mappings whose neighbouring PEs need parts of the same input rows or columns."""
    loops = [DIMENSIONS.index(d) for d in HALOS]
    found: npt.NDArray[np.bool_] = np.zeros(len(batch), dtype=bool)
    for parallel, wide in (("outer_parallel", "clusters"), ("inner_parallel", "cluster_size")):
        spread = np.isin(batch[:, COLUMNS.index(parallel)], loops)
        found |= spread & (batch[:, COLUMNS.index(wide)] > 1)
    return found


def by_nest(rows: Sequence[dict[str, str]]) -> dict[LoopNest, list[dict[str, str]]]:
    """Rows of each nest."""
    found: dict[LoopNest, list[dict[str, str]]] = {}
    for row in rows:
        found.setdefault(nest_of_row(row), []).append(row)
    return found


def document(path: Path) -> dict[str, Any]:
    """Per quantity: share of mappings that are equal, and explained; ratios; rank correlation."""
    pairs: dict[str, list[Numbers]] = {}
    for nest, rows in by_nest(read_rows(path)).items():
        batch = batch_of_rows(rows)
        here, there, bridge = ours(nest, batch), theirs(rows), explained(nest, batch)
        for name in Priced.__dataclass_fields__:
            values = [getattr(each, name) for each in (here, there, bridge)]
            pairs.setdefault(name, []).append(np.stack(values))
        cycles = CostModel(nest, ARCHITECTURE).costs(batch)["cycles"]
        recorded = np.array([float(row["cycles"]) for row in rows])
        pairs.setdefault("cycles", []).append(np.stack([cycles, recorded, cycles]))
    groups = {}
    for name, parts in pairs.items():
        here, there, bridge = np.hstack(parts)
        ratio = here / there
        groups[name] = {
            "equal_pct": round(float((here == there).mean()) * 100, 1),
            "explained_pct": round(float(np.isclose(bridge, there, rtol=1e-12).mean()) * 100, 1),
            "least_ratio": round(float(ratio.min()), 4),
            "median_ratio": round(float(np.median(ratio)), 4),
            "largest_ratio": round(float(ratio.max()), 4),
            "spearman": rank_correlation(here, there, digits=5),
        }
    mappings = sum(part.shape[1] for part in pairs["energy"])
    return {"mappings": mappings, "quantities": groups}
