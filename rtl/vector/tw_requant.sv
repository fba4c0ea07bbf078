// SPDX-License-Identifier: Apache-2.0
// The requantise pipeline, seven cycles, of several lanes that work in step:
// clip(rint_half_even(((acc + bias) * m1 + residual * m2 * 2^8) / 2^shift) + zero_point).
// Its multiplier also forms the products of VECTOR: acc * factor, saturated, in the fourth cycle.
module tw_requant #(
    parameter int unsigned Lanes   = 1,
    parameter int unsigned MulBits = 16  // of a factor, at least 16
) (
    input  logic                                    clk_i,
    input  logic                                    valid_i,
    input  logic                                    multiply_i,   // a product: nothing comes out in the end
    input  logic           [Lanes-1:0][       31:0] acc_i,
    input  logic           [Lanes-1:0][MulBits-1:0] factor_i,     // of a product
    input  logic           [Lanes-1:0][        7:0] residual_i,   // 0 when there is none
    input  tw_pkg::param_t [Lanes-1:0]              param1_i,     // of the elements in cycle 1 (bias, m1, m2)
    input  tw_pkg::param_t [Lanes-1:0]              param4_i,     // of those in cycle 4 (shift, zero point)
    input  logic signed    [ 7:0]                   low_i,        // of those in cycle 7
    input  logic signed    [ 7:0]                   high_i,
    input  logic                                    product_i,    // a product is in cycle 4
    output logic           [Lanes-1:0][       31:0] product_o,
    output logic           [Lanes-1:0][        7:0] out_o
);
  localparam int unsigned Folds = 3;  // steps of the shifter
  localparam int unsigned Low = 17;  // bits of the accumulator that the first of two DSP slices has
  logic [6:1] valid_q, scale_q;  // by cycle, less 1: something is there; it is requantised
  always_ff @(posedge clk_i) begin
    valid_q <= {valid_q[5:1], valid_i};
    scale_q <= {scale_q[5:1], valid_i && !multiply_i};
  end

  // Cycle 5: a shifter of three steps, by 16, 4 and 1, gives the low bits of the quotient and the
  // bit below them. Each step also tells whether a bit that it drops at the low end is set (sticky),
  // and whether one that leaves what the later steps can still reach differs from the sign: the
  // quotient needs more than ten bits then. The next cycle folds what the steps tell.
  typedef struct packed {
    logic [10:0] scaled;  // ten bits of the quotient, the bit below (0 for a shift of 0)
    logic [Folds-1:0] under;
    logic [Folds-1:0] above;
  } shifted_t;
  function automatic shifted_t shifted(logic signed [49:0] total, logic [5:0] shift);
    logic signed [66:0] wide;  // all positions that a step by 16 reads
    logic [25:0] by16, by16_signs;
    logic [13:0] by4, by4_signs;
    logic negative;
    negative = total[49];
    wide = 67'($signed({total, 1'b0}));
    shifted = '0;
    by16 = 26'(wide >>> {shift[5:4], 4'd0});
    by16_signs = by16 ^ {26{negative}};
    by4 = 14'(by16 >> {shift[3:2], 2'd0});
    by4_signs = by4 ^ {14{negative}};
    shifted.scaled = 11'(by4 >> shift[1:0]);
    for (int unsigned k = 0; k < 3; k++) begin
      // Of a step by more than k times its unit: the k-th unit is dropped.
      shifted.under[0] |= shift[5:4] > 2'(k) && (|wide[16*k+:16]);
      shifted.under[1] |= shift[3:2] > 2'(k) && (|by16[4*k+:4]);
      shifted.under[2] |= shift[1:0] > 2'(k) && by4[k];
      // Of a step by at most k: the unit beyond what the steps after it can reach stays.
      shifted.above[1] |= shift[3:2] <= 2'(k) && (|by16_signs[14+4*k+:4]);
    end
    for (int unsigned k = 0; k < 4; k++) shifted.above[2] |= shift[1:0] <= 2'(k) && by4_signs[10+k];
    for (int unsigned k = 0; k < 2; k++)
      shifted.above[0] |= shift[5:4] <= 2'(k) && (|(wide[26+16*k+:16] ^ {16{negative}}));
  endfunction

  // Cycle 6: round half to even, up when the remainder is over a half, or exactly half and odd.
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

  // Cycle 7
  function automatic logic [7:0] clipped(logic signed [10:0] sum, logic signed [7:0] low,
                                         logic signed [7:0] high);
    return sum < 11'(low) ? low : sum > 11'(high) ? high : sum[7:0];
  endfunction

  for (genvar l = 0; l < Lanes; l++) begin : gen_lane
    // Cycles 1 to 3, in the registers of DSP slices
    logic signed [32:0] biased_q;
    logic signed [MulBits-1:0] factor_q;
    logic signed [MulBits+Low:0] low_q;
    logic signed [MulBits+32-Low:0] high_q;
    logic signed [7:0] residual_q;
    logic signed [15:0] m2_q;
    logic signed [23:0] addend_q, addend2_q;
    logic signed [MulBits+32:0] product_q;
    // Then
    logic signed [49:0] total_q;
    logic [5:0] shift_q;
    logic signed [7:0] zero_q, zero2_q;
    logic [10:0] scaled_q;  // ten bits of the quotient, the bit below (0 for a shift of 0)
    logic [Folds-1:0] under_q, above_q;
    logic negative_q;
    logic signed [10:0] sum_q;  // rounded, saturated, with the zero point
    always_ff @(posedge clk_i) begin
      if (valid_i) begin
        biased_q   <= 33'($signed(acc_i[l])) + (multiply_i ? '0 : 33'(param1_i[l].bias));
        factor_q   <= multiply_i ? factor_i[l] : MulBits'(param1_i[l].m1);
        residual_q <= residual_i[l];
        m2_q       <= param1_i[l].m2;
      end
      if (valid_q[1]) begin
        low_q    <= (MulBits + Low + 1)'($signed({1'b0, biased_q[Low-1:0]})) *
                    (MulBits + Low + 1)'(factor_q);
        high_q   <= (MulBits + 33 - Low)'($signed(biased_q[32:Low])) * (MulBits + 33 - Low)'(factor_q);
        addend_q <= 24'(residual_q) * 24'(m2_q);
      end
      if (valid_q[2]) begin
        product_q[Low-1:0] <= low_q[Low-1:0];
        product_q[MulBits+32:Low] <= high_q + (MulBits + 33 - Low)'(low_q >>> Low);
        addend2_q <= addend_q;
      end
      if (scale_q[3]) begin
        total_q <= 50'(product_q) + 50'($signed({addend2_q, {tw_pkg::ResidualShift{1'b0}}}));
        shift_q <= param4_i[l].shift;
        zero_q  <= param4_i[l].zero_point;
      end
      if (scale_q[4]) begin
        {scaled_q, under_q, above_q} <= shifted(total_q, shift_q);
        negative_q <= total_q[49];
        zero2_q    <= zero_q;
      end
      if (scale_q[5])
        sum_q <= rounded(scaled_q, under_q, above_q, negative_q) + 11'(zero2_q);
      if (scale_q[6]) out_o[l] <= clipped(sum_q, low_i, high_i);
    end

    // Of a product that is there; otherwise nothing uses it, and a simulator skips it.
    logic [MulBits+1:0] top;
    assign top = product_q[MulBits+32:31];
    always_comb begin
      product_o[l] = 'x;
      if (product_i)
        product_o[l] = (&top) || !(|top) ? product_q[31:0] :
                       {product_q[MulBits+32], {31{!product_q[MulBits+32]}}};
    end
  end

  logic unused;
  assign unused = ^{valid_q[6:3], scale_q[2:1], param1_i, param4_i};
endmodule
