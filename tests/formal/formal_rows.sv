// SPDX-License-Identifier: Apache-2.0
// Properties of tw_rows: every row once, at base + y * y_step + z * z_step, the last one marked.
module formal_rows #(
    parameter int unsigned AddrBits = 12,  // address bits kept
    parameter int unsigned SizeBits = 3    // rows in a plane and planes: below 2 ** SizeBits
) (
    input logic                clk_i,
    input logic                start_i,
    input logic                next_i,
    input logic [AddrBits-1:0] base_i,
    input logic [AddrBits-1:0] y_step_i,
    input logic [AddrBits-1:0] z_step_i,
    input logic [        15:0] y_size_i,
    input logic [        15:0] z_size_i
);
  logic [AddrBits-1:0] addr, after, base_q, y_step_q, z_step_q;
  logic [15:0] y_size_q, z_size_q, y_q, z_q;
  logic last_y, last, active_q;
  logic [AddrBits-1:0] row_start_q, plane_start_q;

  tw_rows #(
      .AddrBits(AddrBits)
  ) dut (
      .clk_i,
      .start_i,
      .base_i,
      .y_step_i(y_step_q),
      .z_step_i(z_step_q),
      .y_size_i,
      .y_again_i(y_size_q),
      .z_size_i,
      .next_i,
      .addr_o  (addr),
      .after_o (after),
      .last_y_o(last_y),
      .last_o  (last)
  );

  initial active_q = 1'b0;
  always_ff @(posedge clk_i) begin
    if (start_i) begin
      active_q <= 1'b1;
      {y_q, z_q} <= '0;
      {base_q, y_step_q, z_step_q} <= {base_i, y_step_i, z_step_i};
      {y_size_q, z_size_q} <= {y_size_i, z_size_i};
      {row_start_q, plane_start_q} <= {base_i, base_i};
    end else if (next_i) begin
      if (y_q + 16'd1 == y_size_q) begin
        active_q <= z_q + 16'd1 != z_size_q;
        y_q <= '0;
        z_q <= z_q + 16'd1;
        plane_start_q <= plane_start_q + z_step_q;
        row_start_q <= plane_start_q + z_step_q;
      end else begin
        y_q <= y_q + 16'd1;
        row_start_q <= row_start_q + y_step_q;
      end
    end
  end

  always_comb begin
    assume (!next_i || active_q);
    if (start_i) begin
      assume (y_size_i != '0 && z_size_i != '0);
      assume ((y_size_i >> SizeBits) == '0 && (z_size_i >> SizeBits) == '0);
    end
    if (active_q) begin
      assert (y_q < y_size_q && z_q < z_size_q);
      assert (last_y == (y_q + 16'd1 == y_size_q));
      assert (last == (last_y && z_q + 16'd1 == z_size_q));
      assert (addr == row_start_q);
      assert (after == (last_y ? plane_start_q + z_step_q : row_start_q + y_step_q));
      // What makes the above inductive.
      assert (dut.y_left_q == y_size_q - y_q && dut.z_left_q == z_size_q - z_q);
      assert (dut.one_q == (y_size_q == 16'd1));
      assert (dut.plane_q == plane_start_q);
      assert (dut.last_z_q == (z_q + 16'd1 == z_size_q));
      assert ((y_size_q >> SizeBits) == '0 && (z_size_q >> SizeBits) == '0);
      cover (last && y_size_q > 16'd1 && z_size_q > 16'd1);
      cover (start_i && y_q == 16'd1 && !last_y);  // a new region before the end of the last one
    end
  end
endmodule
