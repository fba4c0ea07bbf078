// SPDX-License-Identifier: Apache-2.0
// Scratchpad with a beat-wide write port (LOAD) and a row-wide read port.
//
// Wide tiles (at least a beat): a row is made of beat-wide slices with their own write enable.
// Narrow tiles: a beat holds several tiles; the memory has as many banks, so that any run of
// consecutive tiles is written in one cycle.
//
// A diagonal write puts bytes on the diagonal of one block of a tile and zeros around them. A beat
// that is no longer than the diagonal fills the rows that its bytes lie in, in every block;
// of a longer beat, the lane says which diagonal fills the tile.
//
// A write of 4-bit numbers fills two slices with the int8 of one beat, whose lower half is the
// first slice: a beat takes a cycle as ever. There is no wider write port: the slices of a row have
// enables of their own, and even and odd ones have data of their own. Where such numbers have scales,
// they are multiplied here.
module tw_spad #(
    parameter int unsigned TileBytes  = 16,     // bytes of a tile as LOAD counts them
    parameter int unsigned ReadBytes  = 16,     // bytes of a read; at least a beat or one tile
    parameter int unsigned BeatBytes  = 8,      // bytes of an AXI beat
    parameter int unsigned TotalBytes = 32768,  // bytes of the memory
    parameter int unsigned DiagBytes  = 0,      // bytes of a diagonal; 0: no diagonal writes
    parameter int unsigned RowBytes   = 16,     // bytes of a tile's row, of diagonal writes only
    parameter int unsigned Int4       = 0,      // 1: 4-bit numbers too; 2: with scales; needs diagonal writes
    parameter int unsigned DataPath   = 1,      // 0: nothing is kept, every read is 0
    localparam int unsigned ReadDepth = TotalBytes / ReadBytes,
    localparam int unsigned ReadAddrBits = $clog2(ReadDepth)
) (
    input  logic                    clk_i,
    input  logic                    write_i,
    input  tw_pkg::spad_write_t     write_at_i,
    input  logic [ BeatBytes*8-1:0] write_data_i,
    input  logic                    read_i,
    input  logic [ReadAddrBits-1:0] read_addr_i,
    output logic [ ReadBytes*8-1:0] read_data_o     // one cycle after read_i
);
  // The part of a diagonal that a beat brings.
  localparam int unsigned Diag = DiagBytes == 0 ? BeatBytes : DiagBytes;
  localparam int unsigned PartBytes = Diag < BeatBytes ? Diag : BeatBytes;
  logic [PartBytes-1:0][7:0] part;
  if (Diag < BeatBytes) begin : gen_lanes
    localparam int unsigned LaneBits = $clog2(BeatBytes / Diag);
    logic [BeatBytes/Diag-1:0][Diag*8-1:0] lanes;
    assign lanes = write_data_i;
    assign part  = lanes[write_at_i.lane[LaneBits-1:0]];
  end else begin : gen_part
    assign part = write_data_i;
  end

  // Bytes first .. first + BeatBytes - 1 of the tile.
  function automatic logic [BeatBytes*8-1:0] diagonal(int unsigned first);
    diagonal = '0;
    for (int unsigned b = 0; b < BeatBytes; b++) begin
      automatic int unsigned row = (first + b) / RowBytes;
      automatic int unsigned column = (first + b) % RowBytes;
      if (row % Diag == column % Diag && 32'(write_at_i.phase) == row / Diag + column / Diag)
        diagonal[b*8+:8] = part[row%PartBytes];
    end
  endfunction

  // What a beat brings to even and to odd slices.
  logic [1:0][BeatBytes*8-1:0] halves;
  if (Int4 != 0) begin : gen_int4
    logic [2*BeatBytes-1:0][3:0] numbers;
    assign numbers = write_data_i;
    logic signed [5:0] scale;
    assign scale = 6'(write_at_i.scale) + 6'd1;
    always_comb begin
      halves = {write_data_i, write_data_i};
      if (write_at_i.int4) begin
        for (int unsigned h = 0; h < 2; h++) begin
          for (int unsigned b = 0; b < BeatBytes; b++)
            halves[h][b*8+:8] = Int4 == 1 ? 8'(signed'(numbers[h*BeatBytes+b])) :
                8'(signed'(numbers[h*BeatBytes+b])) * 8'(scale);
        end
      end
    end
  end else begin : gen_int8
    assign halves = {write_data_i, write_data_i};
  end

  if (DataPath == 0) begin : gen_none
    assign read_data_o = '0;
    logic unused;
    assign unused = ^{clk_i, write_i, write_at_i, part, halves, read_i, read_addr_i};
  end else if (TileBytes >= BeatBytes) begin : gen_wide
    localparam int unsigned Slices = ReadBytes / BeatBytes;  // beats in a row
    localparam int unsigned TileShift = $clog2(TileBytes / BeatBytes);
    localparam int unsigned SliceShift = $clog2(Slices);
    logic [ReadBytes*8-1:0] mem[ReadDepth];
    logic [27:0] beat_index;  // beats from the start of the memory
    logic [ReadAddrBits-1:0] row;
    assign beat_index = (28'(write_at_i.tile) << TileShift) | 28'(write_at_i.slice);
    assign row = ReadAddrBits'(beat_index >> SliceShift);
    if (Slices == 1) begin : gen_single
      always_ff @(posedge clk_i) begin
        if (write_i) mem[row] <= write_at_i.diagonal && DiagBytes != 0 ? diagonal(0) : write_data_i;
      end
    end else begin : gen_slices
      logic [SliceShift-1:0] slice;
      assign slice = SliceShift'(beat_index);
      if (DiagBytes == 0) begin : gen_plain
        always_ff @(posedge clk_i) begin
          if (write_i) begin
            for (int unsigned s = 0; s < Slices; s++) begin
              if (write_at_i.pad || slice == SliceShift'(s))
                mem[row][s*BeatBytes*8+:BeatBytes*8] <= write_data_i;
            end
          end
        end
      end else begin : gen_diagonal
        always_ff @(posedge clk_i) begin
          if (write_i) begin
            for (int unsigned s = 0; s < Slices; s++) begin
              // The beat of a diagonal that brings byte 0 of the slice's row.
              if (write_at_i.pad || (write_at_i.diagonal ?
                  10'(s * BeatBytes / RowBytes % Diag / PartBytes) == write_at_i.slice :
                  Int4 != 0 && write_at_i.int4 ? 10'(s / 2) == write_at_i.slice :
                  slice == SliceShift'(s)))
                mem[row][s*BeatBytes*8+:BeatBytes*8] <=
                    write_at_i.diagonal ? diagonal(s * BeatBytes) : halves[s%2];
            end
          end
        end
      end
    end
    always_ff @(posedge clk_i) begin
      if (read_i) read_data_o <= mem[read_addr_i];
    end
    logic unused;
    assign unused = ^{write_at_i, part, halves, beat_index};
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
      assign distance = BankBits'(b) - write_at_i.tile[BankBits-1:0];
      assign tile = write_at_i.tile[ReadAddrBits-1:0] + ReadAddrBits'(distance);
      assign unused_tile = ^tile;
      assign hit = 5'(distance) < write_at_i.count;
      always_ff @(posedge clk_i) begin
        if (write_i && hit)
          mem[tile[ReadAddrBits-1:BankBits]] <= write_at_i.diagonal && DiagBytes != 0 ?
              (TileBytes * 8)'(diagonal(0)) : lanes[write_at_i.lane[BankBits-1:0] + distance];
        if (read_i && read_addr_i[BankBits-1:0] == BankBits'(b))
          bank_data[b] <= mem[read_addr_i[ReadAddrBits-1-:RowBits]];
      end
    end
    always_ff @(posedge clk_i) begin
      if (read_i) bank_q <= read_addr_i[BankBits-1:0];
    end
    assign read_data_o = bank_data[bank_q];
    logic unused;
    assign unused = ^{write_at_i, part, halves};
  end
endmodule
