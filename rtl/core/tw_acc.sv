// SPDX-License-Identifier: Apache-2.0
// ACC scratchpad: banks by high address bits, each with one read and one write port that the
// unit holding the bank's lock uses (GEMM, VECTOR) or that LOAD writes beat by beat.
module tw_acc #(
    parameter int unsigned TileBytes  = 64,      // bytes of a tile (int32 elements)
    parameter int unsigned PartBytes  = 64,      // bytes of a VECTOR write, divides the tile
    parameter int unsigned BeatBytes  = 8,       // bytes of an AXI beat, at most a tile
    parameter int unsigned TotalBytes = 131072,  // bytes of the memory
    parameter int unsigned Banks      = 4,       // banks, a power of two
    parameter int unsigned DataPath   = 1,       // 0: nothing is kept, every read is 0
    localparam int unsigned Depth = TotalBytes / TileBytes,
    localparam int unsigned AddrBits = $clog2(Depth),
    localparam int unsigned Parts = TileBytes / PartBytes,
    localparam int unsigned PartBits = Parts > 1 ? $clog2(Parts) : 1
) (
    input  logic                   clk_i,
    // GEMM: one read and one write of a tile a cycle
    input  logic                   gemm_read_i,
    input  logic [   AddrBits-1:0] gemm_read_addr_i,
    output logic [TileBytes*8-1:0] gemm_read_data_o,   // one cycle later
    input  logic                   gemm_write_i,
    input  logic [   AddrBits-1:0] gemm_write_addr_i,
    input  logic [TileBytes*8-1:0] gemm_write_data_i,
    // VECTOR: one read of a tile and one write of a part a cycle
    input  logic                   vec_read_i,
    input  logic [   AddrBits-1:0] vec_read_addr_i,
    output logic [TileBytes*8-1:0] vec_read_data_o,    // one cycle later
    input  logic                   vec_write_i,
    input  logic [   AddrBits-1:0] vec_write_addr_i,
    input  logic [   PartBits-1:0] vec_write_part_i,
    input  logic [PartBytes*8-1:0] vec_write_data_i,
    // LOAD: one beat, or a whole tile of padding
    input  logic                   load_write_i,
    input  tw_pkg::spad_write_t    load_write_at_i,
    input  logic [BeatBytes*8-1:0] load_write_data_i
);
  localparam int unsigned RowBits = AddrBits - $clog2(Banks);
  localparam int unsigned Rows = Depth / Banks;
  localparam bit Used = DataPath != 0;
  localparam int unsigned BankBits = Banks > 1 ? $clog2(Banks) : 1;
  localparam int unsigned RowIndexBits = RowBits > 0 ? RowBits : 1;
  // Smallest unit with its own write enable.
  localparam int unsigned GrainBytes = PartBytes < BeatBytes ? PartBytes : BeatBytes;
  localparam int unsigned Grains = TileBytes / GrainBytes;

  function automatic logic [BankBits-1:0] bank_of(logic [AddrBits-1:0] addr);
    return Banks > 1 ? BankBits'(addr >> RowBits) : '0;
  endfunction
  function automatic logic [RowIndexBits-1:0] row_of(logic [AddrBits-1:0] addr);
    return RowBits > 0 ? RowIndexBits'(addr & AddrBits'((32'd1 << RowBits) - 32'd1)) : '0;
  endfunction

  logic [AddrBits-1:0] load_addr;
  assign load_addr = load_write_at_i.tile[AddrBits-1:0];

  logic [Banks-1:0][TileBytes*8-1:0] data_q;
  logic [BankBits-1:0] gemm_bank_q, vec_bank_q;
  // Writes of parts and beats: which grains, and what.
  logic [Grains-1:0] vec_grains, load_grains;
  logic [TileBytes*8-1:0] vec_tile, load_tile;
  always_comb begin
    for (int unsigned g = 0; g < Grains; g++) begin
      vec_grains[g]  = Parts == 1 || (g * GrainBytes / PartBytes) == 32'(vec_write_part_i);
      load_grains[g] = load_write_at_i.pad || (g * GrainBytes / BeatBytes) == 32'(load_write_at_i.slice);
    end
  end
  assign vec_tile  = {Parts{vec_write_data_i}};
  assign load_tile = {(TileBytes / BeatBytes) {load_write_data_i}};

  for (genvar b = 0; b < Banks; b++) begin : gen_bank
    logic [TileBytes*8-1:0] mem[Rows];
    logic gemm_read, vec_read, gemm_write, vec_write, load_write;
    assign gemm_read  = Used && gemm_read_i && bank_of(gemm_read_addr_i) == BankBits'(b);
    assign vec_read   = Used && vec_read_i && bank_of(vec_read_addr_i) == BankBits'(b);
    assign gemm_write = Used && gemm_write_i && bank_of(gemm_write_addr_i) == BankBits'(b);
    assign vec_write  = Used && vec_write_i && bank_of(vec_write_addr_i) == BankBits'(b);
    assign load_write = Used && load_write_i && bank_of(load_addr) == BankBits'(b);
    logic [RowIndexBits-1:0] read_row, write_row;
    logic [Grains-1:0] grains;
    assign read_row = row_of(gemm_read ? gemm_read_addr_i : vec_read_addr_i);
    always_comb begin
      if (gemm_write) begin
        write_row = row_of(gemm_write_addr_i);
        grains = '1;
      end else if (vec_write) begin
        write_row = row_of(vec_write_addr_i);
        grains = vec_grains;
      end else begin
        write_row = row_of(load_addr);
        grains = load_grains;
      end
    end
    // The data is chosen under the condition of the write: a simulator skips what does not happen.
    always_ff @(posedge clk_i) begin
      if (gemm_write || vec_write || load_write) begin
        for (int unsigned g = 0; g < Grains; g++) begin
          if (grains[g])
            mem[write_row][g*GrainBytes*8+:GrainBytes*8] <=
                gemm_write ? gemm_write_data_i[g*GrainBytes*8+:GrainBytes*8] :
                vec_write ? vec_tile[g*GrainBytes*8+:GrainBytes*8] :
                load_tile[g*GrainBytes*8+:GrainBytes*8];
        end
      end
      if (gemm_read || vec_read) data_q[b] <= mem[read_row];
    end
  end

  always_ff @(posedge clk_i) begin
    if (gemm_read_i) gemm_bank_q <= bank_of(gemm_read_addr_i);
    if (vec_read_i) vec_bank_q <= bank_of(vec_read_addr_i);
  end
  assign gemm_read_data_o = data_q[gemm_bank_q];
  assign vec_read_data_o  = data_q[vec_bank_q];

  logic unused;
  assign unused = ^load_write_at_i;
endmodule
