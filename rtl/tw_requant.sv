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
  logic signed [10:0] sum_q;  // rounded, saturated, with the zero point
  logic valid1_q, valid2_q, valid3_q, valid4_q;

  // Round half to even: up when the remainder is over a half, or exactly half and odd. One
  // shifter gives the quotient and the bit below it; a mask by bit position gives the rest.
  logic signed [50:0] scaled;  // quotient, and the bit below it (0 for a shift of 0)
  logic [49:0] under;          // bits below that one
  logic up, narrow;
  assign scaled = $signed({total_q, 1'b0}) >>> param4_i.shift;
  for (genvar i = 0; i < 50; i++) begin : gen_under
    assign under[i] = total_q[i] && (7'(i) + 7'd1 < 7'(param4_i.shift));
  end
  assign up = scaled[0] && (scaled[1] || (|under));

  // Ten bits are enough: with a zero point within 8 bits, a quotient saturated to 511 or -512
  // still lies outside the range of every clip.
  logic signed [9:0] near;
  assign narrow = (&scaled[50:10]) || !(|scaled[50:10]);
  assign near   = narrow ? scaled[10:1] : {scaled[50], {9{!scaled[50]}}};

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
    if (valid3_q) sum_q <= 11'(near) + 11'(param4_i.zero_point) + 11'($signed({1'b0, up}));
    if (valid4_q) begin
      if (sum_q < 11'(low_i)) out_o <= low_i;
      else if (sum_q > 11'(high_i)) out_o <= high_i;
      else out_o <= sum_q[7:0];
    end
  end

  logic unused;
  assign unused = ^{param1_i, param2_i, param4_i};
endmodule
