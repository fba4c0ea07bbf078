// SPDX-License-Identifier: Apache-2.0
// tw_predecode with flat ports and a clock, which it has no use for.
module bench_predecode #(
    parameter int unsigned    BeatBytes = 8,  // bytes of an AXI beat
    parameter tw_pkg::sizes_t Sizes     = '0
) (
    input  logic                        clk_i,
    input  logic [tw_pkg::InsnBits-1:0] insn_i,
    output logic [                39:0] needs_o
);
  tw_predecode #(
      .BeatBytes(BeatBytes),
      .Sizes    (Sizes)
  ) u_dut (
      .insn_i,
      .needs_o
  );

  logic unused;
  assign unused = clk_i;
endmodule
