// SPDX-License-Identifier: Apache-2.0
// LOAD unit: copies strided DRAM regions into scratchpads, with padding.
//
// Two stages run decoupled: `issue` pops tokens, cuts the region into read bursts and writes
// the padding in cycles without arriving data; `data` places every arriving beat. Address
// issue therefore runs ahead of data across instructions, and data is never back-pressured.
module tw_load #(
    parameter tw_pkg::config_t Config = '0,  // of the core
    parameter tw_pkg::sizes_t Sizes = tw_pkg::sizes_of(Config),
    localparam int unsigned BeatBytes = Config.axi_data_bits / 8,
    localparam int unsigned BurstBeats = Config.axi_burst_beats
) (
    input  logic                               clk_i,
    input  logic                               rst_i,
    input  logic                               halt_i,
    input  tw_pkg::queue_t                     queue_i,
    output tw_pkg::unit_t                      unit_o,
    // ACC bank locks
    input  logic        [tw_pkg::AccBanks-1:0] acc_busy_i,    // held by other units
    output logic        [tw_pkg::AccBanks-1:0] acc_lock_o,
    input  logic        [                39:0] mem_size_i,
    // read engine
    output logic                               req_valid_o,
    input  logic                               req_ready_i,
    output logic        [                39:0] req_addr_o,
    output logic        [                 7:0] req_len_o,
    output logic                               req_inside_o,  // within mem_size_i
    input  logic                               beat_valid_i,
    input  logic        [     BeatBytes*8-1:0] beat_data_i,
    // scratchpad write, one beat or one padding tile a cycle
    output logic        [                 7:0] write_mem_o,   // one-hot by memory
    output tw_pkg::spad_write_t                write_at_o,
    output logic        [     BeatBytes*8-1:0] write_data_o,
    // status
    output logic                               pad_step_o,    // a padded row is over
    output tw_pkg::index_t                     issue_index_o  // instruction that asks for data
);
  localparam int unsigned BeatShift = $clog2(BeatBytes);
  localparam int unsigned InFlight = 8;  // instructions between issue and retirement
  localparam int unsigned DiagBytes = 1 << Sizes.diag_shift;  // of a WGT tile's diagonal
  // Blocks of a WGT tile that can have it.
  localparam int unsigned DiagBlocks = 1 << (Sizes.wgt_shift - 2 * Sizes.diag_shift);

  // Two bits wider than any legal index, so that an overrun shows before it wraps.
  typedef logic [19:0] tile_t;

  tw_pkg::sizes_t sizes;
  tw_sizes #(
      .Elaborated(Sizes)
  ) u_sizes (
      .sizes_o(sizes)
  );

  // Geometry of each memory, by its number; that of OUT is unused.
  logic [3:0] diag_shift;
  assign diag_shift = 4'(sizes.diag_shift);
  logic [7:0][3:0] tile_shift;
  assign tile_shift = '{
      tw_pkg::MemInp: 4'(sizes.inp_shift),
      tw_pkg::MemWgt: 4'(sizes.wgt_shift),
      tw_pkg::MemAcc: 4'(sizes.acc_shift),
      tw_pkg::MemUop: 4'd3,
      tw_pkg::MemParam: 4'(sizes.par_shift),
      tw_pkg::MemRes: 4'(sizes.out_shift),
      tw_pkg::MemTable: 4'(BeatShift),
      default: 4'd0
  };
  logic has_int4;  // weights of 4 bits can be unpacked
  assign has_int4 = sizes.int4_weights != '0;
  logic [31:0] bank_shift;
  assign bank_shift = sizes.acc_bank_shift;
  typedef logic [7:0][19:0] depths_t;
  depths_t depth;
  assign depth = '{
      tw_pkg::MemInp: 20'(sizes.inp_depth),
      tw_pkg::MemWgt: 20'(sizes.wgt_depth),
      tw_pkg::MemAcc: 20'(sizes.acc_depth),
      tw_pkg::MemUop: 20'(sizes.uop_depth),
      tw_pkg::MemParam: 20'(sizes.par_depth),
      tw_pkg::MemRes: 20'(sizes.res_depth),
      tw_pkg::MemTable: 20'(sizes.table_depth),
      default: 20'd0
  };

  // ---------------------------------------------------------------------------------------
  // Issue stage
  typedef enum logic [2:0] {
    Idle,    // take an instruction
    Setup,   // start the walkers
    Run,     // offer bursts, write padding
    Flush    // padding only: wait until earlier data is in place
  } issue_e;

  // What the data stage needs to know.
  typedef struct packed {
    tw_pkg::index_t       index;
    logic [3:0]           push;
    logic [3:0]           acc_banks;
    logic [2:0]           memory;
    tile_t                depth;       // of that memory
    tile_t                sram_base;
    logic [BeatShift-1:0] base;
    tw_pkg::first_step_t  first;
    logic [BeatShift-1:0] y_step;
    logic [BeatShift-1:0] z_step;
    logic [15:0]          x_size;
    logic [15:0]          y_size;
    logic [15:0]          z_size;
    logic [6:0]           row_jump;
    tile_t                plane_jump;
    logic [3:0]           shift;
    logic                 diagonal;
    logic [3:0]           phase;
    logic                 int4;
  } flight_t;

  issue_e issue_q, issue_d;
  tw_pkg::load_t head, cur_q;
  tw_pkg::index_t index_q;
  logic illegal_q, unaligned_q;  // it only errs
  tile_t depth_q;  // of the memory
  logic has_data_q, has_pad_q;  // of cur_q: it copies something; it pads
  logic tokens_ok, banks_ok, take, to_acc;
  logic want, wants_q;  // the head needs ACC banks, and may have them locked
  logic [3:0] shift, shift_q;
  logic [39:0] y_numbers, z_numbers;  // steps without the scales of tiles
  logic [27:0] row_numbers;
  logic [39:0] y_step, z_step;
  logic [27:0] row_bytes;
  // Of the padded region, in tiles. `keep`: Yosys 0.70 would move the register of the width and
  // the sum before it into the multiplier, where the other readers of the register do not see it
  // (docs/results/yosys-xilinx-dsp.md).
  (* keep *) logic [16:0] width_q;
  logic [16:0] height_q;
  tile_t width;
  tile_t first_q;          // the first one without rows above
  tile_t top_q, around_q;  // tiles of the padding rows above a plane, and between two
  logic bursts_done, bursts_last;
  logic pads_done, pads_write, pads_full, pads_wait_q;
  tile_t pads_addr;
  logic setup_data, flight_push, flight_full, flight_valid, flight_pop;
  flight_t flight_in, flight_out;
  flight_t act_q;  // instruction whose data arrives
  logic retire_data;
  logic [3:0] unused_flight_count;
  logic issue_finished, pad_only_retire;
  logic data_idle;
  logic bursts_valid, bursts_room;
  logic arrived;                        // a beat, or one diagonal of it
  logic [BeatBytes*8-1:0] arrived_data;
  logic place;                          // it is placed: it has no scales

  assign head = tw_pkg::load_t'(queue_i.entry.insn);
  assign tokens_ok = (queue_i.needs.pop & ~queue_i.tokens) == '0;
  // Banks are locked a cycle before the take at least: from then on no other unit takes them.
  assign to_acc = queue_i.needs.banks != '0;
  assign banks_ok = !to_acc || (wants_q && (queue_i.needs.banks & acc_busy_i) == '0);
  assign want = (issue_q == Idle) && queue_i.valid && tokens_ok && to_acc && !flight_full && !halt_i;
  assign take = (issue_q == Idle) && queue_i.valid && tokens_ok && banks_ok && !flight_full &&
                !halt_i;

  assign shift = cur_q.diagonal ? diag_shift :
                 tile_shift[cur_q.memory] - 4'(cur_q.int4 && has_int4);
  assign y_numbers = 40'(cur_q.y_stride) << shift;
  assign z_numbers = 40'(cur_q.z_stride) << shift;
  assign row_numbers = 28'(cur_q.x_size) << shift;
  // Tiles of padding rows are modulo the address range: an overrun is caught by the range check of
  // each write. Their products have a cycle of their own: the flight is pushed in the first of Run.
  assign width = tile_t'(width_q);
  always_ff @(posedge clk_i) begin
    shift_q      <= shift;
    first_q      <= tile_t'(cur_q.sram_base) + tile_t'(cur_q.pad_left);
    top_q        <= tile_t'(cur_q.pad_top) * width;
    around_q     <= (tile_t'(cur_q.pad_top) + tile_t'(cur_q.pad_bottom)) * width;
    flight_push  <= setup_data && !halt_i && !rst_i;
  end

  assign setup_data = (issue_q == Setup) && has_data_q;
  assign flight_in = '{
      index: index_q,
      push: cur_q.push,
      acc_banks: cur_q.acc_banks,
      memory: cur_q.memory,
      depth: depth_q,
      sram_base: first_q + top_q,
      base: cur_q.dram_offset[BeatShift-1:0],
      first: tw_pkg::first_of(6'(cur_q.dram_offset[BeatShift-1:0]), shift_q, cur_q.diagonal,
                              cur_q.x_size, 4'(BeatShift)),
      y_step: y_step[BeatShift-1:0],
      z_step: z_step[BeatShift-1:0],
      x_size: cur_q.x_size,
      y_size: cur_q.y_size,
      z_size: cur_q.z_size,
      row_jump: 7'(cur_q.pad_left) + 7'(cur_q.pad_right),
      plane_jump: tile_t'(cur_q.pad_left) + tile_t'(cur_q.pad_right) + around_q,
      shift: shift_q,
      diagonal: cur_q.diagonal,
      phase: cur_q.phase & 4'(DiagBlocks - 1),
      int4: cur_q.int4 && has_int4
  };

  tw_bursts #(
      .BeatBytes (BeatBytes),
      .BurstBeats(BurstBeats)
  ) u_bursts (
      .clk_i,
      .rst_i,
      .start_i    (setup_data),
      .mem_size_i,
      .base_i     (cur_q.dram_offset),
      .y_step_i   (y_step),
      .z_step_i   (z_step),
      .row_bytes_i(row_bytes),
      .y_size_i   (cur_q.y_size),
      .z_size_i   (cur_q.z_size),
      .valid_o    (bursts_valid),
      .ready_i    (req_ready_i && bursts_room),
      .addr_o     (req_addr_o),
      .len_o      (req_len_o),
      .inside_o   (req_inside_o),
      .last_o     (bursts_last),
      .done_o     (bursts_done)
  );

  assign req_valid_o = bursts_valid && bursts_room;

  tw_padding u_padding (
      .clk_i,
      .rst_i,
      .start_i     ((issue_q == Setup) && has_pad_q),
      .base_i      (tile_t'(cur_q.sram_base)),
      .width_i     (width_q),
      .height_i    (height_q),
      .x_size_i    (cur_q.x_size),
      .y_size_i    (cur_q.y_size),
      .z_size_i    (cur_q.z_size),
      .pad_left_i  (cur_q.pad_left),
      .pad_right_i (cur_q.pad_right),
      .pad_top_i   (cur_q.pad_top),
      .valid_o     (pads_write),
      .ready_i     (!arrived && !pads_full && !pads_wait_q),
      .addr_o      (pads_addr),
      .step_o      (pad_step_o),
      .done_o      (pads_done)
  );
  assign pads_full = pads_addr >= depth_q;

  // Padding must not overtake data of an earlier instruction on its way to the same memory.
  logic [7:0][3:0] in_flight_q;  // instructions with data on the way, by memory
  logic [3:0] ahead, ahead_q;    // those before this one, to its memory
  logic passes;                  // one of them retires; this one only when its padding is done
  assign ahead  = issue_q == Setup ? in_flight_q[cur_q.memory] : ahead_q;
  assign passes = retire_data && act_q.memory == cur_q.memory;
  always_ff @(posedge clk_i) begin
    ahead_q     <= ahead - 4'(passes);
    pads_wait_q <= passes ? ahead > 4'd1 : ahead != '0;
    for (int unsigned m = 0; m < 8; m++) begin
      if (rst_i) in_flight_q[m] <= '0;
      else if ((setup_data && cur_q.memory == 3'(m)) && !(retire_data && act_q.memory == 3'(m)))
        in_flight_q[m] <= in_flight_q[m] + 1'b1;
      else if (!(setup_data && cur_q.memory == 3'(m)) && (retire_data && act_q.memory == 3'(m)))
        in_flight_q[m] <= in_flight_q[m] - 1'b1;
    end
  end

  always_comb begin
    issue_d         = issue_q;
    issue_finished  = 1'b0;
    pad_only_retire = 1'b0;
    unique case (issue_q)
      Idle: if (take) issue_d = Setup;
      Setup: issue_d = has_data_q ? Run : (has_pad_q ? Run : Flush);
      Run: begin
        if (bursts_done && pads_done) begin
          issue_finished = has_data_q;
          issue_d = has_data_q ? Idle : Flush;
        end
      end
      Flush: begin
        if (data_idle && !flight_valid) begin
          pad_only_retire = 1'b1;
          issue_d = Idle;
        end
      end
      default: issue_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    // What may be taken is copied; the state says whether it was.
    if (issue_q == Idle && queue_i.valid) begin
      {illegal_q, unaligned_q} <= {queue_i.needs.illegal, queue_i.needs.unaligned};
      cur_q    <= head;
      depth_q  <= depth[head.memory];
      index_q  <= queue_i.entry.index;
      has_data_q <= (head.x_size != '0) && (head.y_size != '0);
      has_pad_q  <= |{head.pad_left, head.pad_right, head.pad_top, head.pad_bottom};
      width_q  <= 17'(head.pad_left) + 17'(head.x_size) + 17'(head.pad_right);
      height_q <= 17'(head.pad_top) + 17'(head.y_size) + 17'(head.pad_bottom);
    end
    if (rst_i) issue_q <= Idle;
    else if (!halt_i) issue_q <= issue_d;
  end

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

  // ---------------------------------------------------------------------------------------
  // Data stage
  logic act_valid_q;                       // an instruction is being filled
  logic all_placed_q;                      // its beats are all placed
  logic [3:0] credit_q;                    // instructions whose issue is finished
  logic finished_q;                        // there is one
  tile_t addr;                             // next tile
  logic [9:0] slice;                       // next beat within a wide tile
  logic [4:0] lane, count;                 // narrow tiles of the next beat
  logic row_done, all_done;
  logic [3:0] phase_q;                     // block with the diagonal in this row
  logic beat_done;                         // nothing is left of the beat
  logic in_range, bank_ok;
  tile_t addr_last;

  assign in_range = addr_last < act_q.depth;
  assign bank_ok = (act_q.memory != tw_pkg::MemAcc) || act_q.acc_banks[2'(addr >> bank_shift)];

  assign retire_data = act_valid_q && finished_q &&
                       (all_placed_q || (place && all_done));
  assign flight_pop = flight_valid && (!act_valid_q || retire_data);
  assign data_idle = !act_valid_q;

  // A beat of several diagonals is placed one of them a cycle.
  tw_stepper #(
      .BeatBytes(BeatBytes)
  ) u_stepper (
      .clk_i,
      .start_i     (flight_pop),
      .tile_i      (flight_out.sram_base),
      .base_i      (flight_out.base),
      .first_i     (flight_out.first),
      .shift_i     (flight_out.shift),
      .parts_i     (flight_out.diagonal),
      .x_size_i    (flight_out.x_size),
      .y_size_i    (flight_out.y_size),
      .z_size_i    (flight_out.z_size),
      .y_step_i    (flight_out.y_step),
      .z_step_i    (flight_out.z_step),
      .row_jump_i  (flight_out.row_jump),
      .plane_jump_i(flight_out.plane_jump),
      .step_i      (place),
      .tile_o      (addr),
      .last_tile_o (addr_last),
      .slice_o     (slice),
      .lane_o      (lane),
      .count_o     (count),
      .beat_done_o (beat_done),
      .row_done_o  (row_done),
      .done_o      (all_done)
  );

  always_ff @(posedge clk_i) begin
    if (flight_pop) begin
      act_q        <= flight_out;
      phase_q      <= flight_out.phase;
      all_placed_q <= 1'b0;
    end else if (place) begin
      if (row_done) phase_q <= (phase_q + 4'd1) & 4'(DiagBlocks - 1);
      if (all_done) all_placed_q <= 1'b1;
    end
    if (rst_i) begin
      act_valid_q <= 1'b0;
      credit_q    <= '0;
      finished_q  <= 1'b0;
    end else begin
      if (flight_pop) act_valid_q <= 1'b1;
      else if (retire_data) act_valid_q <= 1'b0;
      if (issue_finished && !halt_i && !retire_data) begin
        credit_q   <= credit_q + 1'b1;
        finished_q <= 1'b1;
      end else if (retire_data && !(issue_finished && !halt_i)) begin
        credit_q   <= credit_q - 1'b1;
        finished_q <= credit_q != 4'd1;
      end
    end
  end

  // Scales of weights of 4 bits: a beat of them before the groups, a beat each, that they are for
  logic is_scales;
  logic [3:0] scale;  // of the beat that arrives
  assign place = arrived && !is_scales;
  if (Sizes.int4_weights > 1) begin : gen_scales
    logic has_scales, scaled;
    // As powers of two: beats with the numbers of a tile, those behind a beat of scales (which has
    // a scale for each), and the bytes of the tile's scales.
    logic [3:0] number_shift, chunk_shift, scale_shift;
    logic [BeatShift+1:0] chunk_last, chunk_q;  // beats since the last one of scales, and it
    logic [2*BeatBytes-1:0][3:0] scales_q;
    assign has_scales   = sizes.int4_weights > 32'd1;
    assign number_shift = tile_shift[tw_pkg::MemWgt] - 4'(BeatShift + 1);
    assign chunk_shift  = number_shift < 4'(BeatShift + 1) ? number_shift : 4'(BeatShift + 1);
    assign scale_shift  = number_shift - chunk_shift + 4'(BeatShift);
    assign chunk_last   = (BeatShift + 2)'(1) << chunk_shift;

    assign scaled    = cur_q.int4 && has_scales;
    assign y_step    = y_numbers + (scaled ? 40'(cur_q.y_stride) << scale_shift : '0);
    assign z_step    = z_numbers + (scaled ? 40'(cur_q.z_stride) << scale_shift : '0);
    assign row_bytes = row_numbers + (scaled ? 28'(cur_q.x_size) << scale_shift : '0);

    assign is_scales = act_q.int4 && has_scales && (chunk_q == '0);
    assign scale     = act_q.int4 && has_scales ? scales_q[(BeatShift+1)'(chunk_q-1'b1)] : '0;
    always_ff @(posedge clk_i) begin
      if (flight_pop) chunk_q <= '0;
      else if (arrived) chunk_q <= chunk_q == chunk_last ? '0 : chunk_q + 1'b1;
      if (arrived && is_scales) scales_q <= arrived_data;
    end
  end else begin : gen_no_scales
    assign y_step    = y_numbers;
    assign z_step    = z_numbers;
    assign row_bytes = row_numbers;
    assign is_scales = 1'b0;
    assign scale     = '0;
  end

  // ---------------------------------------------------------------------------------------
  // Beats on their way to the data stage
  if (DiagBytes >= BeatBytes) begin : gen_straight
    assign arrived      = beat_valid_i;
    assign arrived_data = beat_data_i;
    assign bursts_room  = 1'b1;
    logic unused_done;
    assign unused_done = beat_done;
  end else begin : gen_hold
    logic parts;  // a beat has several diagonals
    assign parts = diag_shift < 4'(BeatShift);
    tw_hold #(
        .BeatBytes (BeatBytes),
        .BurstBeats(BurstBeats)
    ) u_hold (
        .clk_i,
        .rst_i,
        .start_i     (setup_data && !halt_i && cur_q.diagonal && parts),
        .retire_i    (retire_data && act_q.diagonal && parts),
        .asked_i     (req_valid_o && req_ready_i),
        .asked_len_i (req_len_o),
        .room_o      (bursts_room),
        .beat_valid_i,
        .beat_data_i,
        .valid_o     (arrived),
        .data_o      (arrived_data),
        .done_i      (beat_done)
    );
  end

  // ---------------------------------------------------------------------------------------
  // Write port: data first, padding in the other cycles
  logic write_beat, write_pad;
  assign write_beat = place && act_valid_q && in_range && bank_ok && !halt_i;
  assign write_pad  = pads_write && !arrived && !pads_full && !pads_wait_q && !halt_i;

  always_ff @(posedge clk_i) begin
    write_mem_o <= '0;
    if (write_beat) write_mem_o[act_q.memory] <= 1'b1;
    else if (write_pad) write_mem_o[cur_q.memory] <= 1'b1;
    // Where and what, whether it may be written or not.
    if (place || pads_write) begin
      write_at_o <= '{
          tile: place ? addr[17:0] : pads_addr[17:0],
          slice: place ? slice : '0,
          lane: place ? lane : '0,
          count: place ? count : 5'd1,
          pad: !place,
          diagonal: place && act_q.diagonal,
          phase: phase_q,
          int4: place && act_q.int4,
          scale: scale
      };
      write_data_o <= place ? arrived_data : {BeatBytes{cur_q.pad_value}};
    end
    if (rst_i) write_mem_o <= '0;
  end

  // ---------------------------------------------------------------------------------------
  // Retirement, locks, errors, state
  logic idle;
  tw_pkg::wait_e state;
  tw_pkg::error_t error;
  assign unit_o = '{
      take: take,
      token_pop: take ? queue_i.needs.pop : '0,
      token_push: halt_i ? '0 : retire_data ? act_q.push : pad_only_retire ? cur_q.push : '0,
      retire: retire_data || (pad_only_retire && !halt_i),
      retire_index: retire_data ? act_q.index : index_q,
      idle: idle,
      state: state,
      error: error
  };

  // Banks stay locked to the last write of an ACC load; a second ACC load extends the lock.
  logic [tw_pkg::AccBanks-1:0] lock_q;
  always_ff @(posedge clk_i) begin
    wants_q <= want && !take && !rst_i;
    if (rst_i) lock_q <= '0;
    else if (want) lock_q <= lock_q | queue_i.needs.banks;
    else if (idle && (write_mem_o == '0)) lock_q <= '0;
  end
  assign acc_lock_o = lock_q;

  assign idle = (issue_q == Idle) && !flight_valid && !act_valid_q;
  assign issue_index_o = index_q;

  always_comb begin
    error.valid = 1'b0;
    error.code  = illegal_q ? tw_pkg::ErrIllegalField : tw_pkg::ErrDramAlignment;
    error.index = index_q;
    // Of an instruction that works before those of one that starts.
    if (place && act_valid_q && !in_range) begin
      error = '{valid: 1'b1, code: tw_pkg::ErrSramRange, index: act_q.index};
    end else if (place && act_valid_q && !bank_ok) begin
      error = '{valid: 1'b1, code: tw_pkg::ErrAccBank, index: act_q.index};
    end else if (pads_write && pads_full) begin
      error = '{valid: 1'b1, code: tw_pkg::ErrSramRange, index: index_q};
    end else if (pads_write && (cur_q.memory == tw_pkg::MemAcc) &&
                 !cur_q.acc_banks[2'(pads_addr >> bank_shift)]) begin
      error = '{valid: 1'b1, code: tw_pkg::ErrAccBank, index: index_q};
    end else begin
      error.valid = issue_q == Setup && (illegal_q || unaligned_q);
    end
    if (halt_i) error.valid = 1'b0;
  end

  always_comb begin
    if (arrived || write_pad || (req_valid_o && req_ready_i) || issue_q == Setup || take) begin
      state = tw_pkg::WaitBusy;
    end else if (issue_q == Idle && queue_i.valid && !tokens_ok) begin
      state = tw_pkg::token_wait(tw_pkg::UnitLoad, queue_i.needs.pop, queue_i.tokens);
    end else if (issue_q != Idle || act_valid_q || flight_valid || queue_i.valid) begin
      state = tw_pkg::WaitMemory;
    end else begin
      state = tw_pkg::WaitIdle;
    end
  end

  logic unused;
  assign unused = ^{head, cur_q, act_q, bursts_last};
endmodule
