// SPDX-License-Identifier: Apache-2.0
// The MAC array: every output element is the dot product of an activation row and a weight row.
// Latency is Pipeline cycles in every style; sums of a cycle without valid_i mean nothing.
//
// Registers are from 2 stages on behind the products, from 3 on behind the operands too, and the
// others spread over the adder tree. The top LutColumns output channels multiply in LUTs, the rest in
// DSP slices: Packed forms the products of two output channels with one multiplier. Slices add two
// products, or four where registers follow the first two levels of the tree.
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
    output logic signed [Batch-1:0][BlockOut-1:0][31:0]     sum_o,    // to be added to
    output logic        [Batch-1:0][BlockOut-1:0]           carry_o   // this
);
  localparam int unsigned Levels = $clog2(BlockIn);  // of the adder tree
  localparam int unsigned OperandStage = Pipeline >= 3 ? 1 : 0;
  localparam int unsigned ProductStage = Pipeline >= 2 ? 1 : 0;
  localparam int unsigned SumStages = Pipeline - OperandStage - ProductStage;
  localparam int unsigned TreeStages = SumStages < Levels ? SumStages : Levels;
  localparam int unsigned DspColumns = BlockOut - LutColumns;
  localparam int unsigned PackedColumns = Packed != 0 ? DspColumns - DspColumns % 2 : 0;
  // Products of a pair of columns that slices add without LUTs.
  localparam int unsigned Chain = ProductStage != 0 && staged(1) && staged(2) ? 4 : 2;
  localparam int unsigned ChainLevel = $clog2(Chain);
  // Illegal parameters compute nothing, so that it is tw_legal that says what is wrong.
  localparam bit Sound = BlockIn >= 4 && (BlockIn & (BlockIn - 1)) == 0 && Pipeline >= 1 &&
                         LutColumns <= BlockOut;

  if (DataPath == 0 || !Sound) begin : gen_none
    assign sum_o = '0;
    assign carry_o = '0;
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
    // Packed products, and their sums of Chain, which DSP slices form without LUTs: of each output
    // channel a number and a bit that is to be added.
    localparam logic signed [34:0] Added = Chain == 4 ? -35'sd1 : 35'sd32767;
    for (genvar b = 0; b < Batch; b++) begin : gen_packed_row
      for (genvar o = 0; o < PackedColumns; o += 2) begin : gen_packed
        for (genvar n = 0; n < BlockIn / Chain; n++) begin : gen_chain
          // (w1 * 2^16 + w0) * a = w1 * a * 2^16 + w0 * a. The low sum of two products is from
          // -0x7F00 to 0x8000: with 0x7FFF added it neither borrows from the high one nor carries
          // into it. The low sum of four, less 1, borrows 1 if it is negative; bit 16 does not tell,
          // but is odd where it should be even: the lowest bit of the high sum is known.
          logic [Chain-1:0] odd;
          for (genvar k = 0; k < Chain; k++) begin : gen_product
            localparam int unsigned I = n * Chain + k;
            logic signed [7:0] low, high, a;
            if (k < 2) begin : gen_first
              assign a    = inp[(b*BlockIn+I)*8+:8];
              assign low  = wgt[(o*BlockIn+I)*8+:8];
              assign high = wgt[((o+1)*BlockIn+I)*8+:8];
            end else begin : gen_later  // behind the register of the first two
              always_ff @(posedge clk_i) begin
                a    <= inp[(b*BlockIn+I)*8+:8];
                low  <= wgt[(o*BlockIn+I)*8+:8];
                high <= wgt[((o+1)*BlockIn+I)*8+:8];
              end
            end
            logic signed [32:0] product;
            (* use_dsp = "yes" *) logic signed [32:0] next;
            assign next = 33'(pair(low, high)) * 33'(a);
            if (ProductStage != 0) begin : gen_product_stage
              always_ff @(posedge clk_i) product <= next;
            end else begin : gen_products
              assign product = next;
            end
            assign odd[k] = wgt[((o+1)*BlockIn+I)*8] && inp[(b*BlockIn+I)*8];
          end
          logic signed [34:0] one, two, sum;
          assign one = 35'(gen_product[0].product) + Added;
          assign two = one + 35'(gen_product[1].product);
          // [0]: the low one
          logic [1:0][17:0] numbers;
          logic [1:0] bits;
          if (Chain == 4) begin : gen_four
            logic signed [34:0] two_q, three;
            logic [1:0] odd_q;
            logic parity_q, parity, borrow;
            assign three = two_q + 35'(gen_product[Chain-2].product);
            always_ff @(posedge clk_i) begin
              two_q    <= two;
              sum      <= three + 35'(gen_product[Chain-1].product);
              odd_q    <= {^odd[Chain-1:Chain/2], ^odd[Chain/2-1:0]};
              parity_q <= ^odd_q;
              parity   <= parity_q;
            end
            assign borrow  = sum[16] != parity;
            assign numbers = {sum[33:16], {borrow, borrow, sum[15:0]}};
            assign bits    = {borrow, 1'b1};
          end else begin : gen_two
            if (staged(1)) begin : gen_stage
              always_ff @(posedge clk_i) sum <= two;
            end else begin : gen_through
              assign sum = two;
            end
            // 0x7FFF less 0x8000
            assign numbers = {sum[33:16], {{3{!sum[15]}}, sum[14:0]}};
            assign bits    = 2'b01;
            logic unused_odd;
            assign unused_odd = ^odd;
          end
          logic unused_sum;
          assign unused_sum = sum[34];
        end
      end
    end

    // ---------------------------------------------------------------------------------------
    // The other products, and their sums by two
    for (genvar b = 0; b < Batch; b++) begin : gen_row
      for (genvar i = 0; i < BlockIn; i += 2) begin : gen_two
        for (genvar o = PackedColumns; o < BlockOut; o++) begin : gen_single
          logic signed [7:0] a0, a1;
          assign a0 = inp[(b*BlockIn+i)*8+:8];
          assign a1 = inp[(b*BlockIn+i+1)*8+:8];
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
        end
      end
    end

    // ---------------------------------------------------------------------------------------
    // The rest of the tree. A node is a number and a bit to be added: a sum takes all its nodes' bits
    // but one, which goes on. Levels without a register between them are one sum.
    for (genvar b = 0; b < Batch; b++) begin : gen_sum_row
      for (genvar o = 0; o < BlockOut; o++) begin : gen_sum
        localparam bit InChain = o < PackedColumns;
        localparam int unsigned LeafLevel = InChain ? ChainLevel : 1;
        for (genvar l = LeafLevel; l <= Levels; l++) begin : gen_level
          localparam int unsigned Bits = 16 + l;
          localparam int unsigned From = l == LeafLevel ? l : below(l, LeafLevel);
          localparam int unsigned Addends = 1 << (l - From);
          logic signed [Bits-1:0] node[BlockIn>>l];
          logic [(BlockIn>>l)-1:0] carry;
          for (genvar n = 0; n < BlockIn >> l; n++) begin : gen_node
            if (l == LeafLevel && InChain) begin : gen_chain
              assign node[n] = Bits'($signed(
                  gen_packed_row[b].gen_packed[o-o%2].gen_chain[n].numbers[o%2]));
              assign carry[n] = gen_packed_row[b].gen_packed[o-o%2].gen_chain[n].bits[o%2];
            end else if (l == LeafLevel) begin : gen_leaf
              assign node[n]  = gen_row[b].gen_two[2*n].gen_single[o].sum;
              assign carry[n] = 1'b0;
            end else if (l < Levels && !staged(l)) begin : gen_later
              assign node[n]  = '0;
              assign carry[n] = 1'b0;
              logic unused_node;
              assign unused_node = ^{node[n], carry[n]};
            end else begin : gen_adder
              logic signed [Bits-1:0] next;
              if (Addends == 2) begin : gen_two
                logic signed [Bits:0] longer;  // a bit below the lowest carries
                logic unused_bit;
                assign longer = (Bits + 1)'($signed({gen_level[From].node[2*n], 1'b1})) +
                    (Bits + 1)'($signed({gen_level[From].node[2*n+1], gen_level[From].carry[2*n]}));
                assign next = longer[Bits:1];
                assign unused_bit = longer[0];
              end else begin : gen_more
                always_comb begin
                  next = Bits'(gen_level[From].node[Addends*n+Addends-1]);
                  for (int unsigned k = 0; k < Addends - 1; k++)
                    next += Bits'(gen_level[From].node[Addends*n+k]) +
                        Bits'($signed({1'b0, gen_level[From].carry[Addends*n+k]}));
                end
              end
              logic last;
              assign last = gen_level[From].carry[Addends*n+Addends-1];
              if (staged(l)) begin : gen_stage
                always_ff @(posedge clk_i) {node[n], carry[n]} <= {next, last};
              end else begin : gen_through
                assign {node[n], carry[n]} = {next, last};
              end
            end
          end
        end
        logic signed [SumBits-1:0] line[SumStages-TreeStages+1];
        logic line_carry[SumStages-TreeStages+1];
        assign line[0] = gen_level[Levels].node[0];
        assign line_carry[0] = gen_level[Levels].carry[0];
        for (genvar s = 1; s <= SumStages - TreeStages; s++) begin : gen_delay
          always_ff @(posedge clk_i) {line[s], line_carry[s]} <= {line[s-1], line_carry[s-1]};
        end
        assign sum_o[b][o]   = 32'(line[SumStages-TreeStages]);
        assign carry_o[b][o] = line_carry[SumStages-TreeStages];
      end
    end
  end

  // The level whose nodes a level adds: the last one before it with a register, or the leaves'.
  function automatic int unsigned below(int unsigned level, int unsigned leaf);
    below = leaf;
    for (int unsigned l = leaf + 1; l < level; l++) if (staged(l)) below = l;
  endfunction

  // Whether a register follows a level of the tree: TreeStages of them, the last one at the end, the
  // others after the first levels, where DSP slices have them.
  function automatic bit staged(int unsigned level);
    return level == Levels ? TreeStages != 0 : level < TreeStages;
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
