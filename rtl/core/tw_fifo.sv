// SPDX-License-Identifier: Apache-2.0
// First-word-fall-through FIFO in distributed memory; a push is visible one cycle later.
// Whoever pushes knows that there is room: sim/verify/checks/fifo_checks.sv asserts it of every instance.
module tw_fifo #(
    parameter int unsigned Width = 8,  // bits of an entry
    parameter int unsigned Depth = 4,  // entries, a power of two, at least 2
    localparam int unsigned PtrBits = $clog2(Depth)
) (
    input  logic               clk_i,
    input  logic               rst_i,    // synchronous, empties the FIFO
    input  logic               push_i,   // never when full: it would be lost
    input  logic [Width-1:0]   data_i,
    input  logic               pop_i,    // ignored when empty
    output logic [Width-1:0]   data_o,   // oldest entry, valid when valid_o
    output logic               valid_o,
    output logic               full_o,
    output logic [PtrBits:0]   count_o
);
  // The read is asynchronous: block RAM would need a bypass around it.
  (* ram_style = "distributed" *) logic [Width-1:0] mem[Depth];
  logic [PtrBits-1:0] head_q, tail_q;
  logic [PtrBits:0] count_q;
  logic push, pop;

  assign push = push_i && !full_o;
  assign pop = pop_i && valid_o;
  assign valid_o = count_q != '0;
  assign full_o = count_q == (PtrBits + 1)'(Depth);
  assign count_o = count_q;
  assign data_o = mem[head_q];

  always_ff @(posedge clk_i) begin
    if (push) mem[tail_q] <= data_i;
    if (rst_i) begin
      head_q  <= '0;
      tail_q  <= '0;
      count_q <= '0;
    end else if (push || pop) begin
      if (push) tail_q <= tail_q + 1'b1;
      if (pop) head_q <= head_q + 1'b1;
      if (push != pop) count_q <= push ? count_q + 1'b1 : count_q - 1'b1;
    end
  end
endmodule
