// SPDX-License-Identifier: Apache-2.0
// STORE unit: copies OUT tiles to strided DRAM regions.
//
// `issue` pops tokens and cuts the region into write bursts; `data` reads OUT and streams the
// beats of the announced bursts without a gap; an instruction retires with the response of its
// last burst. When halted, the beats of announced bursts still go out, with no strobe set.
module tw_store #(
    parameter tw_pkg::config_t Config = '0,  // of the core
    parameter tw_pkg::sizes_t Sizes = tw_pkg::sizes_of(Config),
    localparam int unsigned BeatBytes = Config.axi_data_bits / 8,
    localparam int unsigned BurstBeats = Config.axi_burst_beats,
    localparam int unsigned OutAddrBits = $clog2(Sizes.out_depth)
) (
    input  logic                               clk_i,
    input  logic                               rst_i,
    input  logic                               halt_i,
    input  logic        [                39:0] mem_base_i,
    input  logic        [                39:0] mem_size_i,
    input  tw_pkg::queue_t                     queue_i,
    output tw_pkg::unit_t                      unit_o,
    // OUT scratchpad
    output logic                               out_read_o,
    output logic        [     OutAddrBits-1:0] out_addr_o,
    output logic        [                 9:0] out_slice_o,
    output logic        [                 4:0] out_lane_o,
    input  logic        [     BeatBytes*8-1:0] out_data_i,
    // AXI4 write channels
    output logic        [                39:0] awaddr_o,
    output logic        [                 7:0] awlen_o,
    output logic                               awvalid_o,
    input  logic                               awready_i,
    output logic        [     BeatBytes*8-1:0] wdata_o,
    output logic        [       BeatBytes-1:0] wstrb_o,
    output logic                               wlast_o,
    output logic                               wvalid_o,
    input  logic                               wready_i,
    input  logic        [                 1:0] bresp_i,
    input  logic                               bvalid_i,
    // status
    output logic                               bus_idle_o,     // no write in flight
    output logic                               burst_o,        // a burst was accepted by the bus
    output logic                               beat_o          // a beat was accepted by the bus
);
  localparam int unsigned BeatShift = $clog2(BeatBytes);
  localparam int unsigned InFlight = 8;  // instructions between issue and their last beat

  typedef logic [19:0] tile_t;

  tw_pkg::sizes_t sizes;
  tw_sizes #(
      .Elaborated(Sizes)
  ) u_sizes (
      .sizes_o(sizes)
  );

  // Geometry of OUT.
  logic [3:0] tile_shift;
  logic wide;  // a tile has at least a beat
  assign tile_shift = 4'(sizes.out_shift);
  assign wide = tile_shift >= 4'(BeatShift);

  // ---------------------------------------------------------------------------------------
  // Issue stage
  typedef enum logic [1:0] {
    Idle,   // take an instruction
    Setup,  // start the walkers
    Run     // announce bursts
  } issue_e;

  typedef struct packed {
    tw_pkg::index_t       index;
    tile_t                sram_base;
    logic [BeatShift-1:0] base;
    tw_pkg::first_step_t  first;
    logic [BeatShift-1:0] y_step;
    logic [BeatShift-1:0] z_step;
    logic [15:0]          x_size;
    logic [15:0]          y_size;
    logic [15:0]          z_size;
  } flight_t;

  typedef struct packed {  // a burst in flight
    logic           last;  // last of its instruction
    logic [3:0]     push;
    tw_pkg::index_t index;
  } tag_t;

  issue_e issue_q, issue_d;
  tw_pkg::store_t head, cur_q;
  tw_pkg::index_t index_q;
  logic illegal_q, unaligned_q;  // it only errs
  logic tokens_ok, take;
  logic [39:0] y_step, z_step;
  logic burst_valid, burst_ready, burst_last, bursts_done;
  logic [39:0] burst_addr;
  logic [7:0] burst_len;
  logic burst_inside, announce;
  logic flight_push, flight_pop, flight_valid, flight_full;
  flight_t flight_in, flight_out;
  tag_t tag_in, tag_out;
  logic tag_valid, tag_full;
  logic len_valid, len_pop, len_full;
  logic [7:0] len_out;
  logic [3:0] unused_flight_count;
  logic [4:0] tag_count, unused_len_count;
  logic answer_q, fail_q;  // a response, taken into a register first
  logic aw_valid_q;
  logic [39:0] aw_addr_q;
  logic [7:0] aw_len_q;

  assign head = tw_pkg::store_t'(queue_i.entry.insn);
  assign tokens_ok = (queue_i.needs.pop & ~queue_i.tokens) == '0;
  assign take = (issue_q == Idle) && queue_i.valid && tokens_ok && !flight_full && !halt_i;
  assign y_step = 40'(cur_q.y_stride) << tile_shift;
  assign z_step = 40'(cur_q.z_stride) << tile_shift;
  assign flight_push = issue_q == Setup;
  assign flight_in = '{
      index: index_q,
      sram_base: tile_t'(cur_q.sram_base),
      base: cur_q.dram_offset[BeatShift-1:0],
      first: tw_pkg::first_of(6'(cur_q.dram_offset[BeatShift-1:0]), tile_shift, 1'b0,
                              cur_q.x_size, 4'(BeatShift)),
      y_step: y_step[BeatShift-1:0],
      z_step: z_step[BeatShift-1:0],
      x_size: cur_q.x_size,
      y_size: cur_q.y_size,
      z_size: cur_q.z_size
  };

  tw_bursts #(
      .BeatBytes (BeatBytes),
      .BurstBeats(BurstBeats)
  ) u_bursts (
      .clk_i,
      .rst_i,
      .start_i    (flight_push),
      .mem_size_i,
      .base_i     (cur_q.dram_offset),
      .y_step_i   (y_step),
      .z_step_i   (z_step),
      .row_bytes_i(28'(cur_q.x_size) << tile_shift),
      .y_size_i   (cur_q.y_size),
      .z_size_i   (cur_q.z_size),
      .valid_o    (burst_valid),
      .ready_i    (burst_ready),
      .addr_o     (burst_addr),
      .len_o      (burst_len),
      .inside_o   (burst_inside),
      .last_o     (burst_last),
      .done_o     (bursts_done)
  );

  // A burst outside the memory is taken and dropped: its error halts the unit.
  assign burst_ready = burst_valid && (!aw_valid_q || awready_i) &&
                       (tag_count < 5'(sizes.write_outstanding)) &&
                       !len_full && !halt_i;
  assign announce = burst_ready && burst_inside;

  always_comb begin
    issue_d = issue_q;
    unique case (issue_q)
      Idle: if (take) issue_d = Setup;
      Setup: issue_d = Run;
      Run: if (bursts_done) issue_d = Idle;
      default: issue_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    // What may be taken is copied; the state says whether it was.
    if (issue_q == Idle && queue_i.valid) begin
      {illegal_q, unaligned_q} <= {queue_i.needs.illegal, queue_i.needs.unaligned};
      cur_q   <= head;
      index_q <= queue_i.entry.index;
    end
    if (announce) begin
      aw_addr_q <= mem_base_i + burst_addr;
      aw_len_q  <= burst_len;
    end
    if (rst_i) begin
      issue_q    <= Idle;
      aw_valid_q <= 1'b0;
    end else begin
      if (!halt_i) issue_q <= issue_d;
      if (announce) aw_valid_q <= 1'b1;
      else if (awready_i) aw_valid_q <= 1'b0;
    end
  end
  assign awaddr_o  = aw_addr_q;
  assign awlen_o   = aw_len_q;
  assign awvalid_o = aw_valid_q;
  assign burst_o   = aw_valid_q && awready_i;

  tw_fifo #(
      .Width($bits(flight_t)),
      .Depth(InFlight)
  ) u_flight (
      .clk_i,
      .rst_i,
      .push_i (flight_push && !halt_i),
      .data_i (flight_in),
      .pop_i  (flight_pop),
      .data_o (flight_out),
      .valid_o(flight_valid),
      .full_o (flight_full),
      .count_o(unused_flight_count)
  );

  // Announced bursts whose beats have not started, and bursts without a response.
  tw_fifo #(
      .Width(8),
      .Depth(16)
  ) u_lengths (
      .clk_i,
      .rst_i,
      .push_i (announce),
      .data_i (burst_len),
      .pop_i  (len_pop),
      .data_o (len_out),
      .valid_o(len_valid),
      .full_o (len_full),
      .count_o(unused_len_count)
  );
  assign tag_in = '{last: burst_last, push: cur_q.push, index: index_q};
  tw_fifo #(
      .Width($bits(tag_t)),
      .Depth(16)
  ) u_tags (
      .clk_i,
      .rst_i,
      .push_i (announce),
      .data_i (tag_in),
      .pop_i  (answer_q),
      .data_o (tag_out),
      .valid_o(tag_valid),
      .full_o (tag_full),
      .count_o(tag_count)
  );

  // ---------------------------------------------------------------------------------------
  // Data stage: one OUT read a beat, into a small FIFO that feeds the write channel
  flight_t act_q;
  logic act_valid_q;
  tile_t addr, addr_last;
  logic [9:0] slice;
  logic [4:0] lane, count;
  logic [7:0] beats_q;          // beats of the burst already read
  logic unused_beat_done, unused_row_done;
  logic all_done, read_beat, burst_end_beat, in_range;
  logic [BeatBytes-1:0] strobe, strobe1_q;
  logic read1_q, last1_q;
  logic fifo_valid, fifo_full;
  logic [2:0] fifo_count;
  logic [BeatBytes*9:0] fifo_out;

  assign in_range = addr_last < tile_t'(sizes.out_depth);
  // A beat is read when its burst is announced and the FIFO will have room for it.
  assign read_beat = len_valid && (act_valid_q || halt_i) &&
                     (fifo_count < 3'd3 || (fifo_count == 3'd3 && !read1_q));
  assign burst_end_beat = read_beat && (beats_q == len_out);
  assign len_pop = burst_end_beat;
  assign flight_pop = flight_valid && (!act_valid_q || (read_beat && all_done));

  always_comb begin
    strobe = '0;
    for (int unsigned b = 0; b < BeatBytes; b++) begin
      if (wide || ((b >> tile_shift) >= 32'(lane) && (b >> tile_shift) < 32'(lane + count)))
        strobe[b] = 1'b1;
    end
    if (halt_i) strobe = '0;
  end

  assign out_read_o  = read_beat && in_range;
  assign out_addr_o  = OutAddrBits'(addr);
  assign out_slice_o = slice;
  assign out_lane_o  = lane;

  tw_stepper #(
      .BeatBytes(BeatBytes)
  ) u_stepper (
      .clk_i,
      .start_i     (flight_pop),
      .tile_i      (flight_out.sram_base),
      .base_i      (flight_out.base),
      .first_i     (flight_out.first),
      .shift_i     (tile_shift),
      .parts_i     (1'b0),
      .x_size_i    (flight_out.x_size),
      .y_size_i    (flight_out.y_size),
      .z_size_i    (flight_out.z_size),
      .y_step_i    (flight_out.y_step),
      .z_step_i    (flight_out.z_step),
      .row_jump_i  ('0),
      .plane_jump_i('0),
      .step_i      (read_beat),
      .tile_o      (addr),
      .last_tile_o (addr_last),
      .slice_o     (slice),
      .lane_o      (lane),
      .count_o     (count),
      .beat_done_o (unused_beat_done),
      .row_done_o  (unused_row_done),
      .done_o      (all_done)
  );

  always_ff @(posedge clk_i) begin
    if (flight_pop) act_q <= flight_out;
    strobe1_q <= strobe;
    last1_q   <= burst_end_beat;
    if (rst_i) begin
      act_valid_q <= 1'b0;
      beats_q     <= '0;
      read1_q     <= 1'b0;
    end else begin
      if (flight_pop) act_valid_q <= 1'b1;
      else if (read_beat && all_done) act_valid_q <= 1'b0;
      if (read_beat) beats_q <= burst_end_beat ? '0 : beats_q + 1'b1;
      read1_q <= read_beat;
    end
  end

  tw_fifo #(
      .Width(BeatBytes * 9 + 1),
      .Depth(4)
  ) u_beats (
      .clk_i,
      .rst_i,
      .push_i (read1_q),
      .data_i ({last1_q, halt_i ? BeatBytes'(0) : strobe1_q, out_data_i}),
      .pop_i  (wready_i),
      .data_o (fifo_out),
      .valid_o(fifo_valid),
      .full_o (fifo_full),
      .count_o(fifo_count)
  );
  assign {wlast_o, wstrb_o, wdata_o} = fifo_out;
  assign wvalid_o = fifo_valid;
  assign beat_o   = fifo_valid && wready_i;

  // ---------------------------------------------------------------------------------------
  // Retirement, errors, state
  logic retire, idle;
  tw_pkg::wait_e state;
  tw_pkg::error_t error;
  assign unit_o = '{
      take: take,
      token_pop: take ? queue_i.needs.pop : '0,
      token_push: retire && !halt_i ? tag_out.push : '0,
      retire: retire,
      retire_index: tag_out.index,
      idle: idle,
      state: state,
      error: error
  };
  always_ff @(posedge clk_i) begin
    answer_q <= bvalid_i && !rst_i;
    fail_q   <= bresp_i[1];
  end
  assign retire     = answer_q && tag_out.last && tag_valid;
  assign bus_idle_o = !aw_valid_q && !tag_valid && !fifo_valid && !read1_q;
  assign idle       = (issue_q == Idle) && bus_idle_o && !flight_valid && !act_valid_q;

  always_comb begin
    error.valid = 1'b0;
    error.code  = illegal_q ? tw_pkg::ErrIllegalField : tw_pkg::ErrDramAlignment;
    error.index = index_q;
    // Of an instruction that works before those of one that starts.
    if (burst_valid && !burst_inside) begin
      error = '{valid: 1'b1, code: tw_pkg::ErrDramRange, index: index_q};
    end else if (read_beat && act_valid_q && !in_range) begin
      error = '{valid: 1'b1, code: tw_pkg::ErrSramRange, index: act_q.index};
    end else if (answer_q && fail_q) begin
      error = '{valid: 1'b1, code: tw_pkg::ErrAxiWrite, index: tag_out.index};
    end else begin
      error.valid = issue_q == Setup && (illegal_q || unaligned_q);
    end
    if (halt_i) error.valid = 1'b0;
  end

  always_comb begin
    if (beat_o || burst_ready || issue_q == Setup || take || read1_q) state = tw_pkg::WaitBusy;
    else if (issue_q == Idle && queue_i.valid && !tokens_ok) begin
      state = tw_pkg::token_wait(tw_pkg::UnitStore, queue_i.needs.pop, queue_i.tokens);
    end else if (!idle || queue_i.valid) state = tw_pkg::WaitMemory;
    else state = tw_pkg::WaitIdle;
  end

  logic unused;
  assign unused = ^{head, cur_q, act_q, addr, tag_full, fifo_full, bresp_i[0],
                    burst_addr[BeatShift-1:0]};
endmodule
