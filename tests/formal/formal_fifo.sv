// SPDX-License-Identifier: Apache-2.0
// Properties of tw_fifo: no overflow or underflow, the count, and first in first out.
module formal_fifo #(
    parameter int unsigned Width   = 3,  // bits of an entry
    parameter int unsigned Depth   = 4,  // entries, a power of two
    parameter int unsigned KeyBits = 0   // bits of the oldest one that lie in a register
) (
    input logic             clk_i,
    input logic             rst_i,
    input logic             push_i,
    input logic [Width-1:0] data_i,
    input logic             pop_i
);
  localparam int unsigned Bits = $clog2(Depth);
  logic [Width-1:0] data;
  logic valid, full, started_q;
  logic [Bits:0] count;

  tw_fifo #(
      .Width  (Width),
      .Depth  (Depth),
      .KeyBits(KeyBits)
  ) dut (
      .clk_i,
      .rst_i,
      .push_i,
      .data_i,
      .pop_i,
      .data_o (data),
      .valid_o(valid),
      .full_o (full),
      .count_o(count)
  );

  // A queue with its oldest entry at place 0: another structure than a ring with pointers.
  logic [Width-1:0] queue_q[Depth];
  logic [Bits:0] size_q, size_after_pop;
  logic push, pop;
  assign push = push_i && size_q < (Bits + 1)'(Depth);
  assign pop = pop_i && size_q != '0;
  assign size_after_pop = size_q - (Bits + 1)'(pop);

  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    if (pop) begin
      for (int unsigned i = 0; i + 1 < Depth; i++) queue_q[i] <= queue_q[i+1];
    end
    if (push) queue_q[size_after_pop[Bits-1:0]] <= data_i;
    size_q <= rst_i ? '0 : size_after_pop + (Bits + 1)'(push);
  end

  always_comb begin
    if (!started_q) assume (rst_i);
    else begin
      assert (count <= (Bits + 1)'(Depth));
      assert (count == size_q);
      assert (valid == (size_q != '0));
      assert (full == (size_q == (Bits + 1)'(Depth)));
      if (valid) assert (data == queue_q[0]);
      // What makes the above inductive: the ring holds the queue.
      assert (Bits'(dut.tail_q - dut.head_q) == size_q[Bits-1:0]);
      for (int unsigned i = 0; i < Depth; i++) begin
        if ((Bits + 1)'(i) < size_q) 
          assert (dut.mem[Bits'(dut.head_q+Bits'(i))] == queue_q[i][Width-1:KeyBits]);
      end
      cover (full && pop_i && dut.head_q != '0);
      cover (pop && push && count == (Bits + 1)'(1) && data != data_i);
      cover (rst_i && count > (Bits + 1)'(1));
    end
  end

  if (KeyBits != 0) begin : gen_key
    always_comb begin
      if (started_q) begin
        // The key follows its entry: out of the ring, or past it into an empty one.
        if (valid) assert (dut.gen_key.key_q == queue_q[0][KeyBits-1:0]);
        for (int unsigned i = 0; i < Depth; i++) begin
          if ((Bits + 1)'(i) < size_q)
            assert (dut.gen_key.keys[Bits'(dut.head_q+Bits'(i))] == queue_q[i][KeyBits-1:0]);
        end
      end
    end
  end
endmodule
