// SPDX-License-Identifier: Apache-2.0
// Asserts that a core stays within the memory of what it runs: no burst that leaves its slot touches
// a byte outside of it, whatever the program. And that a scrub does not reach the memory at all.
// verilator coverage_off
module slot_checks #(
    parameter int unsigned DataBits = 64
) (
    input logic        clk_i,
    input logic        rst_i,
    input logic        starts,     // a run begins, with this memory
    input logic [39:0] mem_base,
    input logic [38:0] mem_size,
    input logic        active,
    input logic        scrub,
    input logic [39:0] araddr_o,
    input logic [ 7:0] arlen_o,
    input logic        arvalid_o,
    input logic [39:0] awaddr_o,
    input logic [ 7:0] awlen_o,
    input logic        awvalid_o
);
  localparam int unsigned BeatBytes = DataBits / 8;

  logic [40:0] low_q, high_q;  // of the memory of the run

  function automatic logic inside_of(logic [39:0] address, logic [7:0] len);
    return {1'b0, address} >= low_q &&
           {1'b0, address} + 41'(BeatBytes) * (41'(len) + 41'd1) <= high_q;
  endfunction

  always_ff @(posedge clk_i) begin
    if (starts) begin
      low_q  <= {1'b0, mem_base};
      high_q <= {1'b0, mem_base} + 41'(mem_size);
    end
    if (!rst_i) begin
      if (arvalid_o)
        assert (inside_of(araddr_o, arlen_o)) else $error("%m: a read leaves its memory");
      if (awvalid_o)
        assert (inside_of(awaddr_o, awlen_o)) else $error("%m: a write leaves its memory");
      if (scrub) begin
        assert (active) else $error("%m: a scrub of nobody");
        assert (!arvalid_o && !awvalid_o) else $error("%m: a scrub reaches the memory");
      end
    end
  end
endmodule
