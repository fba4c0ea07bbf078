// SPDX-License-Identifier: Apache-2.0
// Properties of tw_control: a start is taken when idle alone, units are reset while the bus is idle,
// fetch starts once a run, the first error stays, and every run ends: by FINISH, by an error, or by
// the watchdog, within its limit. A halt is told a cycle ahead.
module formal_control (
    input logic              clk_i,
    input logic              rst_i,
    input logic              start_i,
    input logic              soft_reset_i,
    input logic              finish_i,
    input logic              bus_idle_i,
    input logic              progress_i,
    input logic [31:0]       watchdog_i,
    input logic [ 4:0]       error_valid_i,
    input logic [ 4:0][ 7:0] error_code_i,
    input logic [ 4:0][31:0] error_index_i,
    input logic [ 3:0][ 3:0] state_i
);
  logic accept, unit_reset, fetch_start, halt, halting, running;
  tw_pkg::status_t status;
  logic [1:0] events;
  logic busy, done, failed, resetting;
  logic [59:0] told;     // what the error registers say
  logic [31:0] watchdog_q;
  tw_pkg::error_t error[5];
  tw_pkg::wait_e state[4];
  for (genvar u = 0; u < 5; u++) begin : gen_error
    assign error[u] = '{
        valid: error_valid_i[u], code: error_code_i[u], index: error_index_i[u]
    };
  end
  for (genvar u = 0; u < 4; u++) begin : gen_state
    assign state[u] = tw_pkg::wait_e'(state_i[u]);
  end

  tw_control dut (
      .clk_i,
      .rst_i,
      .start_i,
      .soft_reset_i,
      .finish_i,
      .bus_idle_i,
      .progress_i,
      .watchdog_i   (watchdog_q),
      .error_i      (error),
      .state_i      (state),
      .accept_o     (accept),
      .unit_reset_o (unit_reset),
      .fetch_start_o(fetch_start),
      .halt_o       (halt),
      .halting_o    (halting),
      .running_o    (running),
      .status_o     (status),
      .event_o      (events)
  );
  assign {resetting, failed, done, busy} = {status.resetting, status.failed, status.done, status.busy};
  assign told = {status.error_unit, status.error, status.error_index, status.waits};

  // The states of tw_control, by their numbers.
  typedef enum logic [2:0] {
    Idle,
    Clear,
    Run,
    Halt,
    Failed,
    Reset
  } state_e;
  state_e at;
  assign at = state_e'(dut.state_q);

  logic started_q;
  logic was_reset_q, was_running_q, was_draining_q, was_idle_q, was_failed_q, was_soft_q, was_fit_q;
  logic was_accepted_q, was_reset_unit_q, was_halting_q;
  logic [31:0] quiet_q;  // cycles of this run without progress, up to now
  logic [59:0] told_q;   // what they said
  logic [31:0] first_q;  // index that the first error gave
  logic idle;
  assign idle = !busy && !failed && !resetting;

  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    // The settings of a run are those of its start.
    if (!started_q || idle) watchdog_q <= watchdog_i;
    was_reset_q      <= rst_i;
    was_running_q    <= running && !rst_i;
    was_draining_q   <= (halt && !(failed && !busy)) || (busy && !running);
    was_idle_q       <= bus_idle_i;
    was_failed_q     <= failed && !rst_i && !resetting;
    was_soft_q       <= soft_reset_i;
    was_accepted_q   <= accept && !rst_i;
    was_reset_unit_q <= unit_reset;
    was_halting_q    <= halting;
    told_q           <= told;
    quiet_q          <= (running && !progress_i && !fetch_start && !rst_i) ? quiet_q + 32'd1 : '0;
    if (events[1])
      for (int u = 4; u >= 0; u--) if (error_valid_i[u]) first_q <= error_index_i[u];
    if (events[1] && error_valid_i == '0) first_q <= '0;
  end

  always_comb begin
    if (!started_q) assume (rst_i);
    else begin
      for (int u = 0; u < 5; u++)
        assume (error_code_i[u] != tw_pkg::ErrNone && error_code_i[u] != tw_pkg::ErrWatchdog);
      assume (watchdog_q < 32'hFFFF_0000);  // near its end the count of silence would wrap
      // States and what they show.
      assert (!(running && halt));
      assert (!(busy && done) && !(failed && done) && !(resetting && (busy || done)));
      assert (running == (busy && !halt && at == Run));
      if (running) assert (!failed && !done);
      // A halt is that of the cycle before, and begins with an error or with a soft reset.
      assert (halt == was_halting_q);
      assert (halt == ((failed || resetting) && at != Run));
      assert (halting == (!rst_i && (events[1] || soft_reset_i || failed || (resetting && !bus_idle_i))));
      // A start is taken when idle, and at once.
      assert (accept == (start_i && idle && !soft_reset_i));
      if (was_accepted_q) assert (busy && !running && !done && !failed);
      // Units are reset on an idle bus, before each run, and not within it.
      if (unit_reset && !rst_i) assert (bus_idle_i && !running);
      if (running && !was_running_q) assert (was_reset_unit_q && fetch_start);
      assert (fetch_start == (running && !was_running_q));
      // The bus drains: then the run has failed, begins, or the reset has ended.
      if (!was_reset_q && was_draining_q && was_idle_q && !was_soft_q)
        assert (running || (failed && !busy) || idle);
      // One event ends a run.
      assert (events != 2'b11);
      if (events != 2'b00) assert (running && !soft_reset_i);
      if (was_failed_q && !was_reset_q && failed && !was_soft_q)
        assert (told == told_q);
      if (failed) assert (status.error_index == first_q);
      if (was_failed_q && !was_reset_q && !was_soft_q) assert (failed);
      // Silence ends a run within the limit of the watchdog.
      if (running && watchdog_q != '0) assert (quiet_q <= watchdog_q);
      // What makes the above inductive.
      assert (at <= Reset);
      assert (dut.started_q == was_running_q || was_reset_q);
      if (running) assert (quiet_q == dut.quiet_q || !was_running_q);
      if (running && !was_running_q) assert (quiet_q == '0 && dut.quiet_q == '0);
      if (!was_running_q) assert (quiet_q == '0);
      assert (failed == (dut.code_q != tw_pkg::ErrNone));
      // The first cycle of a run follows a reset of the units.
      if (at == Run && !dut.started_q) assert (was_reset_unit_q || was_reset_q);
      if (was_running_q && at == Run) assert (dut.started_q);
      if (at == Run && was_reset_q) assert (1'b0);
      assert (failed == (at == Halt || at == Failed));
      if (done) assert (at == Idle);
      // Reachable, and a reset in the midst of it.
      cover (events == 2'b01);
      cover (halting && !halt && error_valid_i == '0 && soft_reset_i && running);
      cover (done && accept && !was_running_q);
      cover (failed && !busy && status.error == tw_pkg::ErrWatchdog && watchdog_q == 32'd2);
      cover (events == 2'b10 && error_valid_i == 5'b10100);
      cover (failed && !busy && soft_reset_i);
      cover (resetting && was_failed_q && !bus_idle_i);
      cover (rst_i && running && !fetch_start);
      cover (busy && !running && !bus_idle_i && was_accepted_q);
    end
  end
endmodule
