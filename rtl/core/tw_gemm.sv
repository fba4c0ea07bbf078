// SPDX-License-Identifier: Apache-2.0
// GEMM unit: one tile product a cycle, two affine loops around a micro-op sequence.
//
// Stages: 0 issue (micro-op address, loop offsets), 1 index sums, 2 operand addresses,
// 3 operands, then MacPipeline cycles of the array; the accumulator is read so that it meets
// the sum, added, and written back a cycle later. Results are forwarded to the products behind
// them, so no address pattern ever stalls, and the next instruction follows without a gap.
module tw_gemm #(
    parameter tw_pkg::config_t Config = '0,  // of the core
    parameter tw_pkg::sizes_t Sizes = tw_pkg::sizes_of(Config),
    localparam int unsigned Batch = Config.batch,
    localparam int unsigned BlockIn = Config.block_in,
    localparam int unsigned BlockOut = Config.block_out,
    localparam int unsigned UopAddrBits = $clog2(Sizes.uop_depth),
    localparam int unsigned InpAddrBits = $clog2(Sizes.inp_depth),
    localparam int unsigned WgtAddrBits = $clog2(Sizes.wgt_depth),
    localparam int unsigned AccAddrBits = $clog2(Sizes.acc_depth),
    localparam int unsigned AccBits = Batch * BlockOut * 32
) (
    input  logic                                  clk_i,
    input  logic                                  rst_i,
    input  logic                                  halt_i,
    input  tw_pkg::queue_t                        queue_i,
    output tw_pkg::unit_t                         unit_o,
    // ACC bank locks
    input  logic          [ tw_pkg::AccBanks-1:0] acc_busy_i,    // held by other units
    output logic          [ tw_pkg::AccBanks-1:0] acc_lock_o,
    // scratchpads
    output logic                                  uop_read_o,
    output logic          [      UopAddrBits-1:0] uop_addr_o,
    input  logic          [  tw_pkg::UopBits-1:0] uop_data_i,
    output logic                                  inp_read_o,
    output logic          [      InpAddrBits-1:0] inp_addr_o,
    input  logic          [  Batch*BlockIn*8-1:0] inp_data_i,
    output logic                                  wgt_read_o,
    output logic          [      WgtAddrBits-1:0] wgt_addr_o,
    input  logic          [BlockOut*BlockIn*8-1:0] wgt_data_i,
    output logic                                  acc_read_o,
    output logic          [      AccAddrBits-1:0] acc_read_addr_o,
    input  logic          [          AccBits-1:0] acc_read_data_i,
    output logic                                  acc_write_o,
    output logic          [      AccAddrBits-1:0] acc_write_addr_o,
    output logic          [          AccBits-1:0] acc_write_data_o,
    // status
    output logic                                  issue_o        // a tile product is issued
);
  localparam int unsigned MacPipeline = Sizes.mac_pipeline;
  // Stages from the operand address to the write: operands, array, add.
  localparam int unsigned Tail = MacPipeline + 2;

  logic retire, idle;
  tw_pkg::index_t retire_index;
  tw_pkg::wait_e state;
  tw_pkg::error_t error;
  tw_pkg::sizes_t sizes;
  tw_sizes #(
      .Elaborated(Sizes)
  ) u_sizes (
      .sizes_o(sizes)
  );

  // Offsets are two bits wider than an index and saturate, so that an overrun never wraps
  // back into range.
  typedef logic [19:0] offset_t;
  // One adder: a bit below the lowest carries.
  function automatic logic [31:0] plus_carry(logic [31:0] a, logic [31:0] b, logic carry);
    return 32'(({a, 1'b1} + {b, carry}) >> 1);
  endfunction

  function automatic offset_t plus(offset_t a, logic [17:0] b);
    logic [20:0] sum;
    sum = 21'(a) + 21'(b);
    return sum[20] ? '1 : sum[19:0];
  endfunction

  // ---------------------------------------------------------------------------------------
  // Stage 0: take instructions, step the loops
  tw_pkg::gemm_t head, cur_q;
  logic cur_valid_q;
  logic illegal_q;  // it has a wrong field: it only errs
  tw_pkg::index_t index_q;
  logic [17:0] uop_q;  // micro-ops done in this inner iteration
  logic [15:0] inner_q, outer_q;
  offset_t acc_q, inp_q, wgt_q;                    // offsets of this iteration
  offset_t acc_outer_q, inp_outer_q, wgt_outer_q;  // offsets of this outer iteration
  // Whether a loop is in its last turn lies in a register, set when the turn before it ends.
  logic uop_last_q, inner_last_q, outer_last_q, uop_one_q, inner_one_q;
  logic uop_last_d, inner_last_d, outer_last_d;
  logic last_product_q;  // all of them are
  logic issue, issue_last, take, can_take;
  logic tokens_ok, banks_ok;
  logic [18:0] uop_index;
  logic uop_in_range;

  assign head       = tw_pkg::gemm_t'(queue_i.entry.insn);
  assign tokens_ok  = (queue_i.needs.pop & ~queue_i.tokens) == '0;
  assign banks_ok   = (queue_i.needs.banks & acc_busy_i) == '0;
  assign issue      = cur_valid_q && !halt_i && !illegal_q;
  assign issue_last = issue && last_product_q;
  assign can_take   = (!cur_valid_q || last_product_q) && !halt_i;
  assign take       = can_take && queue_i.valid && tokens_ok && banks_ok;
  assign uop_index  = 19'(cur_q.uop_begin) + 19'(uop_q);
  assign uop_in_range = uop_index < 19'(sizes.uop_depth);

  assign uop_read_o  = issue;
  assign uop_addr_o  = UopAddrBits'(uop_index);
  assign issue_o     = issue;

  // Of the product behind this one.
  assign uop_last_d   = uop_last_q ? uop_one_q : uop_q + 18'd2 == cur_q.uop_count;
  assign inner_last_d = !uop_last_q ? inner_last_q :
                        inner_last_q ? inner_one_q : inner_q + 16'd2 == cur_q.iter_inner;
  assign outer_last_d = !(uop_last_q && inner_last_q) ? outer_last_q :
                        outer_q + 16'd2 == cur_q.iter_outer;

  always_ff @(posedge clk_i) begin
    // What may be taken is copied; cur_valid_q says whether it was.
    if (can_take && queue_i.valid) begin
      cur_q       <= head;
      index_q     <= queue_i.entry.index;
      illegal_q   <= queue_i.needs.illegal;
      uop_q       <= '0;
      inner_q     <= '0;
      outer_q     <= '0;
      uop_one_q    <= head.uop_count == 18'd1;
      inner_one_q  <= head.iter_inner == 16'd1;
      uop_last_q   <= head.uop_count == 18'd1;
      inner_last_q <= head.iter_inner == 16'd1;
      outer_last_q <= head.iter_outer == 16'd1;
      last_product_q <= head.uop_count == 18'd1 && head.iter_inner == 16'd1 &&
                        head.iter_outer == 16'd1;
      acc_q       <= offset_t'(head.acc_base);
      inp_q       <= offset_t'(head.inp_base);
      wgt_q       <= offset_t'(head.wgt_base);
      acc_outer_q <= offset_t'(head.acc_base);
      inp_outer_q <= offset_t'(head.inp_base);
      wgt_outer_q <= offset_t'(head.wgt_base);
    end else if (issue) begin
      uop_q          <= uop_last_q ? '0 : uop_q + 1'b1;
      uop_last_q     <= uop_last_d;
      inner_last_q   <= inner_last_d;
      outer_last_q   <= outer_last_d;
      last_product_q <= uop_last_d && inner_last_d && outer_last_d;
      if (uop_last_q) begin
        inner_q <= inner_last_q ? '0 : inner_q + 1'b1;
        if (inner_last_q) begin
          outer_q     <= outer_q + 1'b1;
          acc_outer_q <= plus(acc_outer_q, 18'(cur_q.acc_outer));
          inp_outer_q <= plus(inp_outer_q, cur_q.inp_outer);
          wgt_outer_q <= plus(wgt_outer_q, 18'(cur_q.wgt_outer));
          acc_q       <= plus(acc_outer_q, 18'(cur_q.acc_outer));
          inp_q       <= plus(inp_outer_q, cur_q.inp_outer);
          wgt_q       <= plus(wgt_outer_q, 18'(cur_q.wgt_outer));
        end else begin
          acc_q <= plus(acc_q, 18'(cur_q.acc_inner));
          inp_q <= plus(inp_q, cur_q.inp_inner);
          wgt_q <= plus(wgt_q, 18'(cur_q.wgt_inner));
        end
      end
    end
    if (rst_i) cur_valid_q <= 1'b0;
    else if (take) cur_valid_q <= 1'b1;
    else if (issue_last) cur_valid_q <= 1'b0;
  end

  // ---------------------------------------------------------------------------------------
  // Stage 1: add the micro-op to the offsets
  typedef struct packed {
    logic                        valid;
    logic                        last;   // last product of its instruction
    logic [3:0]                  push;
    logic [tw_pkg::AccBanks-1:0] banks;
    tw_pkg::index_t              index;
  } tag_t;

  tag_t tag1_q, tag2_q;
  offset_t acc1_q, inp1_q, wgt1_q;
  logic [20:0] acc2_q, inp2_q, wgt2_q;  // a bit wider, so that they need not saturate
  logic overwrite1_q, fresh2_q, uop_ok1_q, uop_ok2_q;
  tw_pkg::uop_t uop;
  assign uop = tw_pkg::uop_t'(uop_data_i);

  always_ff @(posedge clk_i) begin
    tag1_q <= '{
        valid: issue,
        last: issue_last,
        push: cur_q.push,
        banks: issue ? cur_q.acc_banks : '0,
        index: index_q
    };
    tag2_q <= tag1_q;
    if (issue) begin
      acc1_q       <= acc_q;
      inp1_q       <= inp_q;
      wgt1_q       <= wgt_q;
      overwrite1_q <= cur_q.overwrite;
      uop_ok1_q    <= uop_in_range;
    end
    if (tag1_q.valid) begin
      acc2_q    <= 21'(acc1_q) + 21'(uop.acc);
      inp2_q    <= 21'(inp1_q) + 21'(uop.inp);
      wgt2_q    <= 21'(wgt1_q) + 21'(uop.wgt);
      fresh2_q  <= overwrite1_q && uop.first;
      uop_ok2_q <= uop_ok1_q;
    end
    if (rst_i) begin
      tag1_q <= '0;
      tag2_q <= '0;
    end
  end

  // ---------------------------------------------------------------------------------------
  // Stage 2: operand addresses, checks
  logic in_range, bank_ok, go2;
  assign in_range = (acc2_q < 21'(sizes.acc_depth)) && (inp2_q < 21'(sizes.inp_depth)) &&
                    (wgt2_q < 21'(sizes.wgt_depth)) && uop_ok2_q;
  assign bank_ok = tag2_q.banks[2'(acc2_q >> sizes.acc_bank_shift)];
  assign go2 = tag2_q.valid && in_range && bank_ok && !halt_i;
  // They need not wait for the checks: nothing uses what a wrong address gives.
  assign inp_read_o = tag2_q.valid;
  assign wgt_read_o = tag2_q.valid;
  assign inp_addr_o = InpAddrBits'(inp2_q);
  assign wgt_addr_o = WgtAddrBits'(wgt2_q);

  logic wrong2;
  assign wrong2 = tag2_q.valid && !(in_range && bank_ok);
  assign error.valid = !halt_i && (wrong2 || (cur_valid_q && illegal_q));
  assign error.code = !wrong2 ? tw_pkg::ErrIllegalField :
                      in_range ? tw_pkg::ErrAccBank : tw_pkg::ErrSramRange;
  assign error.index = wrong2 ? tag2_q.index : index_q;

  // ---------------------------------------------------------------------------------------
  // Stages 3 on: the array, with what belongs to the products travelling beside it, a field of
  // all stages at once; [1] operands ... [Tail] write
  logic [Tail:1] valid_q, last_q, fresh_q;
  logic [Tail:1][3:0] push_q;
  logic [Tail:1][tw_pkg::AccBanks-1:0] banks_q;
  logic [Tail:1][AccAddrBits-1:0] addr_q;
  logic signed [Batch-1:0][BlockOut-1:0][31:0] sum;
  logic [Batch-1:0][BlockOut-1:0] carry;  // to be added to it
  // Where products enter: at 1 in hardware, later where a simulation has a shorter array.
  logic [31:0] entry;

  assign entry = MacPipeline + 32'd1 - sizes.mac_pipeline;
  always_ff @(posedge clk_i) begin
    valid_q <= rst_i ? '0 : {valid_q[Tail-1:1], 1'b0} | (Tail'(go2) << (entry - 32'd1));
    last_q  <= {last_q[Tail-1:1], 1'b0} | (Tail'(tag2_q.last) << (entry - 32'd1));
    push_q  <= {push_q[Tail-1:1], 4'd0} | ((Tail * 4)'(tag2_q.push) << ((entry - 32'd1) << 2));
    banks_q <= rst_i ? '0 : {banks_q[Tail-1:1], tw_pkg::AccBanks'(0)} |
               ((Tail * tw_pkg::AccBanks)'(tag2_q.banks) << ((entry - 32'd1) * tw_pkg::AccBanks));
    addr_q  <= {addr_q[Tail-1:1], AccAddrBits'(acc2_q)};
    fresh_q <= {fresh_q[Tail-1:1], fresh2_q};
  end

  tw_mac #(
      .Batch     (Batch),
      .BlockIn   (BlockIn),
      .BlockOut  (BlockOut),
      .Pipeline  (MacPipeline),
      .Packed    (Config.mac_packed),
      .LutColumns(Config.mac_lut_columns),
      .DataPath  (Config.data_path)
  ) u_mac (
      .clk_i,
      .valid_i(valid_q[1]),
      .inp_i  (inp_data_i),
      .wgt_i  (wgt_data_i),
      .sum_o  (sum),
      .carry_o(carry)
  );

  // The sum appears in stage Tail - 1. The accumulator is read two stages earlier, if there are so
  // many, to lie in a register behind the banks' multiplexer; which of the last three results
  // takes its place is known a stage before the sum.
  localparam int unsigned Ahead = MacPipeline >= 2 ? 2 : 1;
  assign acc_read_o      = valid_q[Tail-1-Ahead] && !fresh_q[Tail-1-Ahead];
  assign acc_read_addr_o = addr_q[Tail-1-Ahead];

  logic [AccBits-1:0] old, result_q, older_q;
  logic [AccAddrBits-1:0] older_addr_q;
  logic older_valid_q;
  if (Ahead == 2) begin : gen_ahead
    logic [AccBits-1:0] read_q;
    logic first_q, second_q, third;  // the product before, two before, three before it
    assign third = older_valid_q && older_addr_q == addr_q[Tail-2];
    always_ff @(posedge clk_i) begin
      first_q  <= valid_q[Tail-1] && addr_q[Tail-1] == addr_q[Tail-2] && !fresh_q[Tail-2];
      second_q <= valid_q[Tail] && addr_q[Tail] == addr_q[Tail-2] && !fresh_q[Tail-2];
      if (Config.data_path != 0 && valid_q[Tail-2])
        read_q <= fresh_q[Tail-2] ? '0 : third ? older_q : acc_read_data_i;
    end
    assign old = first_q ? result_q : second_q ? older_q : read_q;
  end else begin : gen_near
    always_comb begin
      old = acc_read_data_i;
      if (older_valid_q && older_addr_q == addr_q[Tail-1]) old = older_q;
      if (valid_q[Tail] && addr_q[Tail] == addr_q[Tail-1]) old = result_q;
      if (fresh_q[Tail-1]) old = '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (Config.data_path != 0 && valid_q[Tail-1]) begin
      for (int unsigned b = 0; b < Batch; b++) begin
        for (int unsigned o = 0; o < BlockOut; o++) begin
          result_q[(b*BlockOut+o)*32+:32] <=
              plus_carry(old[(b*BlockOut+o)*32+:32], sum[b][o], carry[b][o]);
        end
      end
    end
    if (Config.data_path != 0 && valid_q[Tail]) begin
      older_q      <= result_q;
      older_addr_q <= addr_q[Tail];
    end
    older_valid_q <= valid_q[Tail] && !rst_i;
  end

  assign acc_write_o      = valid_q[Tail];
  assign acc_write_addr_o = addr_q[Tail];
  assign acc_write_data_o = result_q;
  assign retire = valid_q[Tail] && last_q[Tail];

  // Instructions between take and retirement, which is in order: fewer than the depth.
  logic taken_q;
  always_ff @(posedge clk_i) taken_q <= take && !rst_i;
  logic unused_taken_valid, unused_taken_full;
  logic [4:0] unused_taken_count;
  tw_fifo #(
      .Width($bits(tw_pkg::index_t)),
      .Depth(16)
  ) u_taken (
      .clk_i,
      .rst_i,
      .push_i (taken_q),
      .data_i (index_q),
      .pop_i  (retire),
      .data_o (retire_index),
      .valid_o(unused_taken_valid),
      .full_o (unused_taken_full),
      .count_o(unused_taken_count)
  );

  // ---------------------------------------------------------------------------------------
  // Locks and state
  assign unit_o = '{
      take: take,
      token_pop: take ? queue_i.needs.pop : '0,
      token_push: retire && !halt_i ? push_q[Tail] : '0,
      retire: retire,
      retire_index: retire_index,
      idle: idle,
      state: state,
      error: error
  };

  // Banks are locked from the cycle after the take to the write of the last product: a register,
  // set from all that holds them a cycle before.
  logic draining;
  logic [tw_pkg::AccBanks-1:0] lock_q, lock_d;
  always_comb begin
    lock_d = take ? queue_i.needs.banks : '0;
    lock_d |= cur_valid_q ? cur_q.acc_banks : '0;
    lock_d |= tag1_q.banks | tag2_q.banks;
    draining = tag1_q.valid || tag2_q.valid || (|valid_q);
    for (int unsigned s = 1; s < Tail; s++) lock_d |= banks_q[s];
  end
  always_ff @(posedge clk_i) lock_q <= rst_i ? '0 : lock_d;
  assign acc_lock_o = lock_q;
  assign idle = !cur_valid_q && !draining;

  always_comb begin
    if (cur_valid_q) state = tw_pkg::WaitBusy;
    else if (queue_i.valid && !tokens_ok) begin
      state = tw_pkg::token_wait(tw_pkg::UnitGemm, queue_i.needs.pop, queue_i.tokens);
    end else if (queue_i.valid && !banks_ok) state = tw_pkg::WaitMemory;
    else if (draining || queue_i.valid) state = tw_pkg::WaitBusy;
    else state = tw_pkg::WaitIdle;
  end

  logic unused;
  assign unused = ^{head, cur_q, uop};
endmodule
