// SPDX-License-Identifier: Apache-2.0
// First-word-fall-through FIFO in distributed memory; a push is visible one cycle later.
// Whoever pushes knows that there is room: sim/verify/checks/fifo_checks.sv asserts it of every instance.
//
// Whether there is an entry lies in a register, and so do the lowest KeyBits of the oldest one: what
// decides whether it leaves.
module tw_fifo #(
    parameter int unsigned Width = 8,    // bits of an entry
    parameter int unsigned Depth = 4,    // entries, a power of two, at least 2
    parameter int unsigned KeyBits = 0,  // fewer than Width
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
  (* ram_style = "distributed" *) logic [Width-1:KeyBits] mem[Depth];
  logic [PtrBits-1:0] head_q, tail_q;
  logic [PtrBits:0] count_q;
  logic valid_q, full_q, push, pop;

  assign push = push_i && !full_q;
  assign pop = pop_i && valid_q;
  assign valid_o = valid_q;
  assign full_o = full_q;
  assign count_o = count_q;

  always_ff @(posedge clk_i) begin
    if (push) mem[tail_q] <= data_i[Width-1:KeyBits];
    if (rst_i) begin
      head_q  <= '0;
      tail_q  <= '0;
      count_q <= '0;
      valid_q <= 1'b0;
      full_q  <= 1'b0;
    end else if (push || pop) begin
      if (push) tail_q <= tail_q + 1'b1;
      if (pop) head_q <= head_q + 1'b1;
      if (push != pop) begin
        count_q <= push ? count_q + 1'b1 : count_q - 1'b1;
        valid_q <= push || count_q != (PtrBits + 1)'(1);
        full_q  <= push && count_q == (PtrBits + 1)'(Depth - 1);
      end
    end
  end

  if (KeyBits == 0) begin : gen_plain
    assign data_o = mem[head_q];
  end else begin : gen_key
    (* ram_style = "distributed" *) logic [KeyBits-1:0] keys[Depth];
    logic [KeyBits-1:0] key_q;
    logic [PtrBits-1:0] next;
    assign next = head_q + 1'b1;
    assign data_o = {mem[head_q], key_q};
    // The entry that is the oldest after a pop, or after a push into an empty FIFO.
    always_ff @(posedge clk_i) begin
      if (push) keys[tail_q] <= data_i[KeyBits-1:0];
      if (pop && count_q != (PtrBits + 1)'(1)) key_q <= keys[next];
      else if (push && (pop || !valid_q)) key_q <= data_i[KeyBits-1:0];
    end
  end
endmodule
