# SPDX-License-Identifier: Apache-2.0
"""The cost model against a machine, against bounds and against others' figures."""

import csv
import ctypes
import functools
import math
from dataclasses import replace
from math import ceil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from support.randomness import fresh_rng, where
from support.search.mapping_interpreter import Counts, interpret
from support.search.mappings import PRICED, cases, random_batch, systolic_mapping

from tilewright.sim.tools.build_cache import bind_library
from tilewright.sim.tools.native_build import build_native
from tilewright.tuner.mapping.architecture import Architecture, load_architecture
from tilewright.tuner.mapping.cost import (
    MEASURES,
    NATIVE_DIR,
    CostModel,
    Costs,
    Rule,
    c_architecture,
    c_nest,
)
from tilewright.tuner.mapping.mapping import Batch
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest, NestKind, Tensor

NESTS = (
    LoopNest(name="stem", sizes=(64, 3, 112, 112, 7, 7), stride_y=2, stride_x=2),
    LoopNest(name="3x3", sizes=(96, 64, 28, 28, 3, 3)),
    LoopNest(name="primes", sizes=(37, 13, 11, 17, 5, 3), stride_y=3, stride_x=1),
    LoopNest(name="apart", sizes=(16, 8, 13, 9, 2, 1), stride_y=3, stride_x=4),
    LoopNest(name="dense", sizes=(1000, 512, 1, 1, 1, 1)),
    LoopNest(name="dw", kind=NestKind.DEPTHWISE, sizes=(1, 96, 56, 56, 3, 3), stride_y=2),
    LoopNest(name="dw2", kind=NestKind.DEPTHWISE, sizes=(2, 17, 19, 14, 3, 5), stride_x=2),
)
WIDE = replace(PRICED, pes=512, pass_cycles=0)
ARCHITECTURES = (WIDE, load_architecture("flexible-256"))
MOVED = {
    Tensor.WEIGHTS: "dram_weight_bytes",
    Tensor.INPUTS: "dram_input_bytes",
    Tensor.OUTPUTS: "dram_output_bytes",
}
REACHABLE = ("macs per PE", *MOVED.values())
LIMITED = ("trips2", "pe_tiles", "strides1", "strides2")


def compulsory(nest: LoopNest, arch: Architecture) -> dict[Tensor, float]:
    """Bytes of the distinct elements of each tensor."""
    sizes = (arch.weight_bytes, arch.input_bytes, arch.output_bytes)
    return {t: nest.elements(t) * size for t, size in zip(Tensor, sizes, strict=True)}


def ratios(nest: LoopNest, arch: Architecture, costs: Costs) -> dict[str, np.ndarray]:
    """Cost over its bound, per row and bound; below one: the model is not sound."""
    least = compulsory(nest, arch)
    into = least[Tensor.WEIGHTS] + least[Tensor.INPUTS]
    out = least[Tensor.OUTPUTS]
    delivered = into + nest.elements(Tensor.OUTPUTS) * 2 * arch.partial_bytes
    per_mac = arch.weight_bytes + arch.input_bytes + 2 * arch.partial_bytes
    energy = (
        nest.macs * (arch.mac_energy + per_mac * arch.l1_energy)
        + delivered * (arch.l1_energy + arch.noc_energy)
        + 2 * (into + out) * arch.l2_energy
        + (into + out) * arch.dram_energy
    )
    return {
        "macs per PE": costs["compute_cycles"] * costs["pes"] / nest.macs,
        "cycles": costs["cycles"] * costs["pes"] / nest.macs,
        "bandwidth of DRAM": costs["cycles"] * arch.dram_bytes_per_cycle / (into + out),
        "bandwidth of the NoC": costs["cycles"] * arch.noc_bytes_per_cycle / max(into, out),
        "into PEs": costs["noc_in_bytes"] / into,
        "out of PEs": costs["noc_out_bytes"] / out,
        "delivered": costs["delivered_bytes"] / delivered,
        "energy": costs["energy"] / energy,
        **{column: costs[column] / least[tensor] for tensor, column in MOVED.items()},
    }


def mutated(parents: Batch, fresh: Batch, rng: np.random.Generator) -> Batch:
    """Children of parents, with some genes of fresh rows; tiles stay nested."""
    loops = len(DIMENSIONS)
    genes = [[i] for i in range(2 * loops)]
    genes += [list(range(2 * loops, 3 * loops)), list(range(3 * loops, 4 * loops))]
    genes += [[4 * loops], [4 * loops + 1], [4 * loops + 2, 4 * loops + 3]]
    children = parents[rng.integers(0, len(parents), len(fresh))].copy()
    for columns in genes:
        change = rng.random(len(fresh)) < 0.12
        children[np.ix_(change, columns)] = fresh[np.ix_(change, columns)]
    inner = children[:, loops : 2 * loops]
    np.minimum(inner, children[:, :loops], out=inner)
    return children


