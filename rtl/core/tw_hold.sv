// SPDX-License-Identifier: Apache-2.0
// Holds beats that LOAD places a part at a time (several diagonals in a beat).
//
// Data cannot be held back on the bus. From the start of such a LOAD to its retirement `room_o`
// lets no more beats be asked for than fit; at any other time a beat passes through in its cycle.
module tw_hold #(
    parameter int unsigned BeatBytes  = 8,  // bytes of an AXI beat
    parameter int unsigned BurstBeats = 16  // longest burst, a power of two
) (
    input  logic                   clk_i,
    input  logic                   rst_i,
    input  logic                   start_i,       // a LOAD that places beats in parts starts
    input  logic                   retire_i,      // and one retires
    // bursts
    input  logic                   asked_i,       // a burst is asked for
    input  logic [            7:0] asked_len_i,   // beats minus 1 of the burst on offer
    output logic                   room_o,        // it may be asked for
    // beats
    input  logic                   beat_valid_i,
    input  logic [BeatBytes*8-1:0] beat_data_i,
    output logic                   valid_o,       // the oldest beat
    output logic [BeatBytes*8-1:0] data_o,
    input  logic                   done_i         // nothing is left of it
);
  localparam int unsigned Depth = BurstBeats > 16 ? BurstBeats : 16;

  localparam tw_pkg::sizes_t Elaborated = '{burst_beats: BurstBeats, default: '0};
  tw_pkg::sizes_t sizes;
  tw_sizes #(
      .Elaborated(Elaborated)
  ) u_sizes (
      .sizes_o(sizes)
  );

  logic held, unused_full;
  logic [$clog2(Depth):0] unused_count;
  logic [BeatBytes*8-1:0] held_data;
  logic [11:0] asked_q;  // beats asked for and not done, at most 17 bursts of 64
  logic [11:0] longest, room;  // of the beats that fit, those that are used
  logic [3:0] active_q;  // LOADs between start and retirement

  tw_fifo #(
      .Width(BeatBytes * 8),
      .Depth(Depth)
  ) u_beats (
      .clk_i,
      .rst_i,
      .push_i (beat_valid_i && (held || !done_i)),
      .data_i (beat_data_i),
      .pop_i  (done_i),
      .data_o (held_data),
      .valid_o(held),
      .full_o (unused_full),
      .count_o(unused_count)
  );

  assign valid_o = held || beat_valid_i;
  assign data_o  = held ? held_data : beat_data_i;
  assign longest = 12'(sizes.burst_beats);
  assign room    = longest > 12'd16 ? longest : 12'd16;
  assign room_o  = (active_q == '0) || (asked_q + 12'(asked_len_i) < room);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      asked_q  <= '0;
      active_q <= '0;
    end else begin
      asked_q <= asked_q + (asked_i ? 12'(asked_len_i) + 12'd1 : 12'd0) -
                 12'(valid_o && done_i);
      if (start_i && !retire_i) active_q <= active_q + 1'b1;
      else if (retire_i && !start_i) active_q <= active_q - 1'b1;
    end
  end
endmodule
