# SPDX-License-Identifier: Apache-2.0
"""The cost model against a machine that runs each mapping step by step."""

import math

from hypothesis import given, settings
from support.search.mapping_interpreter import Counts, interpret
from support.search.mappings import PRICED, cases

from tilewright.tuner.mapping.cost import CostModel
from tilewright.tuner.mapping.nest import LoopNest, Tensor

W, I, O = Tensor.WEIGHTS, Tensor.INPUTS, Tensor.OUTPUTS  # noqa: E741  (as on the page)

MOVED = (
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
    assert {name: cost[name] for name in MOVED} == priced(nest, counts)
    assert {name: cost[name] for name in ("l1_bytes", "l2_bytes")} == buffered(counts)


@settings(max_examples=150)
@given(cases())
def test_model_never_tells_less_than_the_machine_does_and_that_never_less_than_must_be(case):
    nest, mapping = case
    counts = interpret(nest, mapping)
    cost = CostModel(nest, PRICED).cost(mapping)
    machine = priced(nest, counts)
    for name in MOVED:
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
