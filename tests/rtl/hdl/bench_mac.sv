// SPDX-License-Identifier: Apache-2.0
// Every style of tw_mac at every latency up to Pipeline side by side, sums as one flat vector of
// 32-bit elements: [latency - 1][style][batch][block_out].
module bench_mac #(
    parameter int unsigned Batch    = 1,
    parameter int unsigned BlockIn  = 4,
    parameter int unsigned BlockOut = 4,
    parameter int unsigned Pipeline = 2,
    localparam int unsigned Styles = 6,
    localparam int unsigned Elements = Batch * BlockOut
) (
    input  logic                                     clk_i,
    input  logic                                     valid_i,
    input  logic [              Batch*BlockIn*8-1:0] inp_i,
    input  logic [           BlockOut*BlockIn*8-1:0] wgt_i,
    output logic [Pipeline*Styles*Elements*32-1:0] sums_o
);
  // The order is that of STYLES in cocotb_mac.py.
  localparam int unsigned Packed[Styles] = '{0, 1, 0, 1, 1, 1};
  localparam int unsigned LutColumns[Styles] = '{0, 0, 1, 1, 2, BlockOut};

  for (genvar p = 0; p < Pipeline; p++) begin : gen_latency
    for (genvar s = 0; s < Styles; s++) begin : gen_style
      logic signed [Batch-1:0][BlockOut-1:0][31:0] sum;
      logic [Batch-1:0][BlockOut-1:0] carry;
      tw_mac #(
          .Batch     (Batch),
          .BlockIn   (BlockIn),
          .BlockOut  (BlockOut),
          .Pipeline  (p + 1),
          .Packed    (Packed[s]),
          .LutColumns(LutColumns[s])
      ) u_mac (
          .clk_i,
          .valid_i,
          .inp_i,
          .wgt_i,
          .sum_o(sum),
          .carry_o(carry)
      );
      for (genvar b = 0; b < Batch; b++) begin : gen_row
        for (genvar o = 0; o < BlockOut; o++) begin : gen_column
          assign sums_o[(((p*Styles+s)*Batch+b)*BlockOut+o)*32+:32] = sum[b][o] + 32'(carry[b][o]);
        end
      end
    end
  end
endmodule
