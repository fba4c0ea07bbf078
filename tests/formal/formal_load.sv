// SPDX-License-Identifier: Apache-2.0
// Properties of tw_load for LOADs of at most two rows: it asks for nothing but beats of rows that a
// LOAD declares, writes no tile behind the end of a scratchpad, and retires LOADs in
// order, each once and after the data that it asked for. It takes an ACC load with its banks locked in
// the cycle before, and a wrong one errs in the cycle after its take.
module formal_load #(
    parameter int unsigned BeatBytes = 8,  // of a beat
    parameter int unsigned BurstBeats = 2,  // longest burst
    parameter int unsigned Int4 = 0  // 1: with weights of 4 bits; 2: that have scales
) (
    input logic                        clk_i,
    input logic                        rst_i,
    input logic                        halt_i,
    input logic                        insn_valid_i,
    input logic [tw_pkg::InsnBits-1:0] insn_i,
    input logic [                 3:0] token_i,
    input logic [tw_pkg::AccBanks-1:0] acc_busy_i,
    input logic                        req_ready_i,
    input logic                        beat_valid_i,
    input logic [     BeatBytes*8-1:0] beat_data_i
);
  localparam int unsigned BeatShift = $clog2(BeatBytes);
  localparam tw_pkg::sizes_t Sizes = '{
      inp_shift: 2, wgt_shift: 6, acc_shift: 4, par_shift: 7, out_shift: 2, diag_shift: 3,
      inp_depth: 16, wgt_depth: 4, acc_depth: 8, uop_depth: 8, par_depth: 2, res_depth: 8,
      table_depth: 4, int4_weights: Int4, acc_bank_shift: 1, default: '0
  };
  // Bytes, as a power of two, and number of the tiles of INP, WGT, ACC, UOP, PARAM, RES and TABLE.
  localparam logic [7:0][3:0] Shift = '{0: 4'd2, 1: 4'd6, 2: 4'd4, 3: 4'd3, 4: 4'd7, 5: 4'd2,
                                        7: 4'(BeatShift), default: 4'd0};
  localparam logic [7:0][19:0] Depth = '{0: 20'd16, 1: 20'd4, 2: 20'd8, 3: 20'd8, 4: 20'd2,
                                         5: 20'd8, 7: 20'd4, default: 20'd0};

  tw_pkg::needs_t [3:0] needs;
  tw_predecode #(
      .BeatBytes(BeatBytes),
      .Sizes    (Sizes)
  ) u_predecode (
      .insn_i,
      .needs_o(needs)
  );

  logic req_valid;
  logic [tw_pkg::AccBanks-1:0] acc_lock;
  logic [39:0] req_addr;
  logic [7:0] req_len;
  logic [7:0] write_mem;
  tw_pkg::spad_write_t write_at;
  logic [BeatBytes*8-1:0] write_data;
  tw_pkg::queue_t queue;
  tw_pkg::unit_t unit;
  tw_pkg::index_t issue_index;
  logic started_q, broken_q, halt_q;
  tw_pkg::needs_t needs_q;          // of the head in the cycle before
  logic [tw_pkg::InsnBits-1:0] insn_q;
  logic took_q;                     // and whether it was taken
  logic [7:0] popped_q, retired_q;  // LOADs
  logic [7:0] asked_q, came_q;      // beats
  logic [7:0] asked_by_q[16];       // beats that were asked for when a LOAD was taken, by LOAD

  tw_load #(
      .Config('{axi_data_bits: 8 * BeatBytes, axi_burst_beats: BurstBeats, default: '0}),
      .Sizes (Sizes)
  ) dut (
      .clk_i,
      .rst_i,
      .halt_i,
      .queue_i       (queue),
      .unit_o        (unit),
      .acc_busy_i,
      .acc_lock_o    (acc_lock),
      .req_valid_o   (req_valid),
      .req_ready_i,
      .req_addr_o    (req_addr),
      .req_len_o     (req_len),
      .beat_valid_i,
      .beat_data_i,
      .write_mem_o   (write_mem),
      .write_at_o    (write_at),
      .write_data_o  (write_data),
      .issue_index_o (issue_index)
  );

  // The LOAD that asks for data, its two rows, and the memory that is written.
  tw_pkg::load_t head, cur_q;
  logic [3:0] shift;
  logic scaled;
  logic [40:0] row[2], row_end[2];
  logic [40-BeatShift:0] first_beat, last_beat;
  logic [1:0] in_row;  // the burst on offer lies in it
  logic [19:0] last_tile;
  assign head = tw_pkg::load_t'(insn_i);
  assign queue = '{
      entry: '{insn: insn_i, index: 32'(popped_q)}, needs: needs[tw_pkg::UnitLoad],
      valid: insn_valid_i, tokens: token_i
  };
  assign shift = cur_q.diagonal ? 4'd3 : Shift[cur_q.memory] - 4'(cur_q.int4);
  assign row[0] = 41'(cur_q.dram_offset);
  assign scaled = Int4 > 1 && cur_q.int4;  // a beat of scales in each tile
  assign row[1] = 41'(cur_q.dram_offset) + (41'(cur_q.y_stride) << shift) +
                  (scaled ? 41'(cur_q.y_stride) << BeatShift : '0);
  assign first_beat = {1'b0, req_addr[39:BeatShift]};
  assign last_beat = first_beat + (41 - BeatShift)'(req_len);
  for (genvar r = 0; r < 2; r++) begin : gen_row
    assign row_end[r] = row[r] + (41'(cur_q.x_size) << shift) +
                        (scaled ? 41'(cur_q.x_size) << BeatShift : '0) - 41'd1;  // last byte
    assign in_row[r] = (r == 0 || cur_q.y_size == 16'd2) &&
                       first_beat >= row[r][40:BeatShift] && last_beat <= row_end[r][40:BeatShift];
  end
  assign last_tile = 20'(write_at.tile) + 20'(write_at.count) - 20'd1;

  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    halt_q <= halt_i;
    needs_q <= needs[tw_pkg::UnitLoad];
    insn_q <= insn_i;
    took_q <= unit.take && !rst_i;
    if (unit.take) cur_q <= head;
    if (unit.take) asked_by_q[popped_q[3:0]] <= asked_q;
    if (rst_i) begin
      {popped_q, retired_q, asked_q, came_q} <= '0;
      broken_q <= 1'b0;
    end else begin
      if (unit.take) popped_q <= popped_q + 8'd1;
      if (unit.retire) retired_q <= retired_q + 8'd1;
      if (req_valid && req_ready_i) asked_q <= asked_q + req_len + 8'd1;
      if (beat_valid_i) came_q <= came_q + 8'd1;
      if (unit.error.valid || halt_i) broken_q <= 1'b1;
    end
  end

  always_comb begin
    if (!started_q) assume (rst_i);
    else begin
      assume (!beat_valid_i || came_q != asked_q);
      assume (!broken_q || halt_i);      // tw_control: from an error to the reset
      // tw_read: a unit that errs stops itself, and the bus a cycle later.
      assume (!req_ready_i || !halt_i || !halt_q);
      if (insn_valid_i) begin
        assume (head.x_size < 16'd8 && head.y_size <= 16'd2 && head.z_size == 16'd1);
        assume (head.pad_left < 6'd4 && head.pad_right < 6'd4);
        assume (head.pad_top < 6'd4 && head.pad_bottom < 6'd4);
        assume (!head.dram_offset[39]);  // the memory ends below 2^39 (tw_settings)
      end
      if (!halt_i) begin
        // Whole beats of one row, and the LOAD that they are for is the one taken last.
        if (req_valid) begin
          assert (in_row != '0);
          assert (req_len < 8'(BurstBeats) && req_addr[BeatShift-1:0] == '0);
          assert (32'(popped_q) == issue_index + 32'd1);
        end
        // In order, once, and with what was asked for.
        if (unit.retire) begin
          assert (unit.retire_index == 32'(retired_q) && retired_q < popped_q);
          if (8'(retired_q + 8'd1) == popped_q) assert (came_q + 8'(beat_valid_i) == asked_q);
          else assert (came_q + 8'(beat_valid_i) >= asked_by_q[4'(retired_q + 8'd1)]);
        end
        if (unit.idle) assert (popped_q == retired_q && came_q == asked_q);
      end
      // Banks of ACC: locked a cycle before the take, by no other unit, and on.
      if (unit.take && insn_i == insn_q) begin
        assert ((needs_q.banks & ~acc_lock) == '0 && (needs_q.banks & acc_busy_i) == '0);
      end
      if (took_q) assert ((needs_q.banks & ~acc_lock) == '0);
      // A wrong LOAD errs in the cycle after its take, and no other.
      if (took_q && (needs_q.illegal || needs_q.unaligned) && !halt_i) assert (unit.error.valid);
      if (unit.error.valid && (unit.error.code == tw_pkg::ErrIllegalField ||
                               unit.error.code == tw_pkg::ErrDramAlignment)) begin
        assert (took_q && unit.error.index + 32'd1 == 32'(popped_q));
        assert (unit.error.code == tw_pkg::ErrIllegalField ? needs_q.illegal : needs_q.unaligned);
      end
      // Nothing behind the end of a scratchpad, and one of them at a time.
      assert ((write_mem & (write_mem - 8'd1)) == '0 && !write_mem[tw_pkg::MemOut]);
      for (int unsigned m = 0; m < 8; m++) begin
        if (write_mem[m]) assert (last_tile < Depth[m] && write_at.count != '0);
      end
      cover (unit.retire && unit.retire_index == 32'd1 && came_q == 8'd3 && !halt_i);
      cover (write_mem[tw_pkg::MemInp] && last_tile == Depth[0] - 20'd1 && write_at.count == 5'd2);
      cover (write_mem[tw_pkg::MemTable] && last_tile == Depth[7] - 20'd1);
      cover (write_mem[tw_pkg::MemWgt] && write_at.diagonal && !halt_i);
      cover (unit.take && needs_q.banks == 4'b1010 && acc_busy_i == 4'b0101);
      if (Int4 != 0) cover (write_mem[tw_pkg::MemWgt] && write_at.int4 && !halt_i);
      if (Int4 > 1) cover (write_mem[tw_pkg::MemWgt] && write_at.scale == 4'd9 && !halt_i);
      cover (req_valid && in_row == 2'b10 && !halt_i && popped_q == 8'd1);
      cover (unit.error.valid && unit.error.code == tw_pkg::ErrSramRange && write_at.pad);
      cover (popped_q == 8'd2 && retired_q == 8'd0 && asked_q != came_q && req_valid && !halt_i);
    end
  end
endmodule
