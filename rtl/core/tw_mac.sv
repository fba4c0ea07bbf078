// SPDX-License-Identifier: Apache-2.0
// The MAC array: every output element is the dot product of an activation row and a weight row.
// Latency is Pipeline cycles in every style; sums of a cycle without valid_i mean nothing.
//
// Registers are from 2 stages on behind the products, from 3 on behind the operands too, and the
// others spread over the adder tree. The top LutColumns output channels multiply in LUTs, the rest in
// DSP slices: Packed forms the products of two output channels with one multiplier.
module tw_mac #(
    parameter int unsigned Batch      = 1,   // activation rows
    parameter int unsigned BlockIn    = 16,  // products summed, a power of two, at least 4
    parameter int unsigned BlockOut   = 16,  // output channels
    parameter int unsigned Pipeline   = 2,   // cycles from operands to sums, at least 1
    parameter int unsigned Packed     = 0,   // 1: two products share a multiplier
    parameter int unsigned LutColumns = 0,   // output channels that multiply in LUTs
    parameter int unsigned DataPath   = 1,   // 0: nothing is computed, every sum is 0
    localparam int unsigned SumBits = 16 + $clog2(BlockIn)
) (
    input  logic                                            clk_i,
    input  logic                                            valid_i,
    input  logic        [                Batch*BlockIn*8-1:0] inp_i,  // [batch][block_in]
    input  logic        [             BlockOut*BlockIn*8-1:0] wgt_i,  // [block_out][block_in]
    output logic signed [Batch-1:0][BlockOut-1:0][31:0]     sum_o
);
  localparam int unsigned Levels = $clog2(BlockIn);  // of the adder tree
  localparam int unsigned OperandStage = Pipeline >= 3 ? 1 : 0;
  localparam int unsigned ProductStage = Pipeline >= 2 ? 1 : 0;
  localparam int unsigned SumStages = Pipeline - OperandStage - ProductStage;
  localparam int unsigned TreeStages = SumStages < Levels ? SumStages : Levels;
  localparam int unsigned DspColumns = BlockOut - LutColumns;
  localparam int unsigned PackedColumns = Packed != 0 ? DspColumns - DspColumns % 2 : 0;
  // Illegal parameters compute nothing, so that it is tw_legal that says what is wrong.
  localparam bit Sound = BlockIn >= 4 && (BlockIn & (BlockIn - 1)) == 0 && Pipeline >= 1 &&
                         LutColumns <= BlockOut;

  if (DataPath == 0 || !Sound) begin : gen_none
    assign sum_o = '0;
    logic unused;
    assign unused = ^{clk_i, valid_i, inp_i, wgt_i};
  end else begin : gen_device
    // ---------------------------------------------------------------------------------------
    // Operands
    logic [Batch*BlockIn*8-1:0] inp;
    logic [BlockOut*BlockIn*8-1:0] wgt;
    if (OperandStage != 0) begin : gen_operand_stage
      always_ff @(posedge clk_i) begin
        inp <= inp_i;
        wgt <= wgt_i;
      end
    end else begin : gen_operands
      assign inp = inp_i;
      assign wgt = wgt_i;
    end
    logic unused;
    assign unused = valid_i;  // operands stay while there is no new product

    // ---------------------------------------------------------------------------------------
    // Products and their sums by two, which DSP slices form without LUTs
    logic signed [16:0] twos[Batch][BlockOut][BlockIn/2];
    for (genvar b = 0; b < Batch; b++) begin : gen_row
      for (genvar i = 0; i < BlockIn; i += 2) begin : gen_two
        logic signed [7:0] a0, a1;
        assign a0 = inp[(b*BlockIn+i)*8+:8];
        assign a1 = inp[(b*BlockIn+i+1)*8+:8];

        for (genvar o = 0; o < PackedColumns; o += 2) begin : gen_packed
          // (w1 * 2^16 + w0) * a = w1 * a * 2^16 + w0 * a. The low sum of two products is from
          // -0x7F00 to 0x8000: with Offset added it neither borrows from the high one nor
          // carries into it. The low sums are then 0x100 too low when read as signed numbers,
          // which the first of a column makes up for.
          localparam logic [33:0] Offset = 34'h7F00;
          localparam logic signed [16:0] Missing = i == 0 ? 17'(256 * (BlockIn / 2)) : 17'd0;
          logic signed [32:0] product0, product1;
          logic signed [33:0] sum;
          (* use_dsp = "yes" *) logic signed [32:0] next0, next1;
          assign next0 = 33'(pair(wgt[(o*BlockIn+i)*8+:8], wgt[((o+1)*BlockIn+i)*8+:8])) * 33'(a0);
          assign next1 =
              33'(pair(wgt[(o*BlockIn+i+1)*8+:8], wgt[((o+1)*BlockIn+i+1)*8+:8])) * 33'(a1);
          if (ProductStage != 0) begin : gen_product_stage
            always_ff @(posedge clk_i) begin
              product0 <= next0;
              product1 <= next1;
            end
          end else begin : gen_products
            assign product0 = next0;
            assign product1 = next1;
          end
          logic signed [33:0] biased, next;
          assign biased = 34'(product0) + $signed(Offset);
          assign next = biased + 34'(product1);
          if (staged(1)) begin : gen_stage
            always_ff @(posedge clk_i) sum <= next;
          end else begin : gen_through
            assign sum = next;
          end
          assign twos[b][o][i/2] = 17'($signed({~sum[15], sum[14:0]})) + Missing;
          assign twos[b][o+1][i/2] = $signed(sum[32:16]);
          logic unused_sum;
          assign unused_sum = sum[33];
        end

        for (genvar o = PackedColumns; o < BlockOut; o++) begin : gen_single
          logic signed [15:0] next0, next1, product0, product1;
          if (o < DspColumns) begin : gen_dsp
            (* use_dsp = "yes" *) logic signed [15:0] full0, full1;
            assign full0 = 16'(a0) * 16'($signed(wgt[(o*BlockIn+i)*8+:8]));
            assign full1 = 16'(a1) * 16'($signed(wgt[(o*BlockIn+i+1)*8+:8]));
            assign next0 = full0;
            assign next1 = full1;
          end else begin : gen_lut
            (* use_dsp = "no" *) logic signed [15:0] full0, full1;
            assign full0 = booth(a0, wgt[(o*BlockIn+i)*8+:8]);
            assign full1 = booth(a1, wgt[(o*BlockIn+i+1)*8+:8]);
            assign next0 = full0;
            assign next1 = full1;
          end
          if (ProductStage != 0) begin : gen_product_stage
            always_ff @(posedge clk_i) begin
              product0 <= next0;
              product1 <= next1;
            end
          end else begin : gen_products
            assign product0 = next0;
            assign product1 = next1;
          end
          logic signed [16:0] sum, next;
          assign next = 17'(product0) + 17'(product1);
          if (staged(1)) begin : gen_stage
            always_ff @(posedge clk_i) sum <= next;
          end else begin : gen_through
            assign sum = next;
          end
          assign twos[b][o][i/2] = sum;
        end
      end
    end

    // ---------------------------------------------------------------------------------------
    // The rest of the tree
    for (genvar b = 0; b < Batch; b++) begin : gen_sum_row
      for (genvar o = 0; o < BlockOut; o++) begin : gen_sum
        for (genvar l = 1; l <= Levels; l++) begin : gen_level
          localparam int unsigned Bits = 16 + l;
          logic signed [Bits-1:0] node[BlockIn>>l];
          for (genvar n = 0; n < BlockIn >> l; n++) begin : gen_node
            if (l == 1) begin : gen_leaf
              assign node[n] = twos[b][o][n];
            end else begin : gen_adder
              logic signed [Bits-1:0] next;
              assign next =
                  Bits'(gen_level[l-1].node[2*n]) + Bits'(gen_level[l-1].node[2*n+1]);
              if (staged(l)) begin : gen_stage
                always_ff @(posedge clk_i) node[n] <= next;
              end else begin : gen_through
                assign node[n] = next;
              end
            end
          end
        end
        logic signed [SumBits-1:0] line[SumStages-TreeStages+1];
        assign line[0] = gen_level[Levels].node[0];
        for (genvar s = 1; s <= SumStages - TreeStages; s++) begin : gen_delay
          always_ff @(posedge clk_i) line[s] <= line[s-1];
        end
        assign sum_o[b][o] = 32'(line[SumStages-TreeStages]);
      end
    end
  end

  // Whether a register follows a level of the tree: TreeStages of them, the last one at the end.
  function automatic bit staged(int unsigned level);
    return level * TreeStages / Levels != (level - 1) * TreeStages / Levels;
  endfunction

  function automatic logic signed [24:0] pair(logic signed [7:0] low, logic signed [7:0] high);
    return 25'($signed({high, 16'd0})) + 25'(low);
  endfunction

  // Booth's recoding, two bits of `w` at a time. Choosing the multiple of `a` and adding it to
  // what is left of the sum is one LUT a bit with its carry; the carry in completes a negation.
  function automatic logic signed [15:0] booth(logic signed [7:0] a, logic signed [7:0] w);
    logic signed [15:0] result;
    logic signed [9:0] rest, total;
    logic signed [8:0] multiple;
    logic [8:0] digits;
    logic negative;
    digits = {w, 1'b0};
    rest = '0;
    for (int unsigned k = 0; k < 4; k++) begin
      negative = digits[2*k+2];
      if (digits[2*k+1] != digits[2*k]) multiple = 9'(a);
      else if (digits[2*k+2] != digits[2*k+1]) multiple = {a, 1'b0};
      else multiple = '0;
      if (negative) multiple = ~multiple;
      total = 10'(($signed({rest, 1'b1}) + 11'($signed({multiple, negative}))) >>> 1);
      rest = 10'($signed(total[9:2]));
      result[2*k+:2] = total[1:0];
    end
    result[15:8] = total[9:2];
    return result;
  endfunction
endmodule
