// SPDX-License-Identifier: Apache-2.0
// Asserts what units promise each other; the instance says which promise is broken.
// verilator coverage_off
module unit_checks (
    input logic clk_i,
    input logic rst_i,
    input logic two_i,    // more than one unit or memory at a time
    input logic orphan_i  // a beat or retirement without what it belongs to
);
  always_ff @(posedge clk_i) begin
    if (two_i || orphan_i)
      assert (rst_i) else $error("%m: two at a time, or one that belongs to nothing");
  end
endmodule
