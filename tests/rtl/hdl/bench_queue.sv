// SPDX-License-Identifier: Apache-2.0
// tw_queue with the tw_control of its core, wired as in tw_core_slot.
module bench_queue (
    input  logic              clk_i,
    input  logic              rst_i,
    input  logic              enable_i,
    input  logic [      47:0] now_i,
    input  logic              write_i,
    input  logic [      11:0] write_addr_i,
    input  logic [      31:0] write_data_i,
    input  logic [      11:0] read_addr_i,
    output logic [      31:0] read_data_o,
    output logic              irq_o,
    input  logic [      10:0] attributes_i,
    // window of the host
    input  logic              host_start_i,
    input  logic              host_reset_i,
    // core
    input  logic              finish_i,
    input  logic              bus_idle_i,
    input  logic              error_valid_i,
    input  logic [       7:0] error_code_i,
    input  logic [      31:0] error_index_i,
    input  logic [      15:0] state_i,
    output logic              active_o,
    output logic              scrub_o,
    output logic              accept_o,
    output logic              running_o,
    output tw_pkg::settings_t settings_o,
    output tw_pkg::status_t   status_o
);
  logic start, soft_reset, unused_reset, unused_fetch, unused_halt, unused_halting;
  logic [1:0] unused_event;
  tw_pkg::error_t error[5];
  tw_pkg::wait_e state[4];
  for (genvar u = 0; u < 5; u++) begin : gen_error
    assign error[u] = '{valid: error_valid_i && u == 2, code: error_code_i, index: error_index_i};
  end
  for (genvar u = 0; u < 4; u++) begin : gen_state
    assign state[u] = tw_pkg::wait_e'(state_i[u*4+:4]);
  end

  tw_queue #(
      .Depth         (2),
      .ScrubInsnBase (40'h1000),
      .ScrubInsnCount(32'd7),
      .ScrubMemSize  (39'h2000)
  ) u_dut (
      .start_o     (start),
      .soft_reset_o(soft_reset),
      .status_i    (status_o),
      .*
  );
  tw_control u_control (
      .start_i      (active_o ? start : host_start_i),
      .soft_reset_i (host_reset_i || soft_reset),
      .progress_i   (1'b1),
      .watchdog_i   (settings_o.watchdog),
      .error_i      (error),
      .state_i      (state),
      .unit_reset_o (unused_reset),
      .fetch_start_o(unused_fetch),
      .halt_o       (unused_halt),
      .halting_o    (unused_halting),
      .event_o      (unused_event),
      .*
  );
endmodule
