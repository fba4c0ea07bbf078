// SPDX-License-Identifier: Apache-2.0
// Prefetches the instruction stream and hands each instruction to its unit's queue, in order.
// FINISH ends the program, whatever follows it: from the cycle in which it is next, nothing more is
// asked for. It retires a cycle after all was idle, nothing was dispatched and nothing asked for.
module tw_fetch #(
    parameter int unsigned BeatBytes  = 8,  // bytes of an AXI beat
    parameter int unsigned BurstBeats = 16  // longest burst
) (
    input  logic                         clk_i,
    input  logic                         rst_i,
    input  logic                         start_i,        // begin a program
    input  logic                         halt_i,
    input  logic [                 39:0] insn_base_i,    // offset of the program, 4 KiB aligned
    input  logic [                 31:0] insn_count_i,
    input  logic                         refuse_i,       // the settings are wrong: run nothing
    // read engine
    output logic                         req_valid_o,
    input  logic                         req_ready_i,
    output logic [                 39:0] req_addr_o,
    output logic [                  7:0] req_len_o,
    input  logic                         beat_valid_i,
    input  logic [      BeatBytes*8-1:0] beat_data_i,
    // dispatch
    output logic [                  3:0] push_o,         // by unit
    output tw_pkg::entry_t               entry_o,
    input  logic [                  3:0] full_i,
    // end of program
    input  logic                         all_idle_i,     // queues empty, units and the bus idle
    output logic                         finish_o,       // FINISH retires
    // errors
    output tw_pkg::error_t               error_o,
    output tw_pkg::index_t               bus_index_o     // (first) instruction in the beat that comes
);
  localparam int unsigned InsnBytes = tw_pkg::InsnBits / 8;
  // A fetch burst: up to 4 instructions, limited by the longest burst; a power of two of bytes,
  // and the program is 4 KiB aligned, so it never crosses 4 KiB.
  localparam int unsigned LongestBeats = 128 / BeatBytes;
  localparam int unsigned FifoBeats = 1024 / BeatBytes;
  localparam int unsigned CountBits = $clog2(FifoBeats) + 1;

  localparam tw_pkg::sizes_t Elaborated = '{burst_beats: BurstBeats, default: '0};
  tw_pkg::sizes_t sizes;
  tw_sizes #(
      .Elaborated(Elaborated)
  ) u_sizes (
      .sizes_o(sizes)
  );

  logic [31:0] burst_beats, chunk_beats;
  assign burst_beats = sizes.burst_beats;
  assign chunk_beats = burst_beats < LongestBeats ? burst_beats : LongestBeats;

  logic active_q;
  logic [39:0] fetch_q, next_q, end_q;       // byte to ask for, the one behind its burst, the program's end
  logic more_q;                              // fetch_q is before end_q
  logic [CountBits-1:0] reserved_q;          // beats asked for that are still in the FIFO or in flight
  logic room_q;                              // one more burst fits beside them
  logic [31:0] left_q;                       // instructions left to dispatch
  logic none_q;                              // none
  logic idle_q;                              // in the cycle before all was idle, and so was this unit
  tw_pkg::index_t index_q;
  logic [BeatBytes*8-1:0] beat;
  logic beat_valid, beat_pop, unused_full;
  logic [CountBits-1:0] beats;  // in the FIFO
  logic insn_valid, insn_pop;
  logic [tw_pkg::InsnBits-1:0] insn;
  tw_pkg::header_t header;
  logic req_fire, at_finish;

  assign req_valid_o = active_q && !refuse_i && !at_finish && more_q && room_q;
  assign req_addr_o = fetch_q;
  assign req_len_o = 8'(chunk_beats - 32'd1);
  assign req_fire = req_valid_o && req_ready_i;

  tw_fifo #(
      .Width(BeatBytes * 8),
      .Depth(FifoBeats)
  ) u_beats (
      .clk_i,
      .rst_i,
      .push_i (beat_valid_i),
      .data_i (beat_data_i),
      .pop_i  (beat_pop),
      .data_o (beat),
      .valid_o(beat_valid),
      .full_o (unused_full),
      .count_o(beats)
  );


  if (BeatBytes < InsnBytes) begin : gen_gather
    localparam int unsigned Beats = InsnBytes / BeatBytes;
    logic [tw_pkg::InsnBits-1:0] word_q;
    logic [$clog2(Beats):0] have_q;
    logic whole_q, finish_q;  // there is a whole one; it is FINISH
    logic [tw_pkg::InsnBits-1:0] word_d;
    logic [3:0] opcode_d;
    assign word_d = {beat, word_q[tw_pkg::InsnBits-1:BeatBytes*8]};
    assign opcode_d = word_d[3:0];
    assign insn_valid = whole_q;
    assign at_finish = finish_q;
    assign insn = word_q;
    assign beat_pop = beat_valid && (!insn_valid || insn_pop);
    assign bus_index_o = index_q + 32'((32'(beats) + 32'(have_q)) >> $clog2(Beats));
    always_ff @(posedge clk_i) begin
      if (beat_pop) word_q <= word_d;
      if (rst_i || insn_pop) {whole_q, finish_q} <= '0;
      else if (beat_pop && have_q == ($clog2(Beats) + 1)'(Beats - 1))
        {whole_q, finish_q} <= {1'b1, opcode_d == tw_pkg::OpFinish};
      if (rst_i) have_q <= '0;
      else if (insn_pop) have_q <= ($clog2(Beats) + 1)'(beat_pop);
      else if (beat_pop) have_q <= have_q + 1'b1;
    end
  end else if (BeatBytes == InsnBytes) begin : gen_direct
    assign insn_valid = beat_valid;
    assign insn = beat;
    assign at_finish = insn_valid && header.opcode == tw_pkg::OpFinish;
    assign beat_pop = insn_pop;
    assign bus_index_o = index_q + 32'(beats);
  end else begin : gen_split
    localparam int unsigned Parts = BeatBytes / InsnBytes;
    logic [$clog2(Parts)-1:0] part_q;
    assign insn_valid = beat_valid;
    assign insn = beat[part_q*tw_pkg::InsnBits+:tw_pkg::InsnBits];
    assign at_finish = insn_valid && header.opcode == tw_pkg::OpFinish;
    assign beat_pop = insn_pop && (&part_q);
    assign bus_index_o = index_q + 32'(beats) * Parts - 32'(part_q);
    always_ff @(posedge clk_i) begin
      if (rst_i) part_q <= '0;
      else if (insn_pop) part_q <= part_q + 1'b1;
    end
  end

  assign header  = tw_pkg::header_t'(insn);
  assign entry_o = '{insn: insn, index: index_q};

  always_comb begin
    push_o        = '0;
    insn_pop      = 1'b0;
    finish_o      = 1'b0;
    error_o       = '{valid: 1'b0, code: tw_pkg::ErrNone, index: index_q};
    if (active_q && !halt_i) begin
      if (refuse_i) begin
        error_o.valid = 1'b1;
        error_o.code  = tw_pkg::ErrSettings;
      end else if (none_q) begin
        error_o.valid = 1'b1;
        error_o.code  = tw_pkg::ErrNoFinish;
      end else if (insn_valid) begin
        unique case (header.opcode)
          tw_pkg::OpLoad: push_o[tw_pkg::UnitLoad] = !full_i[tw_pkg::UnitLoad];
          tw_pkg::OpGemm: push_o[tw_pkg::UnitGemm] = !full_i[tw_pkg::UnitGemm];
          tw_pkg::OpVector: push_o[tw_pkg::UnitVector] = !full_i[tw_pkg::UnitVector];
          tw_pkg::OpStore: push_o[tw_pkg::UnitStore] = !full_i[tw_pkg::UnitStore];
          tw_pkg::OpFinish: finish_o = idle_q;
          default: begin
            error_o.valid = 1'b1;
            error_o.code  = tw_pkg::ErrIllegalOpcode;
          end
        endcase
        insn_pop = |push_o;
      end
    end
  end

  // Up to `most` reserved beats leave room for a burst, up to `less` for two. That a beat leaves,
  // or a burst is asked for, is known late and joins comparisons that are done.
  logic [CountBits-1:0] chunk, most, less;
  logic room, room_left;  // without a request, and with one
  assign chunk = CountBits'(chunk_beats);
  assign most  = CountBits'(FifoBeats - chunk_beats);
  assign less  = CountBits'(FifoBeats - 2 * chunk_beats);
  assign room  = reserved_q <= most || (beat_pop && reserved_q == most + 1'b1);
  assign room_left = reserved_q <= less || (beat_pop && reserved_q == less + 1'b1);

  always_ff @(posedge clk_i) begin
    idle_q <= all_idle_i && push_o == '0 && !req_valid_o;
    if (req_fire) begin
      fetch_q <= next_q;
      next_q  <= next_q + 40'(chunk_beats * BeatBytes);
      more_q  <= next_q < end_q;
    end
    if (insn_pop) begin
      left_q  <= left_q - 1'b1;
      none_q  <= left_q == 32'd1;
      index_q <= index_q + 1'b1;
    end
    if (start_i) begin
      fetch_q <= insn_base_i;
      next_q  <= insn_base_i + 40'(chunk_beats * BeatBytes);
      end_q   <= insn_base_i + (40'(insn_count_i) * 40'(InsnBytes));
      more_q  <= insn_count_i != '0;
      left_q  <= insn_count_i;
      none_q  <= insn_count_i == '0;
      index_q <= '0;
    end
    if (rst_i) begin
      active_q   <= 1'b0;
      reserved_q <= '0;
      room_q     <= 1'b1;
    end else begin
      if (start_i) active_q <= 1'b1;
      else if (finish_o) active_q <= 1'b0;
      reserved_q <= reserved_q + (req_fire ? (beat_pop ? chunk - 1'b1 : chunk) :
                                  {CountBits{beat_pop}});
      room_q     <= req_fire ? room_left : room;
    end
  end

  logic unused;
  assign unused = ^{header.spare, header.pop, header.push, header.acc_banks};
endmodule
