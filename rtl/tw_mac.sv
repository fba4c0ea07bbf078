// SPDX-License-Identifier: Apache-2.0
// The MAC array: every output element is the dot product of an activation row and a weight row.
// Latency is Pipeline cycles in both styles.
//
// The plain style is one combinational dot product and a delay line: synthesis retimes the line
// into the adder tree, and Verilator runs it an order of magnitude faster than a tree of
// registers. The packed style forms the products of two output channels with one multiplier.
module tw_mac #(
    parameter int unsigned Batch    = 1,   // activation rows
    parameter int unsigned BlockIn  = 16,  // products summed
    parameter int unsigned BlockOut = 16,  // output channels
    parameter int unsigned Pipeline = 2,   // cycles from operands to sums, at least 1
    parameter int unsigned Packed   = 0,   // 1: two products share a multiplier
    localparam int unsigned SumBits = 16 + $clog2(BlockIn)
) (
    input  logic                                            clk_i,
    input  logic                                            valid_i,
    input  logic        [                Batch*BlockIn*8-1:0] inp_i,  // [batch][block_in]
    input  logic        [             BlockOut*BlockIn*8-1:0] wgt_i,  // [block_out][block_in]
    output logic signed [Batch-1:0][BlockOut-1:0][SumBits-1:0] sum_o
);
  typedef logic signed [Batch-1:0][BlockOut-1:0][SumBits-1:0] sums_t;
  sums_t line_q[Pipeline];

  if (Packed == 0) begin : gen_plain
    for (genvar b = 0; b < Batch; b++) begin : gen_row
      for (genvar o = 0; o < BlockOut; o++) begin : gen_column
        always_ff @(posedge clk_i) begin
          if (valid_i) begin
            line_q[0][b][o] <= dot(inp_i[b*BlockIn*8+:BlockIn*8], wgt_i[o*BlockIn*8+:BlockIn*8]);
          end
        end
      end
    end
  end else begin : gen_packed
    // (w1 * 2^16 + w0) * a = w1 * a * 2^16 + w0 * a: the low product is the low 16 bits, the
    // high one lacks the borrow of a negative low product.
    for (genvar b = 0; b < Batch; b++) begin : gen_row
      for (genvar o = 0; o < BlockOut; o += 2) begin : gen_pair
        logic signed [BlockIn-1:0][15:0] low, high;
        for (genvar i = 0; i < BlockIn; i++) begin : gen_product
          logic signed [7:0] a, w0, w1;
          logic signed [24:0] pair;
          (* use_dsp = "yes" *) logic signed [32:0] product;
          assign a = inp_i[(b*BlockIn+i)*8+:8];
          assign w0 = wgt_i[(o*BlockIn+i)*8+:8];
          assign w1 = wgt_i[((o+1)*BlockIn+i)*8+:8];
          assign pair = 25'($signed({w1, 16'd0})) + 25'(w0);
          assign product = 33'(pair) * 33'(a);
          logic unused;
          assign unused = product[32];
          assign low[i] = product[15:0];
          assign high[i] = product[31:16] + 16'(product[15]);
        end
        always_ff @(posedge clk_i) begin
          if (valid_i) begin
            line_q[0][b][o]   <= total(low);
            line_q[0][b][o+1] <= total(high);
          end
        end
      end
    end
  end

  function automatic logic signed [SumBits-1:0] dot(logic [BlockIn*8-1:0] row,
                                                    logic [BlockIn*8-1:0] column);
    logic signed [31:0] result;
    result = '0;
    for (int unsigned i = 0; i < BlockIn; i++) begin
      result += 32'($signed(row[i*8+:8])) * 32'($signed(column[i*8+:8]));
    end
    return SumBits'(result);
  endfunction

  function automatic logic signed [SumBits-1:0] total(logic [BlockIn-1:0][15:0] products);
    logic signed [31:0] result;
    result = '0;
    for (int unsigned i = 0; i < BlockIn; i++) result += 32'($signed(products[i]));
    return SumBits'(result);
  endfunction

  for (genvar s = 1; s < Pipeline; s++) begin : gen_delay
    always_ff @(posedge clk_i) line_q[s] <= line_q[s-1];
  end
  assign sum_o = line_q[Pipeline-1];
endmodule
