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
    input  tw_pkg::first_step_t  first_i,       // tw_pkg::first_of these
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
  logic [15:0] left_q;            // tiles left in the row
  logic [9:0] slice_q, slices_q;  // beat of a wide tile, and its last one
  logic [4:0] lane_q, lanes_q;    // lanes of a beat
  logic wide_q;                   // a tile has a beat at least
  logic single_q;                 // one tile a step
  logic few_q;                    // a row has no more tiles than a beat: low_q
  logic [4:0] low_q;
  logic row_last_y, row_last;
  // What a step does lies in registers when it begins: how many tiles, and whether it ends the
  // tile, the beat's lanes and the row.
  logic [4:0] count_q, beyond_q;  // beyond the first
  logic tile_end_q, lane_end_q, end_q;

  function automatic logic [4:0] lane_of(logic [BeatShift-1:0] addr, logic [3:0] shift);
    return (shift >= 4'(BeatShift)) ? 5'd0 : 5'(addr >> shift);
  endfunction

  assign tile_o      = tile_q;
  assign last_tile_o = tile_q + 20'(beyond_q);
  assign slice_o     = slice_q;
  assign lane_o      = lane_q;
  assign count_o     = count_q;
  assign row_done_o  = tile_end_q && end_q;
  assign beat_done_o = !(parts_q && !wide_q) || row_done_o || lane_end_q;
  assign done_o      = row_done_o && row_last;

  // The region that starts, and the step behind this one.
  logic start_wide, end_d, few_d;
  logic [9:0] start_slices;
  logic [4:0] start_lanes, row_lane, lane_d, low_d, count_d, beyond_d;
  assign start_wide   = shift_i >= 4'(BeatShift);
  assign start_slices = start_wide ? 10'((32'd1 << (shift_i - 4'(BeatShift))) - 32'd1) : '0;
  assign start_lanes  = 5'(32'd1 << (4'(BeatShift) - shift_i));
  assign row_lane     = lane_of(row_after, shift_q);
  assign few_d        = (left_q[15:6] == '0) && (left_q[5:0] <= 6'(lanes_q) + 6'(count_q));
  assign low_d        = left_q[4:0] - count_q;
  always_comb begin
    if (end_q) begin
      lane_d = row_lane;
      {end_d, count_d, beyond_d} = tw_pkg::first_step(row_lane, lanes_q, single_q,
                                                      x_size_q == 16'd1, few_q, low_q);
    end else begin
      lane_d = beat_done_o ? '0 : lane_q + 5'd1;
      end_d = single_q ? left_q == 16'd2 : few_d;
      count_d = single_q ? 5'd1 : few_d ? low_d : lanes_q;
      beyond_d = single_q ? 5'd0 : few_d ? left_q[4:0] + ~count_q : lanes_q - 5'd1;
    end
  end

  tw_rows #(
      .AddrBits(BeatShift)
  ) u_rows (
      .clk_i,
      .start_i,
      .base_i,
      .y_step_i(y_step_q),
      .z_step_i(z_step_q),
      .y_size_i,
      .y_again_i(y_size_q),
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
      single_q     <= start_wide || parts_i;
      wide_q       <= start_wide;
      slices_q     <= start_slices;
      lanes_q      <= start_lanes;
      few_q        <= first_i.few;
      low_q        <= x_size_i[4:0];
      x_size_q     <= x_size_i;
      y_size_q     <= y_size_i;
      y_step_q     <= y_step_i;
      z_step_q     <= z_step_i;
      row_jump_q   <= row_jump_i;
      plane_jump_q <= plane_jump_i;
      tile_q       <= tile_i;
      left_q       <= x_size_i;
      slice_q      <= '0;
      tile_end_q   <= start_slices == '0;
      lane_q       <= first_i.lane;
      lane_end_q   <= first_i.lane_end;
      end_q        <= first_i.ends_row;
      count_q      <= first_i.count;
      beyond_q     <= first_i.beyond;
    end else if (step_i) begin
      if (tile_end_q) begin
        tile_q     <= tile_q + 20'(count_q) +
                      (!end_q ? '0 : row_last_y ? plane_jump_q : 20'(row_jump_q));
        left_q     <= end_q ? x_size_q : left_q - 16'(count_q);
        slice_q    <= '0;
        tile_end_q <= slices_q == '0;
        lane_q     <= lane_d;
        lane_end_q <= lane_d == lanes_q - 5'd1;
        end_q      <= end_d;
        count_q    <= count_d;
        beyond_q   <= beyond_d;
      end else begin
        slice_q    <= slice_q + 1'b1;
        tile_end_q <= slice_q + 10'd1 == slices_q;
      end
    end
  end
endmodule
