// SPDX-License-Identifier: Apache-2.0
// Run control: start, completion, first error, watchdog, and a soft reset that drains the bus.
module tw_control (
    input  logic                  clk_i,
    input  logic                  rst_i,
    input  logic                  start_i,           // taken when idle, else without any effect
    input  logic                  soft_reset_i,      // goes before a start in the same cycle
    input  logic                  finish_i,          // FINISH retired
    input  logic                  bus_idle_i,        // nothing in flight on AXI
    input  logic                  progress_i,        // any unit advanced
    input  logic           [31:0] watchdog_i,        // limit in cycles; 0: never
    input  tw_pkg::error_t        error_i      [5],  // by unit, fetch last
    input  tw_pkg::wait_e         state_i      [4],
    output logic                  accept_o,          // start_i is taken
    output logic                  unit_reset_o,      // clears every unit
    output logic                  fetch_start_o,
    output logic                  halt_o,            // stop issuing, let the bus drain
    output logic                  halting_o,         // halt_o from the next cycle on
    output logic                  running_o,
    output tw_pkg::status_t       status_o,
    output logic           [ 1:0] event_o            // done, error
);
  typedef enum logic [2:0] {
    Idle,    // ready, or done; nothing is in flight
    Clear,   // reset the units before a run, once the bus is idle
    Run,     // a program runs
    Halt,    // error: the bus drains
    Failed,  // error: waits for a soft reset
    Reset    // soft reset: the bus drains
  } state_e;

  state_e state_q, state_d;
  logic done_q, any_error, watchdog_error;
  logic [31:0] quiet_q;
  tw_pkg::error_e code_q, code;
  tw_pkg::error_unit_e from_q, from;
  tw_pkg::index_t index_q, index;
  logic [15:0] waits_q;
  logic enter_error, halt_q;
  logic started_q;  // the program's first cycle is over

  assign watchdog_error = (watchdog_i != '0) && (quiet_q >= watchdog_i);

  always_comb begin
    any_error = watchdog_error;
    code  = tw_pkg::ErrWatchdog;
    from  = tw_pkg::FromWatchdog;
    index = '0;
    for (int unsigned u = 5; u > 0; u--) begin
      if (error_i[u-1].valid) begin
        any_error = 1'b1;
        code  = tw_pkg::error_e'(error_i[u-1].code);
        from  = tw_pkg::error_unit_e'(4'(u - 1));
        index = error_i[u-1].index;
      end
    end
  end

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle: if (start_i) state_d = Clear;
      Clear: if (bus_idle_i) state_d = Run;
      Run: begin
        if (any_error) state_d = Halt;
        else if (finish_i) state_d = Idle;
      end
      Halt: if (bus_idle_i) state_d = Failed;
      Failed: ;
      Reset: if (bus_idle_i) state_d = Idle;
      default: state_d = Idle;
    endcase
    if (soft_reset_i) state_d = Reset;
  end

  // A soft reset in the same cycle leaves no trace of the run's end.
  assign accept_o      = (state_q == Idle) && start_i && !soft_reset_i;
  assign enter_error   = (state_q == Run) && any_error && !soft_reset_i;
  assign halt_o        = halt_q;
  assign halting_o     = !rst_i && (state_d == Halt || state_d == Failed || state_d == Reset);
  assign running_o     = state_q == Run;
  assign unit_reset_o  = rst_i || ((state_q == Clear || state_q == Reset) && bus_idle_i);
  assign fetch_start_o = (state_q == Run) && !started_q;
  assign status_o      = '{
      resetting: state_q == Reset,
      failed: code_q != tw_pkg::ErrNone,
      done: done_q,
      busy: state_q == Clear || state_q == Run || state_q == Halt,
      error: code_q,
      error_unit: from_q,
      error_index: index_q,
      waits: waits_q
  };
  assign event_o      = {enter_error, (state_q == Run) && finish_i && !any_error && !soft_reset_i};

  always_ff @(posedge clk_i) begin
    started_q <= state_q == Run;
    quiet_q   <= (state_q == Run && !progress_i && started_q) ? quiet_q + 1'b1 : '0;
    if (enter_error) begin
      code_q  <= code;
      from_q  <= from;
      index_q <= index;
      for (int unsigned u = 0; u < 4; u++) waits_q[u*4+:4] <= state_i[u];
    end
    if (event_o[0]) done_q <= 1'b1;
    // At once: a status is never that of two runs.
    if (rst_i || accept_o || soft_reset_i || state_q == Clear || state_q == Reset) begin
      done_q  <= 1'b0;
      code_q  <= tw_pkg::ErrNone;
      from_q  <= tw_pkg::FromLoad;
      index_q <= '0;
      waits_q <= '0;
    end
    halt_q    <= halting_o;
    if (rst_i) state_q <= Idle;
    else state_q <= state_d;
  end
endmodule