def least(model: CostModel, bound: str, rng: np.random.Generator) -> float:
    """The least ratio to a bound that a genetic search of 10,000 mappings finds."""
    nest, arch = model.nest, model.arch
    rows = random_batch(nest, 1_000, arch.pes, rng)
    best = np.inf
    for _ in range(10):
        costs = model.costs(rows)
        assert not np.isin(costs.rules, (Rule.TILE, Rule.ORDER, Rule.PARALLEL, Rule.PES)).any()
        scores = np.where(costs.legal, ratios(nest, arch, costs)[bound], np.inf)
        best = min(best, float(scores.min()))
        parents = rows[np.argsort(scores, kind="stable")[:100]]
        rows = mutated(parents, random_batch(nest, 1_000, arch.pes, rng), rng)
    return best


@pytest.mark.parametrize("nest", NESTS, ids=lambda nest: nest.name)
@pytest.mark.parametrize("arch", ARCHITECTURES, ids=lambda arch: arch.name)
def test_no_search_finds_a_mapping_below_a_bound(nest, arch):
    rng = fresh_rng()
    model = CostModel(nest, arch)
    first = ratios(nest, arch, model.costs(random_batch(nest, 1, arch.pes, rng)))
    reached = {bound: least(model, bound, rng) for bound in first}
    assert min(reached.values()) >= 1, where(reached=reached)
    if arch.l2_bytes == 0:  # the search is no weak one, and the bounds are no loose ones
        assert max(reached[bound] for bound in REACHABLE) < 1.5, where(reached=reached)


class Refetch(ctypes.Structure):
    """`Refetch` of native/cost.h."""

    _fields_ = (
        ("outer", ctypes.c_uint32 * len(Tensor)),
        ("inner", ctypes.c_uint32 * len(Tensor)),
        ("held", ctypes.c_bool * len(Tensor)),
    )


COUNTS = (
    "size", "trips2", "trips1", "most_trips1", "compute", "pe_tiles", "pe_visits", "pes", "tile1",
    "span1", "span2", "strides1", "strides2",
)  # fmt: skip
"""Fields of `DimCounts` in native/cost.h."""


@functools.cache
def counts_library() -> ctypes.CDLL:
    shim = Path(__file__).parents[3] / "support" / "search" / "mapping_counts.cpp"
    path = build_native("test-mapping-counts", [shim, NATIVE_DIR / "cost.h"])
    pointer = ctypes.c_void_p
    signatures = {
        "tw_counts_of_point": ([pointer] * 4, None),
        "tw_cost_of_counts": ([pointer] * 6, None),
    }
    return bind_library(path, {"tw_counts_version": 1}, signatures)


class Inside:
    """Counts per loop of a mapping, and what changed ones cost."""

    def __init__(self, model: CostModel, row: Batch) -> None:
        self.row = np.ascontiguousarray(row)
        self.nest, self.arch = c_nest(model.nest), c_architecture(model.arch)
        self.refetch = Refetch()
        self.counts = np.zeros((len(DIMENSIONS), len(COUNTS)))
        counts_library().tw_counts_of_point(
            ctypes.byref(self.nest),
            self.row.ctypes.data,
            self.counts.ctypes.data,
            ctypes.byref(self.refetch),
        )

    def cost(self, counts: np.ndarray, refetch: Refetch) -> np.ndarray:
        found = np.zeros(len(MEASURES))
        counts_library().tw_cost_of_counts(
            ctypes.byref(self.nest),
            ctypes.byref(self.arch),
            np.ascontiguousarray(counts).ctypes.data,
            ctypes.byref(refetch),
            self.row.ctypes.data,
            found.ctypes.data,
        )
        return found


@pytest.mark.parametrize("nest", NESTS, ids=lambda nest: nest.name)
def test_no_cost_falls_when_a_count_of_a_loop_rises(nest):
    """What the exact mapper rests on when it bounds a part of a mapping from below."""
    rng = fresh_rng()
    model = CostModel(nest, PRICED)
    for row in random_batch(nest, 150, 512, rng):
        inside = Inside(model, row)
        before = inside.cost(inside.counts, inside.refetch)
        np.testing.assert_array_equal(before, model.costs(row[None]).values[0])
        for column, name in enumerate(COUNTS):
            if name == "size":
                continue
            raised = inside.counts.copy()
            loop = rng.integers(len(DIMENSIONS))
            # No loop has more tiles than iterations, nor do tiles' strides exceed them.
            most = nest.sizes[loop] if name in LIMITED else 1 << 20
            raised[loop, column] = max(raised[loop, column], rng.integers(1, most + 1))
            assert (inside.cost(raised, inside.refetch) >= before).all(), where(
                row=row.tolist(), count=name, loop=DIMENSIONS[loop]
            )


