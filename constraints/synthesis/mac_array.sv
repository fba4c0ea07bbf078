// SPDX-License-Identifier: Apache-2.0
// The MAC array under the name and parameters of the accelerator, to place and route it alone:
// tilewright pnr edge-8x8 --manifest constraints/synthesis/mac_array.f
module tilewright_top #(
    parameter int unsigned Batch            = 1,   // rows of the activation tile
    parameter int unsigned BlockIn          = 16,  // input channels of a tile
    parameter int unsigned BlockOut         = 16,  // output channels of a tile
    parameter int unsigned InpBytes         = 1,   // the rest of the accelerator's: no effect
    parameter int unsigned WgtBytes         = 1,
    parameter int unsigned AccBytes         = 1,
    parameter int unsigned OutBytes         = 1,
    parameter int unsigned UopBytes         = 1,
    parameter int unsigned ResBytes         = 1,
    parameter int unsigned ParamBytes       = 1,
    parameter int unsigned AxiDataBits      = 64,
    parameter int unsigned AxiBurstBeats    = 16,
    parameter int unsigned ReadOutstanding  = 1,
    parameter int unsigned WriteOutstanding = 1,
    parameter int unsigned VectorLanes      = 1,
    parameter int unsigned MacPipeline      = 2,   // registers of the MAC array
    parameter int unsigned MacPacked        = 0,   // 1: two int8 MACs share one multiplier
    parameter int unsigned MacLutColumns    = 0,   // output channels that multiply in LUTs
    parameter int unsigned ActivationTable  = 0,
    parameter int unsigned RowUnit          = 0,
    parameter int unsigned Int4Weights      = 0,
    parameter int unsigned AccBankCount     = 4,
    parameter logic [31:0] ConfigHash       = 32'd0
) (
    input  logic                                                  aclk,
    input  logic                                                  aresetn,
    input  logic [                           Batch*BlockIn*8-1:0] inp_i,
    input  logic [                        BlockOut*BlockIn*8-1:0] wgt_i,
    output logic [Batch*BlockOut*32-1:0] sum_o,
    output logic [Batch*BlockOut-1:0] carry_o
);
  tw_mac #(
      .Batch     (Batch),
      .BlockIn   (BlockIn),
      .BlockOut  (BlockOut),
      .Pipeline  (MacPipeline),
      .Packed    (MacPacked),
      .LutColumns(MacLutColumns)
  ) u_mac (
      .clk_i  (aclk),
      .valid_i(aresetn),
      .inp_i  (inp_i),
      .wgt_i  (wgt_i),
      .sum_o  (sum_o),
      .carry_o(carry_o)
  );
endmodule
