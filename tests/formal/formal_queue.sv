// SPDX-License-Identifier: Apache-2.0
// Properties of tw_queue with the tw_control of its core: every descriptor that is taken gets one
// completion, in order and with its tag, which says what became of its last run; a run has the
// descriptor's settings and the window's attributes, behind its scrub if it asks for one, whose
// settings are constant; the host's start has no effect meanwhile, and behind the host's soft reset
// nothing of the descriptor begins any more. The queue resets its own runs alone: an error of the
// window's stands until the host's soft reset.
module formal_queue (
    input logic        clk_i,
    input logic        rst_i,
    input logic        enable_i,
    input logic        write_i,
    input logic [11:0] write_addr_i,
    input logic [31:0] write_data_i,
    input logic        host_start_i,
    input logic        host_reset_i,
    input logic        finish_i,
    input logic        error_i,
    input logic [ 7:0] error_code_i,
    input logic        bus_idle_i,
    input logic [10:0] attributes_i,
    input logic [ 2:0] watched_i      // descriptor that is followed, modulo 8: any, but constant
);
  localparam int unsigned Depth = 2;

  logic started_q, active, scrub, queue_start, queue_reset, accept, irq;
  logic unit_reset, fetch_start, halt, halting, running;
  logic [1:0] events;
  logic [2:0] watched_q;
  logic [31:0] read_data;
  tw_pkg::settings_t settings;
  tw_pkg::status_t status;
  tw_pkg::error_t error[5];
  tw_pkg::wait_e state[4];
  for (genvar u = 0; u < 5; u++) begin : gen_error
    assign error[u] = '{valid: error_i && u == 0, code: error_code_i, index: '0};
  end
  for (genvar u = 0; u < 4; u++) begin : gen_state
    assign state[u] = tw_pkg::wait_e'(0);
  end

  tw_queue #(
      .Depth         (Depth),
      .ScrubInsnBase (40'h1000),
      .ScrubInsnCount(32'd7),
      .ScrubMemSize  (39'h2000)
  ) dut (
      .clk_i,
      .rst_i,
      .enable_i,
      .now_i       ('0),
      .write_i,
      .write_addr_i,
      .write_data_i,
      .read_addr_i ('0),
      .read_data_o (read_data),
      .irq_o       (irq),
      .active_o    (active),
      .scrub_o     (scrub),
      .start_o     (queue_start),
      .soft_reset_o(queue_reset),
      .settings_o  (settings),
      .attributes_i,
      .status_i    (status)
  );
  // As in tw_core_slot.
  tw_control core (
      .clk_i,
      .rst_i,
      .start_i      (active ? queue_start : host_start_i),
      .soft_reset_i (host_reset_i || queue_reset),
      .finish_i,
      .bus_idle_i,
      .progress_i   (1'b1),
      .watchdog_i   ('0),
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

  // Descriptors taken and reported, and what the watched one was written with.
  logic taken, wanted, report, scrub_k_q;
  logic [2:0] taken_q, reported_q, waiting;
  logic [31:0] tag_q, count_q, watchdog_q, tag_k_q, count_k_q, watchdog_k_q;
  assign wanted  = write_i && write_addr_i == tw_system_pkg::RegQueuePush;
  assign taken   = wanted && waiting < 3'(Depth);
  assign waiting = taken_q - reported_q;
  assign report  = dut.pop;

  // What happened since the last report.
  logic begun_q;             // a run was asked for
  logic reset_q;             // the host reset it
  logic scrubbed_q;          // a scrub was accepted and ended well
  logic of_program_q;        // the last run that was accepted is the program's, or the scrub's
  logic finished_q, erred_q; // and so it ended
  logic window_erred_q;      // the host's own run, since its last reset
  logic asks, watched;
  assign asks    = active && queue_start;
  assign watched = waiting != '0 && reported_q == watched_q;  // the oldest is the watched one

  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    watched_q <= started_q ? watched_q : watched_i;
    if (write_i && write_addr_i == tw_system_pkg::RegDescTag) tag_q <= write_data_i;
    if (write_i && write_addr_i == tw_system_pkg::RegDescInsnCount) count_q <= write_data_i;
    if (write_i && write_addr_i == tw_system_pkg::RegDescWatchdog) watchdog_q <= write_data_i;
    if (taken && taken_q == watched_q) begin
      tag_k_q      <= tag_q;
      count_k_q    <= count_q;
      watchdog_k_q <= watchdog_q;
      scrub_k_q    <= write_data_i[0];
    end
    if (rst_i) begin
      taken_q    <= '0;
      reported_q <= '0;
      tag_q      <= '0;
      count_q    <= '0;
      watchdog_q <= '0;
    end else begin
      taken_q    <= taken_q + 3'(taken);
      reported_q <= reported_q + 3'(report);
    end
    window_erred_q <= !rst_i && !host_reset_i && (window_erred_q || (events[1] && !active));
    begun_q <= begun_q || asks;
    reset_q <= reset_q || (host_reset_i && (begun_q || asks));
    if (active && accept) begin
      of_program_q <= !scrub;
      finished_q   <= 1'b0;
      erred_q      <= 1'b0;
    end else if (begun_q) begin
      if (events[0]) finished_q <= 1'b1;
      if (events[1]) erred_q <= 1'b1;
      if (events[0] && !of_program_q) scrubbed_q <= 1'b1;
    end
    if (rst_i || report) begin
      begun_q      <= 1'b0;
      reset_q      <= 1'b0;
      scrubbed_q   <= 1'b0;
      of_program_q <= 1'b0;
      finished_q   <= 1'b0;
      erred_q      <= 1'b0;
    end
  end

  always_comb begin
    if (!started_q) assume (rst_i);
    else if (!rst_i) begin
      if (error_i) assume (error_code_i != '0);  // a code is an error's

      // Completions
      assert (dut.count == 2'(waiting) && waiting <= 3'(Depth));
      if (report) begin
        assert (waiting != '0 && !dut.done_full);
        assert (begun_q);
        assert ($onehot({dut.result_q.done, dut.result_q.failed, dut.result_q.was_reset}));
        if (dut.result_q.done) assert (of_program_q && finished_q && !dut.result_q.scrub);
        if (dut.result_q.failed) assert (erred_q && dut.result_q.scrub == !of_program_q);
        if (dut.result_q.was_reset) assert (reset_q);
        if (watched) assert (dut.result_q.tag == tag_k_q);
        cover (watched && watched_q == 3'd1 && dut.result_q.done);
        cover (watched && scrub_k_q && dut.result_q.done);
        cover (dut.result_q.failed && dut.result_q.scrub);
        cover (dut.result_q.was_reset && !dut.result_q.scrub && of_program_q);
      end

      // Runs
      if (asks) begin
        assert (!(begun_q && reset_q));
        assert (waiting != '0);
        assert (settings.attributes == attributes_i);
        if (scrub) begin
          assert (!begun_q);
          assert (settings.insn_count == 32'd7 && settings.insn_base == 40'h1000);
          assert (settings.watchdog == 32'h10000 && settings.mem_size == 39'h2000);
        end
        if (watched) begin
          assert (!scrub || scrub_k_q);
          if (!scrub) begin
            assert (settings.insn_count == count_k_q && settings.watchdog == watchdog_k_q);
            assert (!scrub_k_q || scrubbed_q);
          end
        end
      end
      if (active && accept) assert (queue_start);

      // The window's error
      if (queue_reset) assert (begun_q);
      if (window_erred_q) assert (status.failed && !active);
      cover (window_erred_q && enable_i && waiting != '0);
    end
  end
endmodule
