// SPDX-License-Identifier: Apache-2.0
// VECTOR unit: element-wise operations on ACC, and the fused requantise from ACC to OUT.
//
// A tile is processed in parts of VectorLanes elements, one part a cycle. Stages: 0 issue and
// addresses, 1 out of the memories, 2 operands in registers: sum, minimum and so on, 3 saturate
// and write ACC. Results are forwarded to the next three parts, so that these operations issue a
// part in every cycle, whatever their addresses.
//
// Requantise flows through tw_requant from stage 2 on, and so does a product. Products and shifts,
// the long operations, are written to ACC in stage 5: a part that reads a tile of one on its way is
// not issued before, and the next instruction is taken once the last is in ACC. All retire after
// the same latency, so tokens leave in program order.
//
// PARAM entries of a channel block are copied to registers before each outer iteration that needs
// new ones, once no part in flight needs the old ones.
//
// With the row unit, an outer iteration may begin with a tile slot that fetches its second operand
// from ACC, and end with one that puts what tw_reduce made of the results. The next instruction
// is taken once the last one put is in ACC.
module tw_vector #(
    parameter tw_pkg::config_t Config = '0,  // of the core
    parameter tw_pkg::sizes_t Sizes = tw_pkg::sizes_of(Config),
    localparam int unsigned Batch = Config.batch,
    localparam int unsigned BlockOut = Config.block_out,
    localparam int unsigned Lanes = Config.vector_lanes,  // elements a cycle
    localparam int unsigned Elements = Batch * BlockOut,
    localparam int unsigned Parts = Sizes.vector_parts,
    localparam int unsigned PartBits = Parts > 1 ? $clog2(Parts) : 1,
    localparam int unsigned ParRows = Sizes.par_rows,  // reads of a PARAM tile
    localparam int unsigned ParRowBytes = BlockOut * 16 / ParRows,  // 16 a channel
    localparam int unsigned ParAddrBits = $clog2(Sizes.par_depth * ParRows),
    localparam int unsigned AccAddrBits = $clog2(Sizes.acc_depth),
    localparam int unsigned OutAddrBits = $clog2(Sizes.out_depth),
    localparam int unsigned ResAddrBits = $clog2(Sizes.res_depth)
) (
    input  logic                                clk_i,
    input  logic                                rst_i,
    input  logic                                halt_i,
    input  tw_pkg::queue_t                      queue_i,
    output tw_pkg::unit_t                       unit_o,
    // ACC bank locks
    input  logic         [tw_pkg::AccBanks-1:0] acc_busy_i,
    input  logic                                acc_behind_i,  // GEMM takes some of them in this cycle
    output logic         [tw_pkg::AccBanks-1:0] acc_lock_o,
    // scratchpads
    output logic                                par_read_o,
    output logic         [     ParAddrBits-1:0] par_addr_o,
    input  logic         [   ParRowBytes*8-1:0] par_data_i,
    output logic                                acc_read_o,
    output logic         [     AccAddrBits-1:0] acc_read_addr_o,
    input  logic         [     Elements*32-1:0] acc_read_data_i,
    output logic                                acc_write_o,
    output logic         [     AccAddrBits-1:0] acc_write_addr_o,
    output logic         [        PartBits-1:0] acc_write_part_o,
    output logic         [        Lanes*32-1:0] acc_write_data_o,
    output logic                                res_read_o,
    output logic         [     ResAddrBits-1:0] res_addr_o,
    input  logic         [      Elements*8-1:0] res_data_i,
    output logic                                out_write_o,
    output logic         [     OutAddrBits-1:0] out_addr_o,
    output logic         [        PartBits-1:0] out_part_o,
    output logic         [         Lanes*8-1:0] out_data_o,
    output logic                                out_lookup_o,  // look the result up
    // status
    output logic                                issue_o        // last part of a tile is issued
);
  localparam int unsigned AccWrite = 3;    // stage in which an ALU operation writes ACC
  localparam int unsigned LongWrite = 5;   // stage in which a long operation does
  localparam int unsigned LastParam = 5;   // last stage that uses a PARAM entry
  localparam int unsigned Tail = 9;        // stage in which OUT is written and a part retires
  localparam int unsigned PutWrite = 10;   // stage in which a reduced row is written to ACC
  localparam int unsigned MulBits = Sizes.row_unit != 0 ? tw_pkg::HeldBits : 16;
  // A part at least so far finishes with its entry before a new one, whose read starts in the
  // next cycle, is in the registers.
  localparam int unsigned Drained = LastParam - 2;
  localparam int unsigned RowChannels = ParRowBytes / 16;
  localparam int unsigned RowBits = ParRows > 1 ? $clog2(ParRows) : 1;

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

  typedef logic [19:0] offset_t;
  function automatic offset_t plus(offset_t a, logic [17:0] b);
    logic [20:0] sum;
    sum = 21'(a) + 21'(b);
    return sum[20] ? '1 : sum[19:0];
  endfunction

  // Products and shifts
  function automatic logic takes_long(logic [3:0] op);
    return op == tw_pkg::VecMul || op == tw_pkg::VecShr ||
           (sizes.row_unit != '0 && (op == tw_pkg::VecSquare || op == tw_pkg::VecExp2));
  endfunction

  // ---------------------------------------------------------------------------------------
  // Stage 0: take instructions, fetch parameters, step the loops
  typedef enum logic [2:0] {
    Idle,   // no instruction
    Drain,  // wait until no part in flight needs the old parameters for long
    Param,  // read the PARAM tile row by row
    Run,    // issue parts
    Settle  // wait until the last result of a long operation, or reduced row, is in ACC
  } state_e;
  typedef enum logic [1:0] {
    Work,   // a tile of the inner loop
    Fetch,  // before it: the ACC tile that is the second operand
    Put     // after it: what the rows were reduced to
  } slot_e;

  state_e state_q, state_d;
  slot_e slot_q, slot_d;
  tw_pkg::vector_t head, cur_q;
  tw_pkg::index_t index_q;
  logic [15:0] inner_q, outer_q;
  logic [PartBits-1:0] part_q, part_d;
  logic [RowBits:0] row_q;  // PARAM rows asked for
  logic [3:0] settle_q;     // cycles since the last slot
  offset_t dst, acc_read, dst_q, src_q, opd_q, dst_outer_q, src_outer_q, opd_outer_q;
  logic [15:0] param_q;
  logic tokens_ok, banks_ok, take, can_take, issue, issue_last, step;
  logic [31:0] bank_shift;
  logic illegal_q;  // the instruction has a wrong field: it only errs
  logic requant, uses_opd;
  // Whether a loop is in its last turn lies in a register, set when the turn before it ends; so
  // does whether a part is its slot's last one, and whether that slot ends an outer iteration.
  logic inner_last_q, inner_last_d, outer_last_q, inner_one_q, part_last_q, turns_q;
  logic reduces, holds, reads_acc, writes, turn, settled, late;
  logic shifts, lengthy, waits, settles_q, ends;  // waits: a part reads a result on its way
  logic [3:0] settle_until;  // of the last slot: it is in ACC then
  logic in_range, dst_ok, src_ok, opd_ok, bank_ok, param_ok, draining, in_flight, go, to_acc;

  assign head = tw_pkg::vector_t'(queue_i.entry.insn);
  assign tokens_ok = (queue_i.needs.pop & ~queue_i.tokens) == '0;
  assign banks_ok = (queue_i.needs.banks & acc_busy_i) == '0;
  assign requant = cur_q.op == tw_pkg::VecRequant;
  assign uses_opd = cur_q.operand == tw_pkg::OperandRes && slot_q == Work;
  assign reduces = sizes.row_unit != '0 && cur_q.reduce != tw_pkg::ReduceNone;
  assign holds = sizes.row_unit != '0 && cur_q.hold;
  assign reads_acc = slot_q == Fetch || (slot_q == Work && cur_q.op != tw_pkg::VecMov);
  assign writes = slot_q == Put || (slot_q == Work && !reduces);
  assign acc_read = slot_q == Fetch ? opd_q : src_q;
  assign dst = slot_q == Put ? dst_outer_q : dst_q;

  assign shifts = cur_q.op == tw_pkg::VecShr || (sizes.row_unit != '0 && cur_q.op == tw_pkg::VecExp2);
  assign lengthy = takes_long(cur_q.op);
  assign issue = (state_q == Run) && !halt_i && !illegal_q && !waits;
  assign step = issue && part_last_q;
  assign turn = step && turns_q;
  assign issue_last = turn && outer_last_q;
  // The last slot was issued in the cycle before settle_q is 0.
  assign settle_until = !reduces ? 4'(LongWrite) : 4'(PutWrite) + (lengthy ? 4'd2 : 4'd0);
  assign settled = (state_q == Settle) && (settle_q == settle_until - 4'd1);
  // Once: after an error settle_q counts on, round and round.
  assign late = (state_q == Settle) && !halt_i && reduces &&
                (settle_q == settle_until - 4'(Tail) - 4'd1);
  // What needs to settle does not wait here: whether it waits for a product decides late.
  assign ends = (state_q == Run) && part_last_q && turns_q && outer_last_q && !settles_q;
  assign can_take = ((state_q == Idle) || ends || settled) && !halt_i;
  assign take = can_take && queue_i.valid && tokens_ok && banks_ok && !acc_behind_i;

  // Checks of the current iteration.
  assign dst_ok = !writes || dst < offset_t'(requant ? sizes.out_depth : sizes.acc_depth);
  assign src_ok = !reads_acc || (acc_read < offset_t'(sizes.acc_depth));
  assign opd_ok = !uses_opd || (opd_q < offset_t'(sizes.res_depth));
  assign in_range = dst_ok && src_ok && opd_ok;
  assign bank_shift = sizes.acc_bank_shift;
  assign bank_ok = (!reads_acc || cur_q.acc_banks[2'(acc_read >> bank_shift)]) &&
                   (requant || !writes || cur_q.acc_banks[2'(dst >> bank_shift)]);
  assign param_ok = param_q < 16'(sizes.par_depth);
  assign go = issue && in_range && bank_ok;
  assign issue_o = go && part_last_q;

  // Also while a part waits, again and again.
  assign acc_read_o = (state_q == Run) && reads_acc && bank_ok;
  assign acc_read_addr_o = AccAddrBits'(acc_read);
  assign res_read_o = (state_q == Run) && uses_opd && opd_ok;
  assign res_addr_o = ResAddrBits'(opd_q);
  assign par_read_o = (state_q == Param) && param_ok &&
                      (row_q < (RowBits + 1)'(sizes.par_rows));
  assign par_addr_o = ParAddrBits'(32'(param_q) * ParRows + 32'(row_q));

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle: ;
      Drain: if (!draining) state_d = Param;
      Param: if (row_q == (RowBits + 1)'(sizes.par_rows)) state_d = Run;
      Run: begin
        if (issue_last) state_d = settles_q ? Settle : Idle;
        else if (step && inner_last_q && requant && cur_q.param_step) state_d = Drain;
      end
      Settle: if (settled) state_d = Idle;
      default: state_d = Idle;
    endcase
    if (take) state_d = head.op == tw_pkg::VecRequant ? Drain : Run;
  end

  // Behind a part, and behind the last part of a slot
  assign part_d = part_last_q ? '0 : part_q + 1'b1;
  always_comb begin
    slot_d = Work;
    inner_last_d = inner_last_q;
    if (turns_q) slot_d = holds ? Fetch : Work;
    else if (reduces && slot_q == Work && inner_last_q) slot_d = Put;
    if (slot_q == Work)
      inner_last_d = inner_last_q ? inner_one_q : inner_q + 16'd2 == cur_q.iter_inner;
  end

  always_ff @(posedge clk_i) begin
    row_q    <= (state_q == Param) ? row_q + 1'b1 : '0;
    settle_q <= (state_q == Settle) ? settle_q + 1'b1 : '0;
    // What may be taken is copied; the state says whether it was.
    if (can_take && queue_i.valid) begin
      cur_q       <= head;
      index_q     <= queue_i.entry.index;
      illegal_q   <= queue_i.needs.illegal;
      settles_q   <= takes_long(head.op) ||
                     (sizes.row_unit != '0 && head.reduce != tw_pkg::ReduceNone);
      slot_q      <= sizes.row_unit != '0 && head.hold ? Fetch : Work;
      part_q      <= '0;
      part_last_q <= (Parts == 1) || sizes.vector_parts == 32'd1;
      turns_q     <= head.iter_inner == 16'd1 &&
                     !(sizes.row_unit != '0 && (head.hold || head.reduce != tw_pkg::ReduceNone));
      inner_q     <= '0;
      outer_q     <= '0;
      inner_one_q  <= head.iter_inner == 16'd1;
      inner_last_q <= head.iter_inner == 16'd1;
      outer_last_q <= head.iter_outer == 16'd1;
      dst_q       <= offset_t'(head.dst_base);
      src_q       <= offset_t'(head.src_base);
      opd_q       <= offset_t'(head.opd_base);
      dst_outer_q <= offset_t'(head.dst_base);
      src_outer_q <= offset_t'(head.src_base);
      opd_outer_q <= offset_t'(head.opd_base);
      param_q     <= 16'(head.param_base);
    end else if (issue) begin
      part_q      <= part_d;
      part_last_q <= (Parts == 1) || part_d == PartBits'(sizes.vector_parts - 32'd1);
      if (step) begin
        slot_q       <= slot_d;
        inner_last_q <= inner_last_d;
        turns_q      <= slot_d == Work ? inner_last_d && !reduces : slot_d == Put;
        if (slot_q == Work) inner_q <= inner_last_q ? '0 : inner_q + 1'b1;
        if (turn) begin
          outer_q      <= outer_q + 1'b1;
          outer_last_q <= outer_q + 16'd2 == cur_q.iter_outer;
          dst_outer_q <= plus(dst_outer_q, cur_q.dst_outer);
          src_outer_q <= plus(src_outer_q, 18'(cur_q.src_outer));
          opd_outer_q <= plus(opd_outer_q, cur_q.opd_outer);
          dst_q       <= plus(dst_outer_q, cur_q.dst_outer);
          src_q       <= plus(src_outer_q, 18'(cur_q.src_outer));
          opd_q       <= plus(opd_outer_q, cur_q.opd_outer);
          if (cur_q.param_step && param_ok) param_q <= param_q + 1'b1;
        end else if (slot_q == Work) begin
          dst_q <= plus(dst_q, cur_q.dst_inner);
          src_q <= plus(src_q, 18'(cur_q.src_inner));
          opd_q <= plus(opd_q, cur_q.opd_inner);
        end
      end
    end
    if (rst_i) state_q <= Idle;
    else if (!halt_i) state_q <= state_d;
  end

  // ---------------------------------------------------------------------------------------
  // Parameter registers, written a row at a time one cycle after the read
  tw_pkg::param_t [BlockOut-1:0] param_regs_q;
  logic par_write_q;
  logic [RowBits-1:0] par_row_q;
  always_ff @(posedge clk_i) begin
    par_write_q <= par_read_o;
    par_row_q   <= RowBits'(row_q);
    if (par_write_q) begin
      for (int unsigned r = 0; r < ParRows; r++) begin
        if (par_row_q == RowBits'(r) || ParRows == 1) begin
          for (int unsigned c = 0; c < RowChannels; c++)
            param_regs_q[r*RowChannels+c] <= par_data_i[c*128+:128];
        end
      end
    end
  end

  // ---------------------------------------------------------------------------------------
  // Stages 1 on: what travels with a part, a field of all stages at once; [1] is the youngest.
  logic [Tail:1] valid_q, last_q, out_q, lookup_q;
  logic [LongWrite:1] long_q;  // it takes long
  logic [AccWrite:1] soon_q;    // ACC gets its result in that stage
  logic [LongWrite:1] later_q;  // in that one
  logic [Tail:1][3:0] push_q;
  logic [AccWrite:1][tw_pkg::AccBanks-1:0] banks_q;  // still locked
  logic [Tail:1][PartBits-1:0] part_line_q;
  logic [Tail:1][OutAddrBits-1:0] out_line_q;
  logic [LongWrite:1][AccAddrBits-1:0] dst_line_q;
  always_ff @(posedge clk_i) begin
    valid_q     <= rst_i ? '0 : {valid_q[Tail-1:1], go || late};
    last_q      <= {last_q[Tail-1:1], (issue_last && !reduces) || late};
    long_q  <= {long_q[LongWrite-1:1], lengthy};
    out_q       <= {out_q[Tail-1:1], requant};
    soon_q      <= rst_i ? '0 : {soon_q[AccWrite-1:1], to_acc && !lengthy};
    later_q     <= rst_i ? '0 : {later_q[LongWrite-1:1], to_acc && lengthy};
    lookup_q    <= {lookup_q[Tail-1:1], cur_q.lookup};
    push_q      <= {push_q[Tail-1:1], cur_q.push};
    part_line_q <= {part_line_q[Tail-1:1], part_q};
    out_line_q  <= {out_line_q[Tail-1:1], OutAddrBits'(dst_q)};
    dst_line_q  <= {dst_line_q[LongWrite-1:1], AccAddrBits'(dst_q)};
    banks_q     <= rst_i ? '0 : {banks_q[AccWrite-1:1], (go && !requant) ? cur_q.acc_banks : '0};
  end

  // Stage 1: select the part, take what is not in ACC yet, and the second operand.
  logic [3:0] op1_q, op2_q;
  logic opd1_q;
  logic signed [15:0] imm1_q;
  logic has_result, alu_write;  // stage 3: there is a result, it goes to ACC
  logic has_long_q, long_write;  // stage 5: the same of a long operation
  logic [Lanes*32-1:0] acc_part, acc2_q, fresh, result, older_q, product, shifted, outcome;
  logic [Lanes*8-1:0] res_part;

  always_ff @(posedge clk_i) begin
    op1_q  <= cur_q.op;
    opd1_q <= uses_opd;
    imm1_q <= requant ? '0 : cur_q.imm;
  end

  if (Parts == 1) begin : gen_whole
    assign acc_part = acc_read_data_i;
    assign res_part = res_data_i;
  end else begin : gen_part
    assign acc_part = acc_read_data_i[part_line_q[1]*Lanes*32+:Lanes*32];
    assign res_part = res_data_i[part_line_q[1]*Lanes*8+:Lanes*8];
  end

  // Which value a part needs is known when it is issued. The operation before it saturates while
  // the part is in stage 2, the one before that while it is in stage 1, and the result of the
  // third one, which is written when the part is issued, is then in `older_q`.
  logic first1_q, first2_q, second1_q, third1_q;
  logic [LongWrite:1] meets;  // by stage of the operation
  // The parts in stages 1 to 5 once more, inverted so that no tool merges the two lines: the other
  // one selects among all elements of a tile, and among the parameters.
  logic [LongWrite:1][PartBits-1:0] not_part_q;
  always_ff @(posedge clk_i) not_part_q <= {not_part_q[LongWrite-1:1], ~part_q};
  for (genvar s = 1; s <= LongWrite; s++) begin : gen_meets
    // A carry runs through bits that are all equal. Of `==` a mapper that has time to spare makes a
    // chain of small LUTs, and that a part waits is known last.
    logic [PartBits+AccAddrBits-1:0] unlike;
    logic [PartBits+AccAddrBits:0] unused;
    assign unlike = {not_part_q[s], dst_line_q[s]} ^ {~part_q, AccAddrBits'(acc_read)};
    assign {meets[s], unused} = {1'b0, ~unlike, 1'b1} + (PartBits + AccAddrBits + 2)'(1);
  end
  // Only parts of one instruction meet: the one behind it waits for the last.
  assign waits = reads_acc && lengthy && (meets & later_q) != '0;
  always_ff @(posedge clk_i) begin
    {third1_q, second1_q, first1_q} <= meets[AccWrite:1] & soon_q;
    if (valid_q[1]) begin
      first2_q <= first1_q;
      op2_q    <= op1_q;
      acc2_q   <= second1_q ? result : third1_q ? older_q : acc_part;
    end
  end

  // Stages 1 to 3 of the lanes.
  logic hold1_q;
  logic [2:1] fetch_q;
  always_ff @(posedge clk_i) begin
    hold1_q <= holds;
    fetch_q <= {fetch_q[1], go && slot_q == Fetch};
  end
  logic [Lanes-1:0][7:0] residual;
  logic [Lanes-1:0][MulBits-1:0] factor;
  for (genvar l = 0; l < Lanes; l++) begin : gen_lane
    tw_lane #(
        .Parts  (Parts),
        .RowUnit(Sizes.row_unit)
    ) u_lane (
        .clk_i,
        .valid1_i  (valid_q[1]),
        .part1_i   (part_line_q[1]),
        .hold_i    (hold1_q),
        .uses_res_i(opd1_q),
        .res_i     (res_part[l*8+:8]),
        .imm_i     (imm1_q),
        .acc_i     (acc2_q[l*32+:32]),
        .first_i   (first2_q),
        .work_i    (valid_q[2] && !out_q[2] && !long_q[2]),
        .shift_i   (valid_q[2] && long_q[2] && shifts),
        .op_i      (op2_q),
        .fetch_i   (fetch_q[2]),
        .part2_i   (part_line_q[2]),
        .fresh_o   (fresh[l*32+:32]),
        .residual_o(residual[l]),
        .factor_o  (factor[l]),
        .ends_i    (has_result),
        .result_o  (result[l*32+:32]),
        .shifted_o (shifted[l*32+:32])
    );
  end
  assign to_acc = go && !requant && slot_q == Work && !reduces;
  assign has_result = valid_q[AccWrite] && !out_q[AccWrite] && !long_q[AccWrite];
  assign alu_write = soon_q[AccWrite];
  assign long_write = later_q[LongWrite];
  assign outcome = !has_long_q ? result : shifts ? shifted : product;
  always_ff @(posedge clk_i) begin
    if (alu_write) older_q <= result;
    has_long_q <= valid_q[LongWrite-1] && !out_q[LongWrite-1] && long_q[LongWrite-1] && !rst_i;
  end

  // Reduced rows: results go to tw_reduce, what is put comes back in stage 10. No operation that
  // writes ACC itself is on its way then.
  logic [AccAddrBits-1:0] own_tile;
  logic [PartBits-1:0] own_part;
  assign own_tile = has_long_q ? dst_line_q[LongWrite] : dst_line_q[AccWrite];
  assign own_part = has_long_q ? part_line_q[LongWrite] : part_line_q[AccWrite];
  if (Sizes.row_unit != 0) begin : gen_reduce
    logic put_write;
    logic [AccAddrBits-1:0] put_tile;
    logic [PartBits-1:0] put_part;
    logic [Lanes*32-1:0] put_data;
    tw_reduce #(
        .Batch   (Batch),
        .BlockOut(BlockOut),
        .Lanes   (Lanes),
        .AccDepth(Sizes.acc_depth)
    ) u_reduce (
        .clk_i,
        .rst_i,
        .maximum_i(cur_q.reduce == tw_pkg::ReduceMax),
        .log_i    (cur_q.reduce == tw_pkg::ReduceLogSum),
        .late_i   (lengthy),
        .lanes_i  (cur_q.lanes),
        .work_i   (go && slot_q == Work && reduces),
        .put_i    (go && slot_q == Put),
        .first_i  (inner_q == '0),
        .last_i   (inner_last_q),
        .part_i   (part_q),
        .tile_i   (AccAddrBits'(dst)),
        .data_i   (outcome),
        .write_o  (put_write),
        .tile_o   (put_tile),
        .part_o   (put_part),
        .data_o   (put_data)
    );
    assign acc_write_o      = alu_write || long_write || put_write;
    assign acc_write_addr_o = put_write ? put_tile : own_tile;
    assign acc_write_part_o = put_write ? put_part : own_part;
    assign acc_write_data_o = put_write ? put_data : outcome;
  end else begin : gen_direct
    assign acc_write_o      = alu_write || long_write;
    assign acc_write_addr_o = own_tile;
    assign acc_write_part_o = own_part;
    assign acc_write_data_o = outcome;
    logic unused;
    assign unused = late;
  end

  // Requantise lanes: operands in stage 2, result in stage 9. The clip bounds are used in stage 8;
  // an instruction with other bounds issues its first part six cycles behind the last one at least.
  logic signed [7:0] low_q, high_q, low2_q, high2_q, low3_q, high3_q;
  always_ff @(posedge clk_i) begin
    if (state_q == Run && requant) begin
      low_q  <= cur_q.imm[7:0];
      high_q <= cur_q.imm[15:8];
    end
    {low3_q, high3_q, low2_q, high2_q} <= {low2_q, high2_q, low_q, high_q};
  end
  logic [Lanes*8-1:0] requantised;
  // The channel of an element; with fewer lanes than channels it depends on the part. The
  // parameters are used in two stages, and each takes those of its part's entry.
  tw_pkg::param_t [Lanes-1:0] param2, param5;
  for (genvar l = 0; l < Lanes; l++) begin : gen_param
    if (Lanes >= BlockOut) begin : gen_fixed
      assign param2[l] = param_regs_q[l%BlockOut];
      assign param5[l] = param2[l];
    end else begin : gen_moving
      localparam int unsigned Groups = BlockOut / Lanes;
      localparam int unsigned GroupBits = $clog2(Groups);
      tw_pkg::param_t [Groups-1:0] mine;
      for (genvar g = 0; g < Groups; g++) begin : gen_mine
        assign mine[g] = param_regs_q[g*Lanes+l];
      end
      assign param2[l] = mine[part_line_q[2][GroupBits-1:0]];
      assign param5[l] = mine[part_line_q[LastParam][GroupBits-1:0]];
    end
  end
  tw_requant #(
      .Lanes  (Lanes),
      .MulBits(MulBits)
  ) u_requant (
      .clk_i,
      .valid_i   (valid_q[2] && (out_q[2] || (long_q[2] && !shifts))),
      .multiply_i(!out_q[2]),
      .acc_i     (fresh),
      .factor_i  (factor),
      .residual_i(residual),
      .param1_i  (param2),
      .param4_i  (param5),
      .low_i     (low3_q),
      .high_i    (high3_q),
      .product_i (has_long_q && !shifts),
      .product_o (product),
      .out_o     (requantised)
  );

  assign out_write_o  = valid_q[Tail] && out_q[Tail];
  assign out_addr_o   = out_line_q[Tail];
  assign out_part_o   = part_line_q[Tail];
  assign out_data_o   = requantised;
  assign out_lookup_o = lookup_q[Tail];
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
  // Locks, errors, state
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

  // Banks are locked from the cycle after the take to the last access: a register, set from all
  // that holds them a cycle before. Work that ends in that cycle leaves what it writes.
  logic [tw_pkg::AccBanks-1:0] lock_q, lock_d;
  always_comb begin
    lock_d = take ? queue_i.needs.banks : '0;
    lock_d |= state_q != Idle && !settled && !ends ? cur_q.acc_banks : '0;
    lock_d |= go && !requant ? cur_q.acc_banks : '0;
    for (int unsigned s = 1; s < AccWrite; s++) lock_d |= banks_q[s];
  end
  always_ff @(posedge clk_i) lock_q <= rst_i ? '0 : lock_d;
  assign acc_lock_o = lock_q;
  assign in_flight = |valid_q;
  assign draining = |valid_q[Drained-1:1];
  assign idle = (state_q == Idle) && !in_flight;

  assign error.valid = !halt_i && ((state_q != Idle && illegal_q) ||
                                   (issue && !(in_range && bank_ok)) ||
                                   ((state_q == Param) && !param_ok));
  assign error.code = illegal_q ? tw_pkg::ErrIllegalField :
                      state_q == Run && in_range ? tw_pkg::ErrAccBank : tw_pkg::ErrSramRange;
  assign error.index = index_q;

  always_comb begin
    if (state_q != Idle) state = tw_pkg::WaitBusy;
    else if (queue_i.valid && !tokens_ok) begin
      state = tw_pkg::token_wait(tw_pkg::UnitVector, queue_i.needs.pop, queue_i.tokens);
    end else if (queue_i.valid && (!banks_ok || acc_behind_i)) state = tw_pkg::WaitMemory;
    else if (in_flight || queue_i.valid) state = tw_pkg::WaitBusy;
    else state = tw_pkg::WaitIdle;
  end

  logic unused;
  assign unused = ^{head, cur_q};
endmodule
