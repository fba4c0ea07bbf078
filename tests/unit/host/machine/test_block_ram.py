# SPDX-License-Identifier: Apache-2.0
import json
import random
import subprocess
import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright.host.machine.block_ram import MemoryCost, memory_cost

MEMORY_SV = """
module mem_ut #(parameter int W = 64, parameter int D = 512, parameter int G = 64,
                localparam int A = $clog2(D)) (
    input logic clk, input logic [W/G-1:0] write, input logic [A-1:0] to, from,
    input logic [W-1:0] data_i, input logic read, output logic [W-1:0] data_o);
  logic [W-1:0] mem[D];
  always_ff @(posedge clk) begin
    for (int s = 0; s < W / G; s++) if (write[s]) mem[to][s*G+:G] <= data_i[s*G+:G];
    if (read) data_o <= mem[from];
  end
endmodule
"""

YOSYS = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for command in sys.argv[1:]:
    libyosys.run_pass(command, design)
"""

groups = st.integers(0, 6).flatmap(
    lambda log: st.tuples(st.integers(1, 512), st.just(1 << log))
)  # (write bits, groups)


def halves(cost):
    return 2 * cost.ramb36 + cost.ramb18


@pytest.mark.parametrize(
    ("width", "depth", "write_bits", "cost"),
    [
        # one block by aspect ratio (UG473, table 1-8), then two
        (72, 512, 72, MemoryCost(ramb36=1)),
        (64, 512, 64, MemoryCost(ramb36=1)),
        (36, 1024, 36, MemoryCost(ramb36=1)),
        (36, 512, 36, MemoryCost(ramb18=1)),
        (1, 32768, 1, MemoryCost(ramb36=1)),
        (64, 1024, 64, MemoryCost(ramb36=2)),
        # an own write enable pads a group to 9 bits: 32 slices of 64 bits take 32 x 72
        (2048, 1024, 64, MemoryCost(ramb36=64)),
        # written whole, 128 bits are 15 units of 9 bits, as 18 Kb halves 2,048 deep
        (128, 2048, 128, MemoryCost(ramb18=15)),
        # 256 rows fill half of the shallowest shape of a block
        (1024, 256, 64, MemoryCost(ramb36=16)),
        # LUT RAM: 64 x 3 bits or 32 x 6 bits in four LUTs
        (128, 64, 64, MemoryCost(lutram=4 * 2 * 22)),
        (64, 4, 64, MemoryCost(lutram=4 * 11)),
        # registers
        (512, 1, 512, MemoryCost()),
    ],
)
def test_known_memories(width, depth, write_bits, cost):
    assert memory_cost(width=width, depth=depth, write_bits=write_bits) == cost


@settings(deadline=None)
@given(groups, st.integers(1, 65536))
def test_the_primitives_hold_all_bits(shape, depth):
    width = shape[0] * shape[1]
    cost = memory_cost(width=width, depth=depth, write_bits=shape[0])
    capacity = 18432 * halves(cost) + 64 * cost.lutram
    assert capacity >= width * depth or cost == MemoryCost()
    assert sum(n > 0 for n in (cost.ramb36, cost.ramb18, cost.lutram)) <= 1


@settings(deadline=None)
@given(groups, st.integers(9, 16))
def test_own_write_enables_never_make_a_deep_memory_cheaper(shape, log_depth):
    # for depths that are powers of two; at others the multiplexers can tip the choice
    width, depth = shape[0] * shape[1], 1 << log_depth
    split = memory_cost(width=width, depth=depth, write_bits=shape[0])
    whole = memory_cost(width=width, depth=depth, write_bits=width)
    assume(split.lutram == 0 and whole.lutram == 0)  # LUT RAM has its own, narrower groups
    assert halves(split) >= halves(whole)


def test_primitives_that_hold_only_unread_bits_are_removed():
    read = (True,) * 51 + (False,) * 13
    # 4,096 deep, a block is 9 bits wide: bits 54 to 62 and bit 63 are never read
    assert memory_cost(width=64, depth=4096, write_bits=64, used=read) == MemoryCost(ramb36=6)
    assert memory_cost(width=64, depth=512, write_bits=64, used=read) == MemoryCost(ramb36=1)


@settings(deadline=None)
@given(groups, st.integers(1, 8192), st.randoms(use_true_random=False))
def test_reading_fewer_bits_never_costs_more(shape, depth, rng):
    width = shape[0] * shape[1]
    assume(width <= 1024)
    some = tuple(rng.random() < 0.5 for _ in range(width))
    full = memory_cost(width=width, depth=depth, write_bits=shape[0])
    everything = memory_cost(width=width, depth=depth, write_bits=shape[0], used=(True,) * width)
    part = memory_cost(width=width, depth=depth, write_bits=shape[0], used=some)
    assert everything == full
    assert halves(part) <= halves(full)
    assert part.lutram <= full.lutram


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_equals_yosys_on_random_memories(tmp_path, seed):
    pytest.importorskip("pyosys")
    rng = random.Random(seed)
    width = 1 << rng.randint(3, 9)
    write_bits = min(1 << rng.randint(2, 9), width)
    depth = 1 << rng.randint(1, 12 if width < 256 else 9)
    source = tmp_path / "mem_ut.sv"
    source.write_text(MEMORY_SV)
    commands = (
        f"read_slang --top mem_ut -G W={width} -G D={depth} -G G={write_bits} {source}",
        "synth_xilinx -family xc7 -noiopad -flatten -top mem_ut -run begin:map_ffram",
        f"tee -o {tmp_path}/stat.json stat -json",
    )
    subprocess.run([sys.executable, "-c", YOSYS, *commands], check=True, capture_output=True)
    cells = json.loads((tmp_path / "stat.json").read_text())["design"]["num_cells_by_type"]
    found = MemoryCost(
        ramb36=cells.get("RAMB36E1", 0),
        ramb18=cells.get("RAMB18E1", 0),
        lutram=4 * (cells.get("RAM32M", 0) + cells.get("RAM64M", 0)),
    )
    assert found == memory_cost(width=width, depth=depth, write_bits=write_bits)
