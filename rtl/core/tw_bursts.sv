// SPDX-License-Identifier: Apache-2.0
// Cuts the rows of a strided region into AXI bursts: whole beats, never across 4 KiB.
//
// Two stages: `next` holds where the coming burst starts and how long it may be, the offered burst
// lies in registers of its own. While a burst waits for its grant the one after it is ready to
// follow, across rows too, so that a burst can be taken every cycle; only after a first row of a
// single burst one cycle passes. The first burst is offered two cycles after start_i. Between the
// two lies a spare place: whether `next` moves on does not depend on ready_i, which comes late.
module tw_bursts #(
    parameter int unsigned BeatBytes  = 8,  // bytes of an AXI beat
    parameter int unsigned BurstBeats = 16  // longest burst, a power of two, at most 4 KiB
) (
    input  logic        clk_i,
    input  logic        rst_i,
    input  logic        start_i,      // load a region; the fields below are held until done_o
    input  logic [39:0] mem_size_i,   // bytes that may be accessed, whole beats
    input  logic [39:0] base_i,       // byte address of the first row
    input  logic [39:0] y_step_i,     // bytes
    input  logic [39:0] z_step_i,     // bytes
    input  logic [27:0] row_bytes_i,  // bytes in a row, at least 1
    input  logic [15:0] y_size_i,     // at least 1
    input  logic [15:0] z_size_i,     // at least 1
    output logic        valid_o,      // a burst is offered
    input  logic        ready_i,      // and taken
    output logic [39:0] addr_o,       // byte address of the burst, aligned to a beat
    output logic [ 7:0] len_o,        // beats minus 1
    output logic        inside_o,     // the burst is within mem_size_i
    output logic        last_o,       // last burst of the region
    output logic        done_o        // nothing more to offer
);
  localparam int unsigned BeatShift = $clog2(BeatBytes);
  localparam int unsigned BeatBits = 40 - BeatShift;
  localparam int unsigned PageBits = $clog2(4096 / BeatBytes);

  localparam tw_pkg::sizes_t Elaborated = '{burst_beats: BurstBeats, default: '0};
  tw_pkg::sizes_t sizes;
  tw_sizes #(
      .Elaborated(Elaborated)
  ) u_sizes (
      .sizes_o(sizes)
  );

  typedef logic [BeatBits-1:0] beat_t;  // address in beats
  typedef logic [PageBits-1:0] page_t;  // the same within 4 KiB
  // Bursts of the longest length that start in the last `BurstBeats` beats of a page end with it.
  page_t offsets;
  logic [7:0] longest;
  assign offsets = page_t'(sizes.burst_beats - 32'd1);
  assign longest = 8'(sizes.burst_beats - 32'd1);

  // ---------------------------------------------------------------------------------------
  // Rows: the first one comes with start_i, the others from the walker
  logic [39:0] walk_addr, row_addr, unused_after;
  logic walk_last, unused_last_y, row_next, row_load, row_last;
  logic rows_q;  // the walker holds a row that `next` has not had
  logic skip_q;  // the walker holds the first row, which `next` had from start_i
  beat_t row_beat;
  logic signed [BeatShift:0] row_start;  // bytes of the row's first beat before the row, minus 1
  logic [28:0] row_end;                  // last byte of the row, counted from its first beat

  tw_rows #(
      .AddrBits(40)
  ) u_rows (
      .clk_i,
      .start_i,
      .base_i,
      .y_step_i,
      .z_step_i,
      .y_size_i,
      .y_again_i(y_size_i),
      .z_size_i,
      .next_i  (row_next),
      .addr_o  (walk_addr),
      .after_o (unused_after),
      .last_y_o(unused_last_y),
      .last_o  (walk_last)
  );

  assign row_addr = start_i ? base_i : walk_addr;
  assign row_last = start_i ? (y_size_i <= 16'd1) && (z_size_i <= 16'd1) : walk_last;
  assign row_beat = row_addr[39:BeatShift];
  assign row_start = $signed({1'b0, row_addr[BeatShift-1:0]}) - (BeatShift + 1)'(1);
  assign row_end = {1'b0, row_bytes_i} + 29'(row_start);

  // ---------------------------------------------------------------------------------------
  // The next burst: beats left in its row, and beats up to the longest length or 4 KiB
  logic next_valid_q, next_last_q, next_ends, advance;
  beat_t next_beat_q, mem_beats;
  logic [27:0] left_q;  // beats left in the row, minus 1
  logic [7:0] room_q;   // beats that a burst from here may have, minus 1
  logic signed [BeatBits:0] until_q;  // beats from here to the end of the memory

  // A burst within the last `BurstBeats` beats of a page reaches its end, others are full.
  function automatic logic [7:0] room_of(page_t first, page_t last_start);
    return (first | offsets) == last_start ? ~8'(first) & longest : longest;
  endfunction

  assign next_ends = left_q <= 28'(room_q);  // the row ends with this burst
  assign row_load = rows_q && !skip_q && (!next_valid_q || (advance && next_ends));
  assign mem_beats = mem_size_i[39:BeatShift];
  assign row_next = skip_q || row_load;

  always_ff @(posedge clk_i) begin
    if (start_i || row_load) begin
      next_beat_q <= row_beat;
      next_last_q <= row_last;
      left_q      <= 28'(row_end >> BeatShift);
      room_q      <= room_of(row_beat[PageBits-1:0], '1);
      until_q     <= $signed({1'b0, mem_beats}) - $signed({1'b0, row_beat});
    end else if (advance) begin
      next_beat_q <= next_beat_q + beat_t'(room_q) + beat_t'(1);
      left_q      <= left_q + ~28'(room_q);  // less room_q + 1
      until_q     <= until_q + ~(BeatBits + 1)'(room_q);
      // After a page's end a full burst follows; else the one after a full one.
      room_q      <= (next_beat_q[PageBits-1:0] | offsets) == '1 ? longest :
                     room_of(next_beat_q[PageBits-1:0], ~(offsets + page_t'(1)));
    end
    skip_q <= start_i && !rst_i;
    if (rst_i) begin
      next_valid_q <= 1'b0;
      rows_q       <= 1'b0;
    end else if (start_i) begin
      next_valid_q <= 1'b1;
      rows_q       <= !row_last;
    end else begin
      if (row_load) next_valid_q <= 1'b1;
      else if (advance && next_ends) next_valid_q <= 1'b0;
      if (row_load && row_last) rows_q <= 1'b0;
    end
  end

  // ---------------------------------------------------------------------------------------
  // The offered burst
  typedef struct packed {
    beat_t      beat;
    logic [7:0] len;
    logic       fits;
    logic       last;
  } burst_t;
  burst_t next, spare_q, offer_q;
  logic valid_q, spare_valid_q, busy_q, free;

  always_comb begin
    next.beat = next_beat_q;
    next.len = next_ends ? left_q[7:0] : room_q;
    next.fits = !until_q[BeatBits] && (until_q[BeatBits-1:8] != '0 || next.len < until_q[7:0]);
    next.last = next_ends && next_last_q;
  end
  assign advance = next_valid_q && !spare_valid_q;
  assign free = !valid_q || ready_i;

  always_ff @(posedge clk_i) begin
    if (free) offer_q <= spare_valid_q ? spare_q : next;
    if (!spare_valid_q) spare_q <= next;
    if (rst_i) begin
      valid_q       <= 1'b0;
      spare_valid_q <= 1'b0;
      busy_q        <= 1'b0;
    end else begin
      if (free) valid_q <= spare_valid_q || next_valid_q;
      spare_valid_q <= !free && (spare_valid_q || next_valid_q);
      if (start_i) busy_q <= 1'b1;
      else if (valid_q && ready_i && offer_q.last) busy_q <= 1'b0;
    end
  end

  assign valid_o  = valid_q;
  assign addr_o   = {offer_q.beat, {BeatShift{1'b0}}};
  assign len_o    = offer_q.len;
  assign inside_o = offer_q.fits;
  assign last_o   = offer_q.last;
  assign done_o   = !busy_q;

  logic unused;
  assign unused = ^mem_size_i[BeatShift-1:0];
endmodule
