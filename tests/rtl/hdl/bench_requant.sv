// SPDX-License-Identifier: Apache-2.0
// tw_requant with its parameters as flat vectors.
module bench_requant (
    input  logic         clk_i,
    input  logic         valid_i,
    input  logic [ 31:0] acc_i,
    input  logic [  7:0] residual_i,
    input  logic [127:0] param1_i,
    input  logic [127:0] param2_i,
    input  logic [127:0] param4_i,
    input  logic [127:0] param5_i,
    input  logic [  7:0] low_i,
    input  logic [  7:0] high_i,
    output logic [  7:0] out_o
);
  tw_requant #(
      .Lanes(1)
  ) u_dut (
      .clk_i,
      .valid_i,
      .acc_i,
      .residual_i,
      .param1_i(tw_pkg::param_t'(param1_i)),
      .param2_i(tw_pkg::param_t'(param2_i)),
      .param4_i(tw_pkg::param_t'(param4_i)),
      .param5_i(tw_pkg::param_t'(param5_i)),
      .low_i,
      .high_i,
      .out_o
  );
endmodule
