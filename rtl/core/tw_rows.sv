// SPDX-License-Identifier: Apache-2.0
// Walks the rows of a strided region: planes of rows, giving the byte address of each row.
module tw_rows #(
    parameter int unsigned AddrBits = 40  // address bits kept (the rest wraps)
) (
    input  logic                clk_i,
    input  logic                start_i,   // load a new region; its first row shows next cycle
    input  logic [AddrBits-1:0] base_i,    // byte address of the first row
    input  logic [AddrBits-1:0] y_step_i,  // bytes from row to row, held while walking
    input  logic [AddrBits-1:0] z_step_i,  // bytes from plane to plane, held while walking
    input  logic [        15:0] y_size_i,  // rows in a plane
    input  logic [        15:0] y_again_i, // the same, held while walking
    input  logic [        15:0] z_size_i,  // planes
    input  logic                next_i,    // advance to the next row
    output logic [AddrBits-1:0] addr_o,    // byte address of the current row
    output logic [AddrBits-1:0] after_o,   // byte address of the next row
    output logic                last_y_o,  // current row is the last of its plane
    output logic                last_o     // current row is the last of the region
);
  logic [AddrBits-1:0] row_q, plane_q;
  logic [15:0] y_left_q, z_left_q;
  logic last_y_q, last_z_q;  // the row is the last of its plane, the plane the last of the region
  logic one_q;               // planes have a single row

  assign addr_o   = row_q;
  assign last_y_o = last_y_q;
  assign last_o   = last_y_q && last_z_q;
  assign after_o  = last_y_q ? plane_q + z_step_i : row_q + y_step_i;

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      row_q    <= base_i;
      plane_q  <= base_i;
      y_left_q <= y_size_i;
      z_left_q <= z_size_i;
      one_q    <= y_size_i <= 16'd1;
      last_y_q <= y_size_i <= 16'd1;
      last_z_q <= z_size_i <= 16'd1;
    end else if (next_i) begin
      row_q    <= after_o;
      last_y_q <= last_y_q ? one_q : y_left_q <= 16'd2;
      if (last_y_q) begin
        last_z_q <= z_left_q <= 16'd2;
        plane_q  <= after_o;
        y_left_q <= y_again_i;
        z_left_q <= z_left_q - 1'b1;
      end else begin
        y_left_q <= y_left_q - 1'b1;
      end
    end
  end
endmodule
