// SPDX-License-Identifier: Apache-2.0
// The requantise pipeline, six cycles, of several lanes that work in step:
// clip(rint_half_even(((acc + bias) * m1 + residual * m2 * 2^8) / 2^shift) + zero_point).
module tw_requant #(
    parameter int unsigned Lanes = 1
) (
    input  logic                             clk_i,
    input  logic                             valid_i,
    input  logic           [Lanes-1:0][31:0] acc_i,
    input  logic           [Lanes-1:0][ 7:0] residual_i,  // 0 when there is none
    input  tw_pkg::param_t [Lanes-1:0]       param1_i,    // of the elements in cycle 1 (bias, m2)
    input  tw_pkg::param_t [Lanes-1:0]       param2_i,    // of the elements in cycle 2 (m1)
    input  tw_pkg::param_t [Lanes-1:0]       param4_i,    // of the elements in cycle 4 (shift)
    input  tw_pkg::param_t [Lanes-1:0]       param5_i,    // of the elements in cycle 5 (zero point)
    input  logic signed    [ 7:0]            low_i,       // held for the next five cycles
    input  logic signed    [ 7:0]            high_i,
    output logic           [Lanes-1:0][ 7:0] out_o
);
  localparam int unsigned Folds = 4;
  logic valid1_q, valid2_q, valid3_q, valid4_q, valid5_q;
  always_ff @(posedge clk_i) begin
    valid1_q <= valid_i;
    valid2_q <= valid1_q;
    valid3_q <= valid2_q;
    valid4_q <= valid3_q;
    valid5_q <= valid4_q;
  end

  // Cycle 4: one shifter gives the low bits of the quotient and the bit below them; comparing bit
  // positions tells whether a bit under that one is set (sticky) and whether the quotient needs
  // more than ten bits. Each is folded to four bits here and to one in the next cycle.
  typedef logic [51:0] bits_t;  // bits that count, by position; a multiple of Folds
  function automatic bits_t bits_under(logic signed [49:0] total, logic [5:0] shift);
    bits_under = '0;
    for (int unsigned i = 0; i < 50; i++)
      bits_under[i] = total[i] && (7'(i) + 7'd1 < 7'(shift));
  endfunction
  function automatic bits_t bits_above(logic signed [49:0] total, logic [5:0] shift);
    bits_above = '0;
    for (int unsigned i = 0; i < 50; i++)
      bits_above[i] = (total[i] != total[49]) && (7'(i) >= 7'(shift) + 7'd9);
  endfunction

  // Cycle 5: round half to even, up when the remainder is over a half, or exactly half and odd.
  // Ten bits are enough: with a zero point within 8 bits, a quotient saturated to 511 or -512
  // still lies outside the range of every clip.
  function automatic logic signed [10:0] rounded(logic [10:0] scaled, logic [Folds-1:0] under,
                                                 logic [Folds-1:0] above, logic negative);
    logic signed [9:0] near;
    logic up;
    up   = scaled[0] && (scaled[1] || (|under));
    near = (|above) ? {negative, {9{!negative}}} : scaled[10:1];
    return 11'(near) + 11'($signed({1'b0, up}));
  endfunction

  // Cycle 6
  function automatic logic [7:0] clipped(logic signed [10:0] sum, logic signed [7:0] low,
                                         logic signed [7:0] high);
    return sum < 11'(low) ? low : sum > 11'(high) ? high : sum[7:0];
  endfunction

  for (genvar l = 0; l < Lanes; l++) begin : gen_lane
    logic signed [32:0] biased_q;
    logic signed [23:0] residual_q, residual2_q;
    logic signed [48:0] product_q;
    logic signed [49:0] total_q;
    logic [10:0] scaled_q;  // ten bits of the quotient, the bit below (0 for a shift of 0)
    logic [Folds-1:0] under_q, above_q;
    logic negative_q;
    logic signed [10:0] sum_q;  // rounded, saturated, with the zero point
    always_ff @(posedge clk_i) begin
      if (valid_i) begin
        biased_q   <= 33'($signed(acc_i[l])) + 33'(param1_i[l].bias);
        residual_q <= 24'($signed(residual_i[l])) * 24'(param1_i[l].m2);
      end
      if (valid1_q) begin
        product_q   <= 49'(biased_q) * 49'(param2_i[l].m1);
        residual2_q <= residual_q;
      end
      if (valid2_q)
        total_q <= 50'(product_q) + 50'($signed({residual2_q, {tw_pkg::ResidualShift{1'b0}}}));
      if (valid3_q) begin
        bits_t under, above;
        under = bits_under(total_q, param4_i[l].shift);
        above = bits_above(total_q, param4_i[l].shift);
        scaled_q   <= 11'($signed({total_q, 1'b0}) >>> param4_i[l].shift);
        negative_q <= total_q[49];
        for (int unsigned f = 0; f < Folds; f++) begin
          under_q[f] <= |under[f*13+:13];
          above_q[f] <= |above[f*13+:13];
        end
      end
      if (valid4_q)
        sum_q <= rounded(scaled_q, under_q, above_q, negative_q) + 11'(param5_i[l].zero_point);
      if (valid5_q) out_o[l] <= clipped(sum_q, low_i, high_i);
    end
  end

  logic unused;
  assign unused = ^{param1_i, param2_i, param4_i, param5_i};
endmodule
