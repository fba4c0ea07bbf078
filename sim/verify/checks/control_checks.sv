// SPDX-License-Identifier: Apache-2.0
// Asserts the boundary between runs: whatever ended the last one, nothing is in flight on the bus
// when the accelerator is idle, and none of it is left when the units are reset for the next.
// verilator coverage_off
module control_checks (
    input logic clk_i,
    input logic rst_i,
    input logic idle,          // state Idle
    input logic bus_idle_i,
    input logic unit_reset_o
);
  logic known_q;  // a reset has been seen

  initial known_q = 1'b0;

  // Not always_ff: this one starts with a value.
  always @(posedge clk_i) begin
    if (rst_i) known_q <= 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (known_q && !rst_i) begin
      if (idle) assert (bus_idle_i) else $error("idle with bursts in flight");
      if (unit_reset_o)
        assert (bus_idle_i) else $error("the units are reset with bursts in flight");
    end
  end
endmodule
