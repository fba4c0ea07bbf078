// SPDX-License-Identifier: Apache-2.0
// Activation table: what OUT gets in place of a requantised result, entry q mod 256 for a result q.
//
// Every lane has a copy of the table in LUT RAM with one port: LOAD and the look-up of VECTOR use it
// at different times, as tokens order them. A look-up is combinational, so that a VECTOR with it
// takes as long as one without. LOAD writes a row of some entries a cycle.
module tw_table #(
    parameter int unsigned Lanes     = 16,  // results a cycle
    parameter int unsigned BeatBytes = 8,   // bytes of an AXI beat
    parameter int unsigned Present   = 1    // 0: every result passes unchanged
) (
    input  logic                        clk_i,
    input  logic                        write_i,
    input  tw_pkg::spad_write_t         write_at_i,    // tile: the row
    input  logic [BeatBytes*8-1:0]      write_data_i,  // its entries, the first one lowest
    input  logic                        use_i,         // look up, in the cycle of the results
    input  logic [      Lanes-1:0][7:0] result_i,
    output logic [      Lanes-1:0][7:0] result_o
);
  if (Present == 0) begin : gen_none
    assign result_o = result_i;
    logic unused;
    assign unused = ^{clk_i, write_i, write_at_i, write_data_i, use_i};
  end else begin : gen_table
    localparam int unsigned Rows = tw_pkg::TableEntries / tw_pkg::TableRowEntries;
    localparam int unsigned RowBits = $clog2(Rows);
    localparam int unsigned EntryBits = 8 - RowBits;
    typedef logic [tw_pkg::TableRowEntries-1:0][7:0] row_t;
    for (genvar l = 0; l < Lanes; l++) begin : gen_lane
      row_t mem[Rows];
      row_t row;
      logic [RowBits-1:0] address;
      assign address = write_i ? write_at_i.tile[RowBits-1:0] : result_i[l][7-:RowBits];
      assign row = mem[address];
      assign result_o[l] = use_i ? row[result_i[l][EntryBits-1:0]] : result_i[l];
      always_ff @(posedge clk_i) begin
        if (write_i) mem[address] <= write_data_i[tw_pkg::TableRowEntries*8-1:0];
      end
    end
    logic unused;
    assign unused = ^{write_at_i, write_data_i};
  end
endmodule