@pytest.mark.parametrize("nest", NESTS, ids=lambda nest: nest.name)
def test_no_cost_falls_when_a_tensor_is_fetched_around_one_loop_more_or_is_held_no_longer(nest):
    rng = fresh_rng()
    model = CostModel(nest, PRICED)
    for row in random_batch(nest, 150, 512, rng):
        inside = Inside(model, row)
        before = inside.cost(inside.counts, inside.refetch)
        for tensor in range(len(Tensor)):
            more = Refetch.from_buffer_copy(inside.refetch)
            kind = rng.integers(3)
            if kind == 0:
                more.held[tensor] = False
            else:
                (more.outer if kind == 1 else more.inner)[tensor] |= 1 << int(rng.integers(6))
            assert (inside.cost(inside.counts, more) >= before).all(), where(row=row.tolist())


# -- systolic arrays as architectures, against SCALE-Sim's closed form and its recorded runs ------

RECORDED = Path(__file__).with_name("scalesim-3.0.0.csv")
FLOWS = ("os", "ws", "is")


def passes(flow: str, m: int, n: int, k: int, rows: int, columns: int) -> tuple[int, int]:
    """Passes through an array, and the cycles in which one streams: SCALE-Sim's closed form."""
    if flow == "os":
        return ceil(m / rows) * ceil(n / columns), k
    if flow == "ws":
        return ceil(k / rows) * ceil(n / columns), m
    return ceil(k / rows) * ceil(m / columns), n


def pass_cycles(flow: str, rows: int, columns: int) -> int:
    return rows + columns - 2 if flow == "os" else 2 * rows + columns - 2


def modelled(flow: str, m: int, n: int, k: int, rows: int, columns: int) -> float:
    """Compute cycles of a GEMM of M x K times K x N on an array of any shape."""
    arch = replace(
        load_architecture(f"systolic-{flow}-16x16"),
        pes=rows * columns,
        max_clusters=rows,
        max_cluster_size=columns,
        pass_cycles=pass_cycles(flow, rows, columns),
    )
    nest = LoopNest(name="gemm", sizes=(n, k, 1, m, 1, 1))
    cost = CostModel(nest, replace(arch, l2_bytes=0)).cost(
        systolic_mapping(flow, nest, rows, columns)
    )
    return cost["compute_cycles"]


@pytest.mark.parametrize("flow", FLOWS)
def test_cycles_equal_the_closed_form_of_a_systolic_array(flow):
    rng = fresh_rng()
    for _ in range(80):
        m, n, k = (int(v) for v in rng.integers(1, 400, 3))
        rows, columns = (int(v) for v in rng.integers(1, 40, 2))
        count, stream = passes(flow, m, n, k, rows, columns)
        expected = count * (stream + pass_cycles(flow, rows, columns))
        found = modelled(flow, m, n, k, rows, columns)
        assert found == expected, where(m=m, n=n, k=k, rows=rows, columns=columns)


@pytest.mark.parametrize("flow", FLOWS)
def test_a_shipped_array_has_the_fill_and_drain_of_its_shape(flow):
    arch = load_architecture(f"systolic-{flow}-16x16")
    assert arch.pass_cycles == pass_cycles(flow, arch.max_clusters, arch.max_cluster_size)
    tpu = load_architecture("tpu-like")
    assert tpu.pass_cycles == pass_cycles("ws", tpu.max_clusters, tpu.max_cluster_size)


def test_cycles_equal_the_runs_of_scale_sim():
    """SCALE-Sim tells the number of its last cycle, counted from 0."""
    with RECORDED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert len(rows) >= 100
    for row in rows:
        m, n, k, height, width = (int(row[name]) for name in ("m", "n", "k", "rows", "columns"))
        assert modelled(row["flow"], m, n, k, height, width) - 1 == int(row["cycles"]), row


# -- The cost model against a machine that runs each mapping step by step
W, I, O = Tensor.WEIGHTS, Tensor.INPUTS, Tensor.OUTPUTS  # noqa: E741  (as on the page)

MACHINE_MOVED = (
    "compute_cycles", "noc_in_bytes", "noc_out_bytes", "dram_weight_bytes", "dram_input_bytes",
    "dram_output_bytes", "l2_moved_bytes", "delivered_bytes", "energy",
)  # fmt: skip


