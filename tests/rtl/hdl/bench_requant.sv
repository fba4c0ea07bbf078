// SPDX-License-Identifier: Apache-2.0
// tw_requant with its parameters as flat vectors.
module bench_requant #(
    parameter int unsigned MulBits = 18
) (
    input  logic               clk_i,
    input  logic               valid_i,
    input  logic               multiply_i,
    input  logic [       31:0] acc_i,
    input  logic [MulBits-1:0] factor_i,
    input  logic [        7:0] residual_i,
    input  logic [      127:0] param1_i,
    input  logic [      127:0] param4_i,
    input  logic [        7:0] low_i,
    input  logic [        7:0] high_i,
    input  logic               product_i,
    output logic [       31:0] product_o,
    output logic [        7:0] out_o
);
  tw_requant #(
      .Lanes  (1),
      .MulBits(MulBits)
  ) u_dut (
      .clk_i,
      .valid_i,
      .multiply_i,
      .acc_i,
      .factor_i,
      .residual_i,
      .param1_i(tw_pkg::param_t'(param1_i)),
      .param4_i(tw_pkg::param_t'(param4_i)),
      .low_i,
      .high_i,
      .product_i,
      .product_o,
      .out_o
  );
endmodule
