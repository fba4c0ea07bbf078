// SPDX-License-Identifier: Apache-2.0
// Asserts of every tw_fifo that what is pushed is kept: a push into a full one would be lost.
// verilator coverage_off
module fifo_checks (
    input logic clk_i,
    input logic rst_i,
    input logic push_i,
    input logic full_o
);
  always_ff @(posedge clk_i) begin
    if (push_i && !rst_i) assert (!full_o) else $error("a push into a full FIFO is lost");
  end
endmodule
