// SPDX-License-Identifier: Apache-2.0
// Descriptors that a core runs one after another, and what became of each.
//
// A descriptor holds what a run needs, a tag, and whether the scratchpads are zeroed before it. The
// core itself refuses what lies outside the descriptor's memory. An error ends a descriptor and not
// the queue: the core is reset and the next one begins. None begins while the completions are full.
//
// While a descriptor runs, the core is the queue's: a start of the window has no effect. A soft
// reset of the window ends the descriptor. An error of the window's own run is the host's to read:
// no descriptor begins before the host's soft reset.
module tw_queue #(
    parameter int unsigned Depth          = 8,      // descriptors, and completions
    parameter logic [39:0] ScrubInsnBase  = 40'd0,  // of the program that zeroes the scratchpads
    parameter logic [31:0] ScrubInsnCount = 32'd0,
    parameter logic [38:0] ScrubMemSize   = 39'd0
) (
    input  logic              clk_i,
    input  logic              rst_i,
    input  logic              enable_i,     // the next descriptor may begin
    input  logic [      47:0] now_i,        // cycles since the reset
    // registers: whole words
    input  logic              write_i,
    input  logic [      11:0] write_addr_i,
    input  logic [      31:0] write_data_i,
    input  logic [      11:0] read_addr_i,
    output logic [      31:0] read_data_o,  // follows the address within the cycle
    output logic              irq_o,        // level
    // core
    output logic              active_o,     // the core is the queue's
    output logic              scrub_o,      // it runs the program that zeroes the scratchpads
    output logic              start_o,      // one cycle
    output logic              soft_reset_o, // one cycle
    output tw_pkg::settings_t settings_o,
    input  logic [      10:0] attributes_i, // of the window
    input  tw_pkg::status_t   status_i
);
  localparam int unsigned PageBits = 12;  // bases and sizes are whole pages of 4 KiB
  localparam int unsigned CountBits = $clog2(Depth) + 1;
  localparam logic [31:0] ScrubWatchdog = 32'h0001_0000;  // cycles without progress

  typedef struct packed {
    logic                 scrub;
    logic [31:0]          tag;
    logic [31:0]          watchdog;
    logic [38:PageBits]   mem_size;
    logic [39:PageBits]   mem_base;
    logic [31:0]          insn_count;
    logic [39:PageBits]   insn_base;
  } descriptor_t;

  typedef struct packed {
    logic [47:0] cycles;
    logic [47:0] begin_time;
    logic [15:0] waits;
    logic [31:0] error_index;
    logic        scrub;    // what follows is the scrub's
    logic        was_reset;
    logic        failed;
    logic        done;
    logic [ 3:0] error_unit;
    logic [ 7:0] error;
    logic [31:0] tag;
  } completion_t;

  typedef enum logic [2:0] {
    Idle,      // nothing to do, or nothing may begin
    Scrub,     // start the scrub
    Scrubbing, // it runs
    Start,     // start the descriptor's program
    Run,       // it runs
    Recover,   // reset a core that failed
    Settle,    // until it is ready again
    Report     // a completion for the descriptor
  } state_e;

  state_e state_q, state_d;
  descriptor_t next_q, current;
  completion_t result_q, oldest;
  logic push, pop, begins, held, ended, valid, full, done_valid, done_full, done_pop;
  logic [CountBits-1:0] count, done_count;
  logic dropped_q, irq_enable_q, irq_q;
  logic started_q;  // a run of the descriptor was asked for

  // ---------------------------------------------------------------------------------------
  // Sequence
  assign ended  = !status_i.busy && !status_i.resetting;
  assign held   = state_q == Idle && status_i.failed;  // by the window's error
  assign begins = enable_i && valid && !done_full && ended && !held;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle: if (begins) state_d = current.scrub ? Scrub : Start;
      Scrub: state_d = ended ? Scrubbing : Idle;
      Scrubbing: if (ended) state_d = status_i.done ? Start : status_i.failed ? Recover : Report;
      // A start of the window may have come first: the descriptor has not begun. Behind its scrub a
      // soft reset may have: it ends the descriptor.
      Start: state_d = ended || started_q ? Run : Idle;
      Run: if (ended) state_d = status_i.failed ? Recover : Report;
      Recover: state_d = Settle;
      Settle: if (ended) state_d = Report;
      Report: state_d = Idle;
      default: state_d = Idle;
    endcase
  end

  assign active_o     = state_q != Idle;
  assign scrub_o      = state_q == Scrub || state_q == Scrubbing;
  assign start_o      = (state_q == Scrub || state_q == Start) && ended;
  assign soft_reset_o = state_q == Recover;
  always_comb begin
    settings_o = '{
        insn_base: {current.insn_base, PageBits'(0)},
        insn_count: current.insn_count,
        mem_base: {current.mem_base, PageBits'(0)},
        mem_size: {current.mem_size, PageBits'(0)},
        watchdog: current.watchdog,
        attributes: attributes_i
    };
    if (scrub_o) begin
      settings_o = '{
          insn_base: ScrubInsnBase,
          insn_count: ScrubInsnCount,
          mem_base: '0,
          mem_size: ScrubMemSize,
          watchdog: ScrubWatchdog,
          attributes: attributes_i
      };
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) state_q <= Idle;
    else state_q <= state_d;
    if (state_q == Idle) started_q <= 1'b0;
    if (start_o) begin
      started_q           <= 1'b1;
      result_q.tag        <= current.tag;
      result_q.scrub      <= scrub_o;
      result_q.begin_time <= now_i;
      // The first cycle of a run clears the units; the counter of the core begins behind it.
      result_q.cycles     <= '1;
    end else if (status_i.busy) begin
      result_q.cycles <= result_q.cycles + 1'b1;
    end
    if ((state_q == Run || state_q == Scrubbing) && ended) begin
      result_q.done        <= status_i.done;
      result_q.failed      <= status_i.failed;
      result_q.was_reset   <= !status_i.done && !status_i.failed;
      result_q.error       <= status_i.error;
      result_q.error_unit  <= status_i.error_unit;
      result_q.error_index <= status_i.error_index;
      result_q.waits       <= status_i.waits;
    end
  end

  // ---------------------------------------------------------------------------------------
  // Queues
  assign push = write_i && write_addr_i == tw_system_pkg::RegQueuePush;
  assign pop  = state_q == Report;
  assign done_pop = write_i && write_addr_i == tw_system_pkg::RegCompletionPop;

  tw_fifo #(
      .Width($bits(descriptor_t)),
      .Depth(Depth)
  ) u_descriptors (
      .clk_i,
      .rst_i,
      .push_i (push && !full),
      .data_i ({write_data_i[0], next_q[$bits(descriptor_t)-2:0]}),
      .pop_i  (pop),
      .data_o (current),
      .valid_o(valid),
      .full_o (full),
      .count_o(count)
  );
  tw_fifo #(
      .Width($bits(completion_t)),
      .Depth(Depth)
  ) u_completions (
      .clk_i,
      .rst_i,
      .push_i (pop),
      .data_i (result_q),
      .pop_i  (done_pop),
      .data_o (oldest),
      .valid_o(done_valid),
      .full_o (done_full),
      .count_o(done_count)
  );

  // ---------------------------------------------------------------------------------------
  // Registers
  assign irq_o = irq_q;
  always_ff @(posedge clk_i) begin
    if (write_i) begin
      unique case (write_addr_i)
        tw_system_pkg::RegDescInsnBaseLo: next_q.insn_base[31:PageBits] <= write_data_i[31:PageBits];
        tw_system_pkg::RegDescInsnBaseHi: next_q.insn_base[39:32] <= write_data_i[7:0];
        tw_system_pkg::RegDescInsnCount: next_q.insn_count <= write_data_i;
        tw_system_pkg::RegDescMemBaseLo: next_q.mem_base[31:PageBits] <= write_data_i[31:PageBits];
        tw_system_pkg::RegDescMemBaseHi: next_q.mem_base[39:32] <= write_data_i[7:0];
        tw_system_pkg::RegDescMemSizeLo: next_q.mem_size[31:PageBits] <= write_data_i[31:PageBits];
        tw_system_pkg::RegDescMemSizeHi: next_q.mem_size[38:32] <= write_data_i[6:0];
        tw_system_pkg::RegDescWatchdog: next_q.watchdog <= write_data_i;
        tw_system_pkg::RegDescTag: next_q.tag <= write_data_i;
        tw_system_pkg::RegQueueIrqEnable: irq_enable_q <= write_data_i[0];
        default: ;
      endcase
    end
    irq_q <= irq_enable_q && done_valid;
    if (push && full) dropped_q <= 1'b1;
    if (rst_i) begin
      next_q       <= '0;
      irq_enable_q <= 1'b0;
      irq_q        <= 1'b0;
      dropped_q    <= 1'b0;
    end
  end

  always_comb begin
    unique case (read_addr_i)
      tw_system_pkg::RegDescInsnBaseLo: read_data_o = {next_q.insn_base[31:PageBits], PageBits'(0)};
      tw_system_pkg::RegDescInsnBaseHi: read_data_o = 32'(next_q.insn_base[39:32]);
      tw_system_pkg::RegDescInsnCount: read_data_o = next_q.insn_count;
      tw_system_pkg::RegDescMemBaseLo: read_data_o = {next_q.mem_base[31:PageBits], PageBits'(0)};
      tw_system_pkg::RegDescMemBaseHi: read_data_o = 32'(next_q.mem_base[39:32]);
      tw_system_pkg::RegDescMemSizeLo: read_data_o = {next_q.mem_size[31:PageBits], PageBits'(0)};
      tw_system_pkg::RegDescMemSizeHi: read_data_o = 32'(next_q.mem_size[38:32]);
      tw_system_pkg::RegDescWatchdog: read_data_o = next_q.watchdog;
      tw_system_pkg::RegDescTag: read_data_o = next_q.tag;
      tw_system_pkg::RegQueueStatus: read_data_o = {
        13'd0, held, dropped_q, active_o, 8'(done_count), 8'(count)
      };
      tw_system_pkg::RegQueueIrqEnable: read_data_o = 32'(irq_enable_q);
      tw_system_pkg::RegCompletionTag: read_data_o = oldest.tag;
      tw_system_pkg::RegCompletionStatus: read_data_o = {
        12'd0, oldest.scrub, oldest.was_reset, oldest.failed, oldest.done,
        4'd0, oldest.error_unit, oldest.error
      };
      tw_system_pkg::RegCompletionErrorInsn: read_data_o = oldest.error_index;
      tw_system_pkg::RegCompletionWaitState: read_data_o = 32'(oldest.waits);
      tw_system_pkg::RegCompletionBeginLo: read_data_o = oldest.begin_time[31:0];
      tw_system_pkg::RegCompletionBeginHi: read_data_o = 32'(oldest.begin_time[47:32]);
      tw_system_pkg::RegCompletionCyclesLo: read_data_o = oldest.cycles[31:0];
      tw_system_pkg::RegCompletionCyclesHi: read_data_o = 32'(oldest.cycles[47:32]);
      default: read_data_o = '0;
    endcase
  end

  logic unused;
  assign unused = next_q.scrub;
endmodule
