// SPDX-License-Identifier: Apache-2.0
// Properties of tw_fetch: it asks for the program's beats in order and for nothing behind its end,
// hands every instruction to its own unit once and in order, to no full queue and to none behind
// FINISH, and leaves the bus idle when the program has finished. FINISH retires in the cycle after all
// was idle, nothing was dispatched and nothing was asked for, and in no other.
module formal_fetch #(
    parameter int unsigned BeatBytes = 32,  // of a beat: an instruction, or part of one
    parameter int unsigned BurstBeats = 2   // longest burst
) (
    input logic                        clk_i,
    input logic                        rst_i,
    input logic                        start_i,
    input logic                        halt_i,
    input logic [                27:0] page_i,        // of the program
    input logic [                31:0] insn_count_i,
    input logic                        refuse_i,
    input logic                        req_ready_i,
    input logic                        beat_valid_i,
    input logic [BeatBytes*8-1:0]      beat_data_i,
    input logic [                 3:0] full_i,
    input logic                        others_idle_i, // all but the bus
    input logic [                31:0] watched_i      // instruction whose bits are followed
);
  localparam int unsigned Beats = 32 / BeatBytes;  // of an instruction
  localparam int unsigned Chunk = BurstBeats < 128 / BeatBytes ? BurstBeats : 128 / BeatBytes;

  logic req_valid, finish, all_idle, started_q;
  logic [39:0] req_addr, base_q;
  logic [7:0] req_len;
  logic [3:0] push;
  tw_pkg::entry_t entry;
  tw_pkg::index_t bus_index;
  tw_pkg::error_t error;
  logic [31:0] count_q, watched_q;
  logic refuse_q, running_q;

  // Beats that were asked for and have not come, beats asked for and beats that came.
  logic [31:0] asked_q, came_q, pushed_q;
  logic [31:0] flying, whole;
  assign flying   = asked_q - came_q;
  assign whole    = came_q / Beats;  // instructions that came
  assign all_idle = others_idle_i && flying == '0;

  tw_fetch #(
      .BeatBytes (BeatBytes),
      .BurstBeats(BurstBeats)
  ) dut (
      .clk_i,
      .rst_i,
      .start_i,
      .halt_i,
      .insn_base_i  (base_q),
      .insn_count_i (count_q),
      .refuse_i     (refuse_q),
      .req_valid_o  (req_valid),
      .req_ready_i,
      .req_addr_o   (req_addr),
      .req_len_o    (req_len),
      .beat_valid_i,
      .beat_data_i,
      .push_o       (push),
      .entry_o      (entry),
      .full_i,
      .all_idle_i   (all_idle),
      .finish_o     (finish),
      .error_o      (error),
      .bus_index_o  (bus_index)
  );

  logic [Beats-1:0][BeatBytes*8-1:0] seen_q;  // the watched instruction, as it came
  logic fire, finished_q, was_reset_q, broken_q;
  logic quiet_q;  // in the cycle before all was idle, and this unit did nothing
  logic [3:0] opcode;
  assign fire = req_valid && req_ready_i;
  assign opcode = entry.insn[3:0];

  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q   <= 1'b1;
    was_reset_q <= rst_i;
    quiet_q     <= all_idle && push == '0 && !req_valid;
    if (!started_q || rst_i) begin
      base_q    <= {page_i, 12'd0};
      count_q   <= insn_count_i;
      refuse_q  <= refuse_i;
      watched_q <= watched_i;
    end
    if (rst_i) begin
      {asked_q, came_q, pushed_q} <= '0;
      {running_q, finished_q, broken_q} <= '0;
    end else begin
      if (start_i) running_q <= 1'b1;
      else if (finish) running_q <= 1'b0;
      if (finish) finished_q <= 1'b1;
      if (error.valid) broken_q <= 1'b1;
      if (fire) asked_q <= asked_q + 32'(req_len) + 32'd1;
      if (beat_valid_i) came_q <= came_q + 32'd1;
      if (push != '0) pushed_q <= pushed_q + 32'd1;
    end
    if (beat_valid_i && whole == watched_q) seen_q[came_q%Beats] <= beat_data_i;
  end

  always_comb begin
    if (!started_q) assume (rst_i);
    else begin
      // A run starts after a reset of the unit, once; settings fit into the memory (tw_settings).
      assume (!start_i || was_reset_q);
      assume (!beat_valid_i || flying != '0);
      assume (refuse_q || 41'(base_q) + (41'(count_q) << 5) <= {1'b1, 40'd0});
      assume (!broken_q || halt_i);  // tw_control
      // Requests: whole bursts, one behind the other, from the start of the program to its end.
      if (req_valid) begin
        assert (running_q && !refuse_q);
        assert (req_len == 8'(Chunk - 1));
        assert (req_addr == base_q + 40'(asked_q) * 40'(BeatBytes));
        assert (41'(req_addr) < 41'(base_q) + (41'(count_q) << 5));
        assert (req_addr[11:0] + 12'(Chunk * BeatBytes - 1) >= req_addr[11:0]);
      end
      // Nothing is asked for while FINISH is next.
      if (dut.insn_valid) assert (pushed_q < whole);
      if (Beats == 1 && pushed_q < whole) assert (dut.insn_valid);
      if (dut.insn_valid && opcode == tw_pkg::OpFinish) assert (!req_valid);
      // The beats that were asked for have a place.
      assert (32'(dut.beats) + flying <= 32'(1024 / BeatBytes));
      if (beat_valid_i) assert (!dut.unused_full);
      // Dispatch.
      assert ((push & (push - 4'd1)) == '0);
      assert ((push & full_i) == '0);
      assert (!(finish && (push != '0)) && !(error.valid && (push != '0 || finish)));
      if (push != '0 || finish) begin
        assert (running_q && !halt_i && !refuse_q && !finished_q);
        assert (entry.index == pushed_q && pushed_q < count_q && pushed_q < whole);
        if (pushed_q == watched_q) assert (entry.insn == seen_q);
      end
      if (push != '0) assert (push == 4'd1 << (opcode - 4'd1));
      if (finish) assert (opcode == tw_pkg::OpFinish && flying == '0);
      assert (finish == (running_q && !halt_i && !refuse_q && dut.at_finish && pushed_q != count_q &&
                         quiet_q));
      // Finished: nothing is in flight, nothing is asked for.
      if (finished_q) assert (flying == '0 && !req_valid && push == '0 && !finish);
      // Errors name what is wrong.
      if (error.valid && error.code == tw_pkg::ErrNoFinish)
        assert (pushed_q == count_q && entry.index == count_q);
      if (error.valid && error.code == tw_pkg::ErrIllegalOpcode)
        assert (entry.index == pushed_q && (opcode == '0 || opcode > 4'(tw_pkg::OpFinish)));
      if (beat_valid_i && !halt_i) assert (bus_index == whole);
      // What makes it inductive, but for the contents of the queue.
      cover (finish && pushed_q == 32'd2);
      cover (error.valid && error.code == tw_pkg::ErrNoFinish && pushed_q == 32'd2);
      cover (push[3] && pushed_q == 32'd3 && flying != '0);
      cover (req_valid && opcode == tw_pkg::OpLoad && full_i[0] && 32'(dut.beats) == 32'd4);
      cover (rst_i && flying > 32'd2 && push != '0);
      cover (running_q && !req_valid && dut.at_finish && flying != '0);
    end
  end
endmodule
