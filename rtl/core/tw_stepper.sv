// SPDX-License-Identifier: Apache-2.0
// Walks the data of a strided region beat by beat: LOAD places them, STORE reads them.
//
// Rows lie apart in DRAM and in the scratchpad. A wide tile (at least a beat) takes several beats,
// its slices. A beat of narrow tiles holds several of them, its lanes; a row may start and end
// inside a beat. With `parts_i` each tile of such a beat takes a step of its own.
module tw_stepper #(
    parameter int unsigned BeatBytes = 8,  // bytes of an AXI beat
    localparam int unsigned BeatShift = $clog2(BeatBytes)
) (
    input  logic                 clk_i,
    // a region; its fields are taken with start_i
    input  logic                 start_i,
    input  logic [         19:0] tile_i,        // first tile in the scratchpad
    input  logic [BeatShift-1:0] base_i,        // byte of the first row, within a beat
    input  logic [          3:0] shift_i,       // log2 of a tile's bytes
    input  logic                 parts_i,       // one tile a step
    input  logic [         15:0] x_size_i,      // tiles in a row
    input  logic [         15:0] y_size_i,      // rows in a plane
    input  logic [         15:0] z_size_i,      // planes
    input  logic [BeatShift-1:0] y_step_i,      // bytes from row to row, within a beat
    input  logic [BeatShift-1:0] z_step_i,      // bytes from plane to plane, within a beat
    input  logic [          6:0] row_jump_i,    // tiles between two rows in the scratchpad
    input  logic [         19:0] plane_jump_i,  // tiles between two planes in the scratchpad
    // where it is
    input  logic                 step_i,        // go on
    output logic [         19:0] tile_o,        // first tile of this step
    output logic [         19:0] last_tile_o,   // and its last one
    output logic [          9:0] slice_o,       // beat within a wide tile
    output logic [          4:0] lane_o,        // place of the first narrow tile within the beat
    output logic [          4:0] count_o,       // tiles of this step
    output logic                 beat_done_o,   // nothing is left of the beat after this step
    output logic                 row_done_o,    // nor of the row
    output logic                 done_o         // nor of the region
);
  logic [3:0] shift_q;
  logic parts_q;
  logic [15:0] x_size_q, y_size_q;
  logic [BeatShift-1:0] y_step_q, z_step_q, unused_row_addr, row_after;
  logic [6:0] row_jump_q;
  logic [19:0] plane_jump_q;

  logic [19:0] tile_q;
  logic [15:0] left_q;  // tiles left in the row
  logic [9:0] slice_q;
  logic [4:0] lane_q, lanes;
  logic wide, last_slice, row_last_y, row_last;

  function automatic logic [4:0] lane_of(logic [BeatShift-1:0] addr, logic [3:0] shift);
    return (shift >= 4'(BeatShift)) ? 5'd0 : 5'(addr >> shift);
  endfunction

  assign wide        = shift_q >= 4'(BeatShift);
  assign lanes       = 5'(32'd1 << (4'(BeatShift) - shift_q));  // in a beat of narrow tiles
  assign last_slice  = !wide || (slice_q == 10'((32'd1 << (shift_q - 4'(BeatShift))) - 32'd1));
  assign tile_o      = tile_q;
  assign last_tile_o = tile_q + 20'(count_o) - 20'd1;
  assign slice_o     = slice_q;
  assign lane_o      = lane_q;
  assign count_o     = wide || parts_q ? 5'd1 :
                       ((16'(lanes - lane_q) < left_q) ? lanes - lane_q : 5'(left_q));
  assign row_done_o  = last_slice && (left_q == 16'(count_o));
  assign beat_done_o = !(parts_q && !wide) || row_done_o || (lane_q == lanes - 5'd1);
  assign done_o      = row_done_o && row_last;

  tw_rows #(
      .AddrBits(BeatShift)
  ) u_rows (
      .clk_i,
      .start_i,
      .base_i,
      .y_step_i(y_step_q),
      .z_step_i(z_step_q),
      .y_size_i(start_i ? y_size_i : y_size_q),
      .z_size_i,
      .next_i  (step_i && row_done_o),
      .addr_o  (unused_row_addr),
      .after_o (row_after),
      .last_y_o(row_last_y),
      .last_o  (row_last)
  );

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      shift_q      <= shift_i;
      parts_q      <= parts_i;
      x_size_q     <= x_size_i;
      y_size_q     <= y_size_i;
      y_step_q     <= y_step_i;
      z_step_q     <= z_step_i;
      row_jump_q   <= row_jump_i;
      plane_jump_q <= plane_jump_i;
      tile_q       <= tile_i;
      left_q       <= x_size_i;
      slice_q      <= '0;
      lane_q       <= lane_of(base_i, shift_i);
    end else if (step_i) begin
      if (last_slice) begin
        tile_q  <= tile_q + 20'(count_o) +
                   (!row_done_o ? '0 : row_last_y ? plane_jump_q : 20'(row_jump_q));
        left_q  <= row_done_o ? x_size_q : left_q - 16'(count_o);
        slice_q <= '0;
        lane_q  <= row_done_o ? lane_of(row_after, shift_q) : beat_done_o ? '0 : lane_q + 5'd1;
      end else begin
        slice_q <= slice_q + 1'b1;
      end
    end
  end
endmodule
