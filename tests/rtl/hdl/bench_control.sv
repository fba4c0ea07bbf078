// SPDX-License-Identifier: Apache-2.0
// tw_control with flat ports: element 0 lowest.
module bench_control (
    input  logic         clk_i,
    input  logic         rst_i,
    input  logic         start_i,
    input  logic         soft_reset_i,
    input  logic         finish_i,
    input  logic         bus_idle_i,
    input  logic         progress_i,
    input  logic [ 31:0] watchdog_i,
    input  logic [  4:0] error_valid_i,
    input  logic [ 39:0] error_code_i,
    input  logic [159:0] error_index_i,
    input  logic [ 15:0] state_i,
    output logic         accept_o,
    output logic         unit_reset_o,
    output logic         fetch_start_o,
    output logic         halt_o,
    output logic         halting_o,
    output logic         running_o,
    output logic [  3:0] status_o,
    output logic [ 31:0] error_o,
    output logic [ 31:0] error_insn_o,
    output logic [ 31:0] wait_state_o,
    output logic [  1:0] event_o
);
  tw_pkg::error_t error[5];
  tw_pkg::wait_e state[4];
  for (genvar u = 0; u < 5; u++) begin : gen_error
    assign error[u].valid = error_valid_i[u];
    assign error[u].code  = error_code_i[u*8+:8];
    assign error[u].index = error_index_i[u*32+:32];
  end
  for (genvar u = 0; u < 4; u++) begin : gen_state
    assign state[u] = tw_pkg::wait_e'(state_i[u*4+:4]);
  end
  tw_pkg::status_t status;
  assign status_o     = {status.resetting, status.failed, status.done, status.busy};
  assign error_o      = {20'd0, status.error_unit, status.error};
  assign error_insn_o = status.error_index;
  assign wait_state_o = {16'd0, status.waits};
  tw_control u_dut (
      .error_i (error),
      .state_i (state),
      .status_o(status),
      .*
  );
endmodule
