// SPDX-License-Identifier: Apache-2.0
// tw_tokens with flat ports: bit 4 * row + column of each matrix.
module bench_tokens #(
    parameter int unsigned CountBits = 16  // bits of a counter
) (
    input  logic        clk_i,
    input  logic        rst_i,
    input  logic [15:0] push_i,
    input  logic [15:0] pop_i,
    output logic [15:0] available_o,
    output logic [ 3:0] overflow_o
);
  tw_tokens #(
      .CountBits(CountBits)
  ) u_dut (
      .clk_i,
      .rst_i,
      .push_i,
      .pop_i,
      .available_o,
      .overflow_o
  );
endmodule
