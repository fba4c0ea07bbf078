// SPDX-License-Identifier: Apache-2.0
// OUT scratchpad: VECTOR writes parts of a tile, STORE reads whole AXI beats.
//
// Wide tiles (at least a beat): a read gives one slice of a tile. Narrow tiles: a read gives a
// beat of consecutive tiles, the first one in a chosen lane.
module tw_out #(
    parameter int unsigned TileBytes = 16,     // bytes of a tile
    parameter int unsigned PartBytes = 16,     // bytes of a VECTOR write, divides the tile
    parameter int unsigned BeatBytes = 8,      // bytes of an AXI beat
    parameter int unsigned TotalBytes = 32768, // bytes of the memory
    parameter int unsigned DataPath = 1,       // 0: nothing is kept, every read is 0
    localparam int unsigned Depth = TotalBytes / TileBytes,
    localparam int unsigned AddrBits = $clog2(Depth),
    localparam int unsigned Parts = TileBytes / PartBytes,
    localparam int unsigned PartBits = Parts > 1 ? $clog2(Parts) : 1
) (
    input  logic                   clk_i,
    input  logic                   write_i,
    input  logic [   AddrBits-1:0] write_addr_i,  // tile
    input  logic [   PartBits-1:0] write_part_i,
    input  logic [PartBytes*8-1:0] write_data_i,
    input  logic                   read_i,
    input  logic [   AddrBits-1:0] read_addr_i,   // first tile
    input  logic [            9:0] read_slice_i,  // wide: beat within the tile
    input  logic [            4:0] read_lane_i,   // narrow: lane of the first tile
    output logic [BeatBytes*8-1:0] read_data_o    // one cycle after read_i
);
  if (DataPath == 0) begin : gen_none
    assign read_data_o = '0;
    logic unused;
    assign unused = ^{clk_i, write_i, write_addr_i, write_part_i, write_data_i, read_i, read_addr_i,
                      read_slice_i, read_lane_i};
  end else if (TileBytes >= BeatBytes) begin : gen_wide
    localparam int unsigned Slices = TileBytes / BeatBytes;
    logic [TileBytes*8-1:0] mem[Depth];
    logic [Slices-1:0][BeatBytes*8-1:0] row_q;
    logic [9:0] slice_q;
    always_ff @(posedge clk_i) begin
      for (int unsigned p = 0; p < Parts; p++) begin
        if (write_i && (Parts == 1 || write_part_i == PartBits'(p)))
          mem[write_addr_i][p*PartBytes*8+:PartBytes*8] <= write_data_i;
      end
      if (read_i) begin
        row_q   <= mem[read_addr_i];
        slice_q <= read_slice_i;
      end
    end
    if (Slices == 1) begin : gen_single
      assign read_data_o = row_q[0];
    end else begin : gen_select
      assign read_data_o = row_q[slice_q[$clog2(Slices)-1:0]];
    end
    logic unused;
    assign unused = ^{read_lane_i, slice_q};
  end else begin : gen_narrow
    localparam int unsigned Banks = BeatBytes / TileBytes;
    localparam int unsigned BankBits = $clog2(Banks);
    logic [Banks-1:0][TileBytes*8-1:0] bank_q, lanes;
    logic [BankBits-1:0] first_q, lane_q;
    for (genvar b = 0; b < Banks; b++) begin : gen_bank
      logic [TileBytes*8-1:0] mem[Depth/Banks];
      logic [BankBits-1:0] distance;
      logic [AddrBits-1:0] tile;
      logic unused_tile;
      assign unused_tile = ^tile;
      assign distance = BankBits'(b) - read_addr_i[BankBits-1:0];
      assign tile = read_addr_i + AddrBits'(distance);
      always_ff @(posedge clk_i) begin
        for (int unsigned p = 0; p < Parts; p++) begin
          if (write_i && (write_addr_i[BankBits-1:0] == BankBits'(b)) &&
              (Parts == 1 || write_part_i == PartBits'(p)))
            mem[write_addr_i[AddrBits-1:BankBits]][p*PartBytes*8+:PartBytes*8] <= write_data_i;
        end
        if (read_i) bank_q[b] <= mem[tile[AddrBits-1:BankBits]];
      end
    end
    always_ff @(posedge clk_i) begin
      if (read_i) begin
        first_q <= read_addr_i[BankBits-1:0];
        lane_q  <= read_lane_i[BankBits-1:0];
      end
    end
    // Lane j holds the tile j - lane_q after the first, which is in bank first_q + j - lane_q.
    always_comb begin
      for (int unsigned j = 0; j < Banks; j++) lanes[j] = bank_q[first_q+BankBits'(j)-lane_q];
    end
    assign read_data_o = lanes;
    logic unused;
    assign unused = ^{read_slice_i, read_lane_i};
  end
endmodule
