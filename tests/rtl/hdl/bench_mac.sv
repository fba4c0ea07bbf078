// SPDX-License-Identifier: Apache-2.0
// Both styles of tw_mac side by side, sums as flat vectors of 32-bit elements.
module bench_mac #(
    parameter int unsigned Batch    = 1,
    parameter int unsigned BlockIn  = 4,
    parameter int unsigned BlockOut = 4,
    parameter int unsigned Pipeline = 2
) (
    input  logic                           clk_i,
    input  logic                           valid_i,
    input  logic [    Batch*BlockIn*8-1:0] inp_i,
    input  logic [ BlockOut*BlockIn*8-1:0] wgt_i,
    output logic [  Batch*BlockOut*32-1:0] plain_o,
    output logic [  Batch*BlockOut*32-1:0] packed_o
);
  localparam int unsigned SumBits = 16 + $clog2(BlockIn);
  logic signed [Batch-1:0][BlockOut-1:0][SumBits-1:0] plain_sum, packed_sum;

  tw_mac #(
      .Batch   (Batch),
      .BlockIn (BlockIn),
      .BlockOut(BlockOut),
      .Pipeline(Pipeline),
      .Packed  (0)
  ) u_plain (
      .clk_i,
      .valid_i,
      .inp_i,
      .wgt_i,
      .sum_o(plain_sum)
  );
  tw_mac #(
      .Batch   (Batch),
      .BlockIn (BlockIn),
      .BlockOut(BlockOut),
      .Pipeline(Pipeline),
      .Packed  (1)
  ) u_packed (
      .clk_i,
      .valid_i,
      .inp_i,
      .wgt_i,
      .sum_o(packed_sum)
  );

  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar o = 0; o < BlockOut; o++) begin : gen_column
      assign plain_o[(b*BlockOut+o)*32+:32]  = 32'($signed(plain_sum[b][o]));
      assign packed_o[(b*BlockOut+o)*32+:32] = 32'($signed(packed_sum[b][o]));
    end
  end
endmodule
