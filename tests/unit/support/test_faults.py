# SPDX-License-Identifier: Apache-2.0
"""Seeded faults: where they are put, what they look like, how they are drawn."""

from itertools import islice

import numpy as np
import pytest
from mutation.faults import OPERATORS, find_mutations, sample
from mutation.sv_scan import scan, tokenize

from tilewright.host.common.errors import BuildError
from tilewright.sim.verilator.build import read_manifest

MODULES = [
    path for path in read_manifest() if path.parent.name != "generated" and path.stem != "tw_sizes"
]
"""Files with hardware: tw_sizes hands constants on."""

SOURCE = """// a + b in a comment
module sample #(
    parameter int unsigned Depth = 4 + 1
) (
    input  logic       clk_i,
    input  logic [7:0] a_i,
    output logic       full_o
);
  localparam int unsigned Bits = $clog2(Depth) + 1;
  typedef enum logic [1:0] {Idle, Run} state_e;
  logic [Bits-1:0] count_q;
  logic unused;
  assign unused = ^{a_i, count_q};
  assign full_o = (count_q == (Bits + 1)'(Depth)) && a_i[3:1] != 3'd7;
  if (Depth > 2) begin : gen_deep
    always_ff @(posedge clk_i) begin
      for (int unsigned i = 0; i < 2; i++) begin
        if (rst_i) count_q <= '0;
        else if (a_i[0] && !full_o) count_q <= count_q + 1'b1;
      end
    end
  end
  other u_other (.clk_i, .plain_i(a_i), .mixed_i(a_i[0] || full_o));
endmodule
"""


def faults() -> set[tuple[str, str]]:
    """(operator, mutated line) of every fault in the sample."""
    return {(m.operator, m.mutated) for m in find_mutations("sample.sv", SOURCE)}


@pytest.mark.parametrize(
    ("operator", "line"),
    [
        ("comparison", "assign full_o = (count_q != (Bits + 1)'(Depth)) && a_i[3:1] != 3'd7;"),
        ("logic", "assign full_o = (count_q == (Bits + 1)'(Depth)) || a_i[3:1] != 3'd7;"),
        ("constant", "assign full_o = (count_q == (Bits + 1)'(Depth)) && a_i[3:1] != 3'd6;"),
        ("condition", "assign full_o = (count_q == (Bits + 1)'(Depth)) ;"),
        ("condition", "assign full_o = a_i[3:1] != 3'd7;"),
        ("reset", "if (rst_i) count_q <= '1;"),
        ("negation", "if (!(rst_i)) count_q <= '0;"),
        ("negation", "else if (a_i[0] && full_o) count_q <= count_q + 1'b1;"),
        ("arithmetic", "else if (a_i[0] && !full_o) count_q <= count_q - 1'b1;"),
        ("assignment", "else if (a_i[0] && !full_o) ;"),
        ("constant", "else if (a_i[1] && !full_o) count_q <= count_q + 1'b1;"),
        ("logic", "other u_other (.clk_i, .plain_i(a_i), .mixed_i(a_i[0] && full_o));"),
    ],
)
def test_makes_the_fault(operator: str, line: str) -> None:
    assert (operator, line) in faults()


def test_leaves_structure_alone() -> None:
    lines = {m.line for m in find_mutations("sample.sv", SOURCE)}
    texts = SOURCE.splitlines()
    touched = [texts[line - 1].split()[0] for line in sorted(lines)]
    assert touched == ["assign", "if", "else", "other"]
    assert "full_o" in texts[min(lines) - 1], "an unused signal is not mutated"


def test_a_width_never_overflows() -> None:
    source = "module m; assign a = b + 2'd3; assign c = 1'b0; assign d = 8'hff; endmodule\n"
    constants = {m.replacement for m in find_mutations("m.sv", source) if m.operator == "constant"}
    assert constants == {"2'd2", "1'b1", "8'hfe"}


def test_less_or_equal_is_an_assignment_or_a_comparison() -> None:
    source = "module m; always_ff @(posedge c) if (a <= b) q <= (d <= e); endmodule\n"
    mutated = {m.mutated for m in find_mutations("m.sv", source) if m.operator == "boundary"}
    assert mutated == {
        source.strip().replace("a <= b", "a < b"),
        source.strip().replace("d <= e", "d < e"),
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_faults_of_the_rtl_are_distinct_and_keep_the_lines(path) -> None:
    text = path.read_text(encoding="utf-8")
    mutations = find_mutations(path.name, text)
    assert len(mutations) >= 4  # a memory of one line has few
    assert {m.operator for m in mutations} <= OPERATORS.keys()
    changed = [m.apply(text) for m in mutations]
    tokens = [token.text for token in tokenize(text)]
    for mutant in changed[:: max(1, len(changed) // 5)]:
        assert [token.text for token in tokenize(mutant)] != tokens, "only space differs"
    assert text not in changed
    assert len(set(changed)) == len({m.ident for m in mutations}) == len(mutations)
    for mutation, mutant in zip(mutations, changed, strict=True):
        assert mutant.count("\n") == text.count("\n")
        assert mutation.original in " ".join(text.split())


def test_the_rtl_has_faults_of_every_kind() -> None:
    kinds = set()
    for path in MODULES:
        kinds |= {m.operator for m in find_mutations(path.name, path.read_text("utf-8"))}
    assert kinds == set(OPERATORS)


def test_an_ident_survives_changes_elsewhere() -> None:
    longer = SOURCE.replace("  logic unused;", "  logic unused;\n  logic added;")
    before = {m.ident for m in find_mutations("sample.sv", SOURCE)}
    assert {m.ident for m in find_mutations("sample.sv", longer)} == before


def test_draws_by_seed_without_repetition_until_nothing_is_left() -> None:
    sources = {"sample.sv": SOURCE, "m.sv": "module m; assign a = b + c; endmodule\n"}
    first, second, other = (
        [m.ident for m in sample(sources, np.random.default_rng(seed))] for seed in (1, 1, 2)
    )
    assert first == second != other
    total = sum(len(find_mutations(name, text)) for name, text in sources.items())
    assert len(first) == len(set(first)) == len(set(other)) == total


def test_draws_files_in_proportion_to_their_code() -> None:
    short = "module m;\n" + "assign a = b + c;\n" * 100 + "endmodule\n"
    long = "module n;\n" + "assign a = b + c;\n" * 300 + "endmodule\n"
    rng = np.random.default_rng(3)
    drawn = list(islice(sample({"m.sv": short, "n.sv": long}, rng), 40))
    assert 3 <= sum(m.file == "m.sv" for m in drawn) <= 17
    assert {m.file for m in sample({"m.sv": short, "n.sv": long}, rng, only=["m.sv"])} == {"m.sv"}


@pytest.mark.parametrize("text", ["module m; always_comb begin a = b;", "module m; assign a = (b;"])
def test_refuses_incomplete_sources(text: str) -> None:
    with pytest.raises(BuildError, match="complete"):
        scan(text)
