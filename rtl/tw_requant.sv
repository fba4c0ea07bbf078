// SPDX-License-Identifier: Apache-2.0
// One lane of the requantise pipeline, five cycles:
// clip(rint_half_even(((acc + bias) * m1 + residual * m2) / 2^shift) + zero_point).
module tw_requant (
    input  logic                        clk_i,
    input  logic                        valid_i,
    input  logic signed          [31:0] acc_i,
    input  logic signed          [ 7:0] residual_i,  // 0 when there is none
    input  tw_pkg::param_t              param1_i,    // of the element in cycle 1 (bias, m2)
    input  tw_pkg::param_t              param2_i,    // of the element in cycle 2 (m1)
    input  tw_pkg::param_t              param4_i,    // of the element in cycle 4 (shift, zero point)
    input  logic signed          [ 7:0] low_i,       // held for the next four cycles
    input  logic signed          [ 7:0] high_i,
    output logic signed          [ 7:0] out_o
);
  logic signed [32:0] biased_q;
  logic signed [23:0] residual_q, residual2_q;
  logic signed [48:0] product_q;
  logic signed [49:0] total_q;
  logic signed [49:0] rounded_q;
  logic valid1_q, valid2_q, valid3_q, valid4_q;

  logic signed [49:0] quotient;
  logic [49:0] below;
  logic half, sticky;
  logic signed [49:0] shifted;

  // Round half to even: up when the remainder is over a half, or exactly half and odd.
  assign below    = total_q & ~(50'('1) << param4_i.shift);
  assign quotient = total_q >>> param4_i.shift;
  assign half     = (param4_i.shift != '0) && total_q[param4_i.shift-6'd1];
  assign sticky   = |(below & ~(50'd1 << (param4_i.shift - 6'd1)));
  assign shifted  = quotient + 50'($signed({1'b0, half && (sticky || quotient[0])}));

  always_ff @(posedge clk_i) begin
    valid1_q <= valid_i;
    valid2_q <= valid1_q;
    valid3_q <= valid2_q;
    valid4_q <= valid3_q;
    if (valid_i) begin
      biased_q   <= 33'(acc_i) + 33'(param1_i.bias);
      residual_q <= 24'(residual_i) * 24'(param1_i.m2);
    end
    if (valid1_q) begin
      product_q   <= 49'(biased_q) * 49'(param2_i.m1);
      residual2_q <= residual_q;
    end
    if (valid2_q) total_q <= 50'(product_q) + 50'(residual2_q);
    if (valid3_q) rounded_q <= shifted + 50'(param4_i.zero_point);
    if (valid4_q) begin
      if (rounded_q < 50'(low_i)) out_o <= low_i;
      else if (rounded_q > 50'(high_i)) out_o <= high_i;
      else out_o <= rounded_q[7:0];
    end
  end

  logic unused;
  assign unused = ^{param1_i, param2_i, param4_i};
endmodule
