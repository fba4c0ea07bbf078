// SPDX-License-Identifier: Apache-2.0
// Scratchpad with a beat-wide write port (LOAD) and a row-wide read port.
//
// Wide tiles (at least a beat): a row is made of beat-wide slices with their own write enable.
// Narrow tiles: a beat holds several tiles; the memory has as many banks, so that any run of
// consecutive tiles is written in one cycle.
module tw_spad #(
    parameter int unsigned TileBytes  = 16,     // bytes of a tile as LOAD counts them
    parameter int unsigned ReadBytes  = 16,     // bytes of a read; at least a beat or one tile
    parameter int unsigned BeatBytes  = 8,      // bytes of an AXI beat
    parameter int unsigned TotalBytes = 32768,  // bytes of the memory
    localparam int unsigned ReadDepth = TotalBytes / ReadBytes,
    localparam int unsigned ReadAddrBits = $clog2(ReadDepth)
) (
    input  logic                    clk_i,
    input  logic                    write_i,
    input  logic [            17:0] write_addr_i,   // first tile
    input  logic [             9:0] write_slice_i,  // beat within a wide tile
    input  logic [             4:0] write_lane_i,   // narrow: first tile within the beat
    input  logic [             4:0] write_count_i,  // narrow: tiles written
    input  logic                    write_pad_i,    // wide: fill every slice of the row
    input  logic [ BeatBytes*8-1:0] write_data_i,
    input  logic                    read_i,
    input  logic [ReadAddrBits-1:0] read_addr_i,
    output logic [ ReadBytes*8-1:0] read_data_o     // one cycle after read_i
);
  if (TileBytes >= BeatBytes) begin : gen_wide
    localparam int unsigned Slices = ReadBytes / BeatBytes;  // beats in a row
    localparam int unsigned TileShift = $clog2(TileBytes / BeatBytes);
    localparam int unsigned SliceShift = $clog2(Slices);
    logic [ReadBytes*8-1:0] mem[ReadDepth];
    logic [27:0] beat_index;  // beats from the start of the memory
    logic [ReadAddrBits-1:0] row;
    assign beat_index = (28'(write_addr_i) << TileShift) | 28'(write_slice_i);
    assign row = ReadAddrBits'(beat_index >> SliceShift);
    if (Slices == 1) begin : gen_single
      always_ff @(posedge clk_i) begin
        if (write_i) mem[row] <= write_data_i;
      end
    end else begin : gen_slices
      logic [SliceShift-1:0] slice;
      assign slice = SliceShift'(beat_index);
      always_ff @(posedge clk_i) begin
        for (int unsigned s = 0; s < Slices; s++) begin
          if (write_i && (write_pad_i || slice == SliceShift'(s)))
            mem[row][s*BeatBytes*8+:BeatBytes*8] <= write_data_i;
        end
      end
    end
    always_ff @(posedge clk_i) begin
      if (read_i) read_data_o <= mem[read_addr_i];
    end
    logic unused;
    assign unused = ^{write_lane_i, write_count_i, write_pad_i, beat_index};
  end else begin : gen_narrow
    localparam int unsigned Banks = BeatBytes / TileBytes;
    localparam int unsigned BankBits = $clog2(Banks);
    localparam int unsigned RowBits = ReadAddrBits - BankBits;
    logic [Banks-1:0][TileBytes*8-1:0] bank_data, lanes;
    logic [BankBits-1:0] bank_q;
    assign lanes = write_data_i;
    for (genvar b = 0; b < Banks; b++) begin : gen_bank
      logic [TileBytes*8-1:0] mem[ReadDepth/Banks];
      logic [BankBits-1:0] distance;  // tiles after the first one that this bank holds
      logic [ReadAddrBits-1:0] tile;
      logic hit, unused_tile;
      assign distance = BankBits'(b) - write_addr_i[BankBits-1:0];
      assign tile = write_addr_i[ReadAddrBits-1:0] + ReadAddrBits'(distance);
      assign unused_tile = ^tile;
      assign hit = 5'(distance) < write_count_i;
      always_ff @(posedge clk_i) begin
        if (write_i && hit)
          mem[tile[ReadAddrBits-1:BankBits]] <= lanes[write_lane_i[BankBits-1:0] + distance];
        if (read_i && read_addr_i[BankBits-1:0] == BankBits'(b))
          bank_data[b] <= mem[read_addr_i[ReadAddrBits-1-:RowBits]];
      end
    end
    always_ff @(posedge clk_i) begin
      if (read_i) bank_q <= read_addr_i[BankBits-1:0];
    end
    assign read_data_o = bank_data[bank_q];
    logic unused;
    assign unused = ^{write_slice_i, write_pad_i, write_addr_i, write_lane_i};
  end
endmodule
