// SPDX-License-Identifier: Apache-2.0
// Two ports of a block RAM, in bytes of nine bits. An address is one of bits; a port of Width bits
// (0: unused) takes the aligned group that its address lies in.
module tw_block_ram #(
    parameter Bytes = 4096,
    parameter ReadA = 0, WriteA = 0, ReadB = 0, WriteB = 0,
    parameter [Bytes*9-1:0] Contents = 0,  // at the start
    localparam Bits = $clog2(Bytes) + 3
) (
    input clk,
    input read_a, read_b,
    input [7:0] write_a, write_b,  // by byte
    input [Bits-1:0] addr_a, addr_b,
    input [63:0] di_a, di_b,
    input [7:0] dip_a, dip_b,
    output reg [63:0] do_a, do_b,
    output reg [7:0] dop_a, dop_b
);
  reg [8:0] mem[Bytes];
  initial for (integer i = 0; i < Bytes; i++) mem[i] = Contents[9*i+:9];

  function automatic integer count(integer width);
    return width < 9 ? (width == 0 ? 0 : 1) : width / 9;
  endfunction
  function automatic [Bits-4:0] first(integer width, [Bits-1:0] addr);
    return addr[Bits-1:3] & ~(Bits - 3)'(count(width) - 1);
  endfunction
  function automatic [2:0] bit_of(integer width, [Bits-1:0] addr);
    return addr[2:0] & ~3'(width - 1);
  endfunction

  always @(posedge clk)
    if (read_a) begin
      for (integer i = 0; i < count(ReadA); i++)
        {dop_a[i], do_a[8*i+:8]} <= mem[first(ReadA, addr_a)+(Bits-3)'(i)];
      if (ReadA > 0 && ReadA < 9)
        do_a[7:0] <= mem[addr_a[Bits-1:3]][7:0] >> bit_of(ReadA, addr_a);
    end
  always @(posedge clk)
    if (read_b) begin
      for (integer i = 0; i < count(ReadB); i++)
        {dop_b[i], do_b[8*i+:8]} <= mem[first(ReadB, addr_b)+(Bits-3)'(i)];
      if (ReadB > 0 && ReadB < 9)
        do_b[7:0] <= mem[addr_b[Bits-1:3]][7:0] >> bit_of(ReadB, addr_b);
    end
  // One process writes: where both ports write the same byte, the hardware says nothing either.
  always @(posedge clk) begin
    for (integer i = 0; i < count(WriteA); i++)
      if (write_a[i]) begin
        if (WriteA >= 9)
          mem[first(WriteA, addr_a)+(Bits-3)'(i)] <= {dip_a[i], di_a[8*i+:8]};
        else
          for (integer k = 0; k < WriteA; k++)
            mem[addr_a[Bits-1:3]][4'(bit_of(WriteA, addr_a))+4'(k)] <= di_a[k];
      end
    for (integer i = 0; i < count(WriteB); i++)
      if (write_b[i]) begin
        if (WriteB >= 9)
          mem[first(WriteB, addr_b)+(Bits-3)'(i)] <= {dip_b[i], di_b[8*i+:8]};
        else
          for (integer k = 0; k < WriteB; k++)
            mem[addr_b[Bits-1:3]][4'(bit_of(WriteB, addr_b))+4'(k)] <= di_b[k];
      end
  end
endmodule