def priced(nest: LoopNest, counts: Counts) -> dict[str, float]:
    """Counts in the units of the model, on `PRICED`."""
    arch = PRICED
    outputs = len(counts.touched[O])
    assert counts.dram_back == counts.dram[O] - outputs
    assert counts.noc_back == counts.noc[O] - outputs

    def in_and_out(moved: dict[Tensor, int], back: int) -> tuple[float, float]:
        partial = back * arch.partial_bytes
        into = moved[W] * arch.weight_bytes + moved[I] * arch.input_bytes + partial
        return into, partial + outputs * arch.output_bytes

    dram_in, dram_out = in_and_out(counts.dram, counts.dram_back)
    noc_in, noc_out = in_and_out(counts.noc, counts.noc_back)
    delivered = (
        counts.delivered[W] * arch.weight_bytes
        + counts.delivered[I] * arch.input_bytes
        + counts.delivered[O] * 2 * arch.partial_bytes
    )
    per_mac = arch.weight_bytes + arch.input_bytes + 2 * arch.partial_bytes
    l2 = dram_in + dram_out + noc_in + noc_out
    return {
        "compute_cycles": counts.cycles + counts.steps * arch.pass_cycles,
        "noc_in_bytes": noc_in,
        "noc_out_bytes": noc_out,
        "dram_weight_bytes": counts.dram[W] * arch.weight_bytes,
        "dram_input_bytes": counts.dram[I] * arch.input_bytes,
        "dram_output_bytes": 2 * counts.dram_back * arch.partial_bytes
        + outputs * arch.output_bytes,
        "l2_moved_bytes": l2,
        "delivered_bytes": delivered,
        "energy": nest.macs * (arch.mac_energy + per_mac * arch.l1_energy)
        + delivered * (arch.l1_energy + arch.noc_energy)
        + l2 * arch.l2_energy
        + (dram_in + dram_out) * arch.dram_energy,
    }


def buffered(counts: Counts) -> dict[str, float]:
    """Bytes of tiles, twice: one is used while the next one comes."""
    arch = PRICED
    sizes = (arch.weight_bytes, arch.input_bytes, arch.partial_bytes)
    return {
        name: arch.buffers * sum(tiles[t] * size for t, size in zip(Tensor, sizes, strict=True))
        for name, tiles in (("l1_bytes", counts.l1), ("l2_bytes", counts.l2))
    }


@settings(max_examples=100)
@given(cases(even=True))
def test_model_counts_what_the_machine_does_where_tiles_divide_evenly(case):
    nest, mapping = case
    counts = interpret(nest, mapping)
    cost = CostModel(nest, PRICED).cost(mapping)
    assert {name: cost[name] for name in MACHINE_MOVED} == priced(nest, counts)
    assert {name: cost[name] for name in ("l1_bytes", "l2_bytes")} == buffered(counts)


@settings(max_examples=150)
@given(cases())
def test_model_never_tells_less_than_the_machine_does_and_that_never_less_than_must_be(case):
    nest, mapping = case
    counts = interpret(nest, mapping)
    cost = CostModel(nest, PRICED).cost(mapping)
    machine = priced(nest, counts)
    for name in MACHINE_MOVED:
        assert cost[name] >= machine[name], name
    # Compute, both buffers and the array are exact for any tiles.
    assert cost["compute_cycles"] == machine["compute_cycles"]
    assert {name: cost[name] for name in ("l1_bytes", "l2_bytes")} == buffered(counts)
    assert (counts.macs == 1).all()
    for tensor in Tensor:
        distinct = len(counts.touched[tensor])
        assert distinct == nest.elements(tensor)
        assert counts.dram[tensor] >= distinct
        assert counts.noc[tensor] >= distinct
        assert counts.delivered[tensor] >= distinct
    assert counts.cycles * counts.most_pes >= nest.macs
    assert counts.most_pes <= mapping.clusters * mapping.cluster_size


@settings(max_examples=100)
@given(cases())
def test_latency_is_the_slowest_of_three_plus_fill_and_drain(case):
    nest, mapping = case
    cost = CostModel(nest, PRICED).cost(mapping)
    dram = sum(cost[f"dram_{t}_bytes"] for t in ("weight", "input", "output"))
    slowest = max(
        cost["compute_cycles"],
        max(cost["noc_in_bytes"], cost["noc_out_bytes"]) / PRICED.noc_bytes_per_cycle,
        dram / PRICED.dram_bytes_per_cycle,
    )
    # Fill and drain move one tile of each buffer once; the first tiles are the largest ones.
    per_l2 = cost["l2_bytes"] / PRICED.buffers / PRICED.dram_bytes_per_cycle
    per_l1 = cost["pes"] * cost["l1_bytes"] / PRICED.buffers / PRICED.noc_bytes_per_cycle * 3
    assert math.ceil(slowest) < cost["cycles"] <= math.ceil(slowest + per_l2 + per_l1)
