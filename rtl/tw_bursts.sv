// SPDX-License-Identifier: Apache-2.0
// Cuts the rows of a strided region into AXI bursts: whole beats, never across 4 KiB.
// Costs one cycle a row and one cycle a burst.
module tw_bursts #(
    parameter int unsigned BeatBytes  = 8,  // bytes of an AXI beat
    parameter int unsigned BurstBeats = 16  // longest burst, a power of two
) (
    input  logic        clk_i,
    input  logic        rst_i,
    input  logic        start_i,      // load a region; the fields below are held until done_o
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
    output logic        last_o,       // last burst of the region
    output logic        done_o        // nothing more to offer
);
  localparam int unsigned BeatShift = $clog2(BeatBytes);
  localparam int unsigned PageBeats = 4096 / BeatBytes;
  localparam int unsigned PageBits = $clog2(PageBeats);

  typedef enum logic [1:0] {
    Idle,  // no region
    Row,   // count the beats of the row
    Burst  // offer bursts of the row
  } state_e;

  state_e state_q, state_d;
  logic [39:0] row_addr, unused_after;
  logic unused_last_y, last_row, row_next;
  logic [39-BeatShift:0] beat_q, beat_d;  // address in beats
  logic [28:0] left_q, left_d;            // beats left in the row
  logic [28:0] span_bytes, take_row;
  logic [PageBits:0] page_left;
  logic [28:0] take;

  tw_rows #(
      .AddrBits(40)
  ) u_rows (
      .clk_i,
      .start_i,
      .base_i,
      .y_step_i,
      .z_step_i,
      .y_size_i,
      .z_size_i,
      .next_i  (row_next),
      .addr_o  (row_addr),
      .after_o (unused_after),
      .last_y_o(unused_last_y),
      .last_o  (last_row)
  );

  // Beats that the row touches, from the beat that holds its first byte.
  assign span_bytes = {1'b0, row_bytes_i} + 29'(row_addr[BeatShift-1:0]) + 29'(BeatBytes - 1);
  assign page_left  = (PageBits + 1)'(PageBeats) - {1'b0, beat_q[PageBits-1:0]};
  assign take_row   = left_q < 29'(BurstBeats) ? left_q : 29'(BurstBeats);
  assign take       = take_row < 29'(page_left) ? take_row : 29'(page_left);

  assign valid_o    = state_q == Burst;
  assign addr_o     = {beat_q, {BeatShift{1'b0}}};
  assign len_o      = 8'(take - 29'd1);
  assign last_o     = last_row && (take == left_q);
  assign done_o     = state_q == Idle;

  always_comb begin
    state_d  = state_q;
    beat_d   = beat_q;
    left_d   = left_q;
    row_next = 1'b0;
    unique case (state_q)
      Idle: ;
      Row: begin
        beat_d  = row_addr[39:BeatShift];
        left_d  = span_bytes >> BeatShift;
        state_d = Burst;
      end
      Burst: begin
        if (ready_i) begin
          beat_d = beat_q + (40 - BeatShift)'(take);
          left_d = left_q - take;
          if (take == left_q) begin
            row_next = 1'b1;
            state_d  = last_row ? Idle : Row;
          end
        end
      end
      default: state_d = Idle;
    endcase
    if (start_i) state_d = Row;
  end

  always_ff @(posedge clk_i) begin
    beat_q <= beat_d;
    left_q <= left_d;
    if (rst_i) state_q <= Idle;
    else state_q <= state_d;
  end
endmodule
