// SPDX-License-Identifier: Apache-2.0
// Properties of tw_padding: exactly the tiles of the padded region outside the data, in order; it
// is never silent for more than two cycles.
module formal_padding #(
    parameter int unsigned SizeBits = 2  // sizes and pads below 2 ** SizeBits
) (
    input logic        clk_i,
    input logic        rst_i,
    input logic        start_i,
    input logic        ready_i,
    input logic [19:0] base_i,
    input logic [15:0] x_size_i,
    input logic [15:0] y_size_i,
    input logic [15:0] z_size_i,
    input logic [ 5:0] left_i,
    input logic [ 5:0] right_i,
    input logic [ 5:0] top_i,
    input logic [ 5:0] bottom_i
);
  logic [19:0] base, base_q, addr;
  logic [15:0] x_size, y_size, z_size, x_size_q, y_size_q, z_size_q;
  logic [5:0] left, right, top, bottom, left_q, right_q, top_q, bottom_q;
  logic [16:0] width, height;
  logic valid, step, done, started_q;

  assign {base, x_size, y_size, z_size, left, right, top, bottom} = start_i ?
      {base_i, x_size_i, y_size_i, z_size_i, left_i, right_i, top_i, bottom_i} :
      {base_q, x_size_q, y_size_q, z_size_q, left_q, right_q, top_q, bottom_q};
  assign width = 17'(left) + 17'(x_size) + 17'(right);
  assign height = 17'(top) + 17'(y_size) + 17'(bottom);

  tw_padding dut (
      .clk_i,
      .rst_i,
      .start_i,
      .base_i     (base),
      .width_i    (width),
      .height_i   (height),
      .x_size_i   (x_size),
      .y_size_i   (y_size),
      .z_size_i   (z_size),
      .pad_left_i (left),
      .pad_right_i(right),
      .pad_top_i  (top),
      .valid_o    (valid),
      .ready_i,
      .addr_o     (addr),
      .step_o     (step),
      .done_o     (done)
  );

  // Walks every tile of the region, one a cycle at most; it must meet the same padding.
  logic [16:0] column_q, row_q;
  logic [15:0] plane_q;
  logic [19:0] place_q;
  logic data_tile;
  assign data_tile = plane_q < z_size_q && column_q >= 17'(left_q) &&
                     column_q < 17'(left_q) + 17'(x_size_q) &&
                     row_q >= 17'(top_q) && row_q < 17'(top_q) + 17'(y_size_q);

  // Where the walk stands after the data run at its place, if there is one.
  logic [16:0] skip_column, skip_row, next_column, next_row;
  logic [15:0] skip_plane, next_plane;
  logic [19:0] skip_place;
  always_comb begin
    {skip_column, skip_row, skip_plane, skip_place} = {column_q, row_q, plane_q, place_q};
    if (data_tile) begin
      skip_column = column_q + 17'(x_size_q);
      skip_place  = place_q + 20'(x_size_q);
    end
    if (skip_column >= width) begin
      skip_column = '0;
      skip_row = row_q + 17'd1;
      if (skip_row >= height) begin
        skip_row   = '0;
        skip_plane = plane_q + 16'd1;
      end
    end
    {next_column, next_row, next_plane} = {column_q + 17'd1, row_q, plane_q};
    if (next_column >= width) begin
      next_column = '0;
      next_row = row_q + 17'd1;
      if (next_row >= height) begin
        next_row   = '0;
        next_plane = plane_q + 16'd1;
      end
    end
  end

  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    if (start_i) begin
      {base_q, x_size_q, y_size_q, z_size_q, left_q, right_q, top_q, bottom_q} <=
          {base_i, x_size_i, y_size_i, z_size_i, left_i, right_i, top_i, bottom_i};
      {column_q, row_q, plane_q, place_q} <= {17'd0, 17'd0, 16'd0, base_i};
    end else if (valid && ready_i) begin
      {column_q, row_q, plane_q} <= {next_column, next_row, next_plane};
      place_q <= place_q + 20'd1;
    end else if (data_tile && !done) begin
      {column_q, row_q, plane_q, place_q} <= {skip_column, skip_row, skip_plane, skip_place};
    end
  end

  always_comb begin
    if (!started_q) assume (rst_i);
    assume (!start_i || done);
    if (start_i) begin
      assume (x_size_i != '0 && y_size_i != '0 && z_size_i != '0);
      assume ((x_size_i >> SizeBits) == '0 && (y_size_i >> SizeBits) == '0);
      assume ((z_size_i >> SizeBits) == '0 && (left_i >> SizeBits) == '0);
      assume ((right_i >> SizeBits) == '0 && (top_i >> SizeBits) == '0);
      assume ((bottom_i >> SizeBits) == '0);
    end
    if (started_q && valid) begin
      assert (!data_tile);
      assert (plane_q < z_size_q);
      assert (addr == place_q);
    end
  end

  // Padding that is not held up is progress, also in rows without any.
  logic [1:0] silent_q;
  always_ff @(posedge clk_i) silent_q <= (rst_i || done || valid || step) ? '0 : silent_q + 2'd1;
  always_comb if (started_q) assert (silent_q <= 2'd2);

  // At the end every tile has been met. The walk may still skip data when the unit is done.
  logic [15:0] end_plane;
  logic was_busy_q;
  assign end_plane = data_tile ? skip_plane : plane_q;
  initial was_busy_q = 1'b0;
  always_ff @(posedge clk_i) was_busy_q <= !done && !rst_i;
  always_comb begin
    if (started_q && was_busy_q && done && !start_i) begin
      assert (end_plane == z_size_q);
      cover (z_size_q == 16'd2 && left_q != '0 && top_q == '0);
    end
    cover (started_q && rst_i && valid && plane_q != '0);
    cover (started_q && valid && !ready_i && width > 17'd4);
  end
endmodule
