// SPDX-License-Identifier: Apache-2.0
// What a reduced row leaves: its value saturated to int32, or 2^16 times its binary logarithm.
//
// Three cycles: find the leading one, shift it to the top, look up the fraction behind it. The
// logarithm of a value below 2 is 0.
module tw_log2 #(
    localparam int unsigned Bits = tw_pkg::SumBits
) (
    input  logic                   clk_i,
    input  logic                   log_i,     // while the value passes
    input  logic signed [Bits-1:0] value_i,
    output logic        [    31:0] result_o   // three cycles later
);
  localparam int unsigned Index = tw_pkg::Log2IndexBits;

  logic [5:0] leading_d, leading1_q, leading2_q;
  logic one1_q, one2_q;
  logic [Bits-1:0] value1_q, shifted;
  logic [Index-1:0] index2_q;
  logic [31:0] plain1_q, plain2_q;
  logic over;

  always_comb begin
    leading_d = '0;
    for (int unsigned b = 1; b < Bits - 1; b++) if (value_i[b]) leading_d = 6'(b);
  end
  assign over = !(&value_i[Bits-1:31]) && (|value_i[Bits-1:31]);
  assign shifted = value1_q << (6'(Bits - 1) - leading1_q);
  always_ff @(posedge clk_i) begin
    leading1_q <= leading_d;
    one1_q     <= !value_i[Bits-1] && (|value_i[Bits-2:1]);
    value1_q   <= value_i;
    plain1_q   <= over ? {value_i[Bits-1], {31{!value_i[Bits-1]}}} : value_i[31:0];
    leading2_q <= leading1_q;
    one2_q     <= one1_q;
    index2_q   <= shifted[Bits-2-:Index];
    plain2_q   <= plain1_q;
    result_o   <= !log_i ? plain2_q :
                  one2_q ? {10'd0, leading2_q, tw_pkg::log2_of(index2_q)} : '0;
  end

  logic unused;
  assign unused = ^shifted;
endmodule
