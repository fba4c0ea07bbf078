// SPDX-License-Identifier: Apache-2.0
// One core of the accelerator: four decoupled units around scratchpads, and what runs them.
//
// It reads from top to bottom as an instruction and a byte travel. `tw_settings` keeps what the run
// was given, `tw_control` starts and ends it. `tw_fetch` puts each instruction into the queue of its
// unit; `tw_tokens` tells a unit when it may go on. Data come in through `tw_read`; LOAD places them
// in scratchpads, GEMM multiplies them into ACC, VECTOR turns sums into OUT, STORE writes OUT back.
//
// Everything is the core's own: several with other parameters can stand in one design. Registers,
// bus attributes and what several cores share belong to the system (rtl/system).
module tw_core #(
    parameter tw_pkg::config_t Config = '0  // tw_legal judges it
) (
    input  logic                                   clk_i,
    input  logic                                   rst_i,
    // run control
    input  logic                                   start_i,          // one cycle; without effect unless idle
    input  logic                                   soft_reset_i,     // one cycle; goes before a start
    input  tw_pkg::settings_t                      settings_i,       // kept when a start is accepted
    output tw_pkg::status_t                        status_o,
    output logic [                            1:0] event_o,          // one cycle: done, error
    // performance counters
    input  logic                                   snapshot_i,       // one cycle: copy all of them
    input  logic [$clog2(tw_pkg::NumCounters)-1:0] counter_index_i,
    output logic [                           63:0] counter_o,        // the copy
    // memory, read: addresses and data of AXI4, data are taken at once
    output logic [                           39:0] araddr_o,
    output logic [                            7:0] arlen_o,
    output logic                                   arvalid_o,
    input  logic                                   arready_i,
    input  logic [       Config.axi_data_bits-1:0] rdata_i,
    input  logic [                            1:0] rresp_i,
    input  logic                                   rlast_i,
    input  logic                                   rvalid_i,
    // memory, write: answers are taken at once
    output logic [                           39:0] awaddr_o,
    output logic [                            7:0] awlen_o,
    output logic                                   awvalid_o,
    input  logic                                   awready_i,
    output logic [       Config.axi_data_bits-1:0] wdata_o,
    output logic [     Config.axi_data_bits/8-1:0] wstrb_o,
    output logic                                   wlast_o,
    output logic                                   wvalid_o,
    input  logic                                   wready_i,
    input  logic [                            1:0] bresp_i,
    input  logic                                   bvalid_i,
    // of every burst of the run: AxQOS, AxPROT, AxCACHE
    output logic [                           10:0] attributes_o
);
  // ---------------------------------------------------------------------------------------
  // Geometry
  localparam tw_pkg::config_t Built = tw_pkg::built(Config);
  localparam tw_pkg::sizes_t Sizes = tw_pkg::sizes_of(Config);
  localparam int unsigned BeatBytes = Built.axi_data_bits / 8;
  localparam int unsigned Lanes = Built.vector_lanes;
  localparam int unsigned InpTile = Built.batch * Built.block_in;
  localparam int unsigned WgtTile = Built.block_in * Built.block_out;
  localparam int unsigned OutTile = Built.batch * Built.block_out;
  localparam int unsigned AccTile = 4 * OutTile;
  localparam int unsigned ParTile = 16 * Built.block_out;
  localparam int unsigned ParRow = BeatBytes > 32 ? BeatBytes : 32;
  localparam int unsigned PartBits = Sizes.vector_parts > 1 ? $clog2(Sizes.vector_parts) : 1;

  tw_legal #(.Config(Config)) u_legal ();

  // ---------------------------------------------------------------------------------------
  // Run control
  logic unit_rst, halt, halting, running, fetch_start, finish;
  logic progress, bus_idle, all_idle, read_idle, write_idle;
  logic accept, refuse;
  logic [39:0] insn_base, mem_base, mem_size;
  logic [31:0] insn_count, watchdog;
  tw_pkg::queue_t [3:0] queue;  // what each unit sees
  tw_pkg::unit_t [3:0] unit;    // what it answers
  tw_pkg::error_t unit_error[5], error[5];  // by unit, fetch last: its own, and with those of others
  tw_pkg::index_t retire_index[4];
  tw_pkg::wait_e state[4];
  logic [3:0] retire, unit_idle, queue_valid;
  // Control hears of errors, waits and progress a cycle later; a unit that errs stops itself.
  tw_pkg::wait_e state_q[4];
  logic progress_q;
  logic [4:0] wrong, wrong_q, stop_q;
  logic mac_issue, vector_issue, read_burst, write_burst, write_beat;
  logic [$clog2(BeatBytes):0] write_bytes;

  tw_settings #(
      .AddressBits(Config.address_bits)
  ) u_settings (
      .clk_i,
      .accept_i    (accept),
      .settings_i,
      .insn_base_o (insn_base),
      .insn_count_o(insn_count),
      .mem_base_o  (mem_base),
      .mem_size_o  (mem_size),
      .watchdog_o  (watchdog),
      .attributes_o,
      .refuse_o    (refuse)
  );

  tw_control u_control (
      .clk_i,
      .rst_i,
      .start_i,
      .soft_reset_i,
      .finish_i     (finish),
      .bus_idle_i   (bus_idle),
      .progress_i   (progress_q),
      .watchdog_i   (watchdog),
      .error_i      (error),
      .state_i      (state_q),
      .accept_o     (accept),
      .unit_reset_o (unit_rst),
      .fetch_start_o(fetch_start),
      .halt_o       (halt),
      .halting_o    (halting),
      .running_o    (running),
      .status_o,
      .event_o
  );

  tw_counters #(
      .BeatBytes(BeatBytes)
  ) u_counters (
      .clk_i,
      .clear_i      (rst_i || accept),
      .running_i    (running),
      .snapshot_i,
      .state_i      (state),
      .retire_i     (retire),
      .mac_i        (mac_issue),
      .vector_i     (vector_issue),
      .read_beat_i  (rvalid_i),
      .write_bytes_i(write_bytes),
      .read_burst_i (read_burst),
      .write_burst_i(write_burst),
      .index_i      (counter_index_i),
      .value_o      (counter_o)
  );
  always_comb begin
    write_bytes = '0;
    if (write_beat) begin
      for (int unsigned b = 0; b < BeatBytes; b++)
        write_bytes += ($clog2(BeatBytes) + 1)'(wstrb_o[b]);
    end
  end

  // ---------------------------------------------------------------------------------------
  // Fetch, queues, tokens
  logic [1:0] req_valid, req_ready, beat_valid, resp_err, last_err;
  logic load_inside, range_err;
  logic [1:0][39:0] req_addr;
  logic [1:0][7:0] req_len;
  logic [BeatBytes*8-1:0] beat_data;
  logic [3:0] queue_push, queue_full;
  logic [3:0][3:0] token_push, token_pop, token_available;
  tw_pkg::needs_t [3:0] needs;
  logic [3:0] token_overflow;
  tw_pkg::entry_t fetched;
  tw_pkg::index_t load_issue_index, load_beat_index, fetch_bus_index;

  tw_fetch #(
      .BeatBytes (BeatBytes),
      .BurstBeats(Built.axi_burst_beats)
  ) u_fetch (
      .clk_i,
      .rst_i        (unit_rst),
      .start_i      (fetch_start),
      .halt_i       (stop_q[4]),
      .insn_base_i  (insn_base),
      .insn_count_i (insn_count),
      .refuse_i     (refuse),
      .req_valid_o  (req_valid[0]),
      .req_ready_i  (req_ready[0]),
      .req_addr_o   (req_addr[0]),
      .req_len_o    (req_len[0]),
      .beat_valid_i (beat_valid[0]),
      .beat_data_i  (beat_data),
      .push_o       (queue_push),
      .entry_o      (fetched),
      .full_i       (queue_full),
      .all_idle_i   (all_idle),
      .finish_o     (finish),
      .error_o      (unit_error[4]),
      .bus_index_o  (fetch_bus_index)
  );

  tw_predecode #(
      .BeatBytes(BeatBytes),
      .Sizes    (Sizes)
  ) u_predecode (
      .insn_i (fetched.insn),
      .needs_o(needs)
  );

  for (genvar u = 0; u < 4; u++) begin : gen_queue
    logic [4:0] unused_count;
    tw_fifo #(
        .Width  ($bits(tw_pkg::entry_t) + $bits(tw_pkg::needs_t)),
        .Depth  (16),
        .KeyBits($bits(tw_pkg::needs_t))
    ) u_queue (
        .clk_i,
        .rst_i  (unit_rst),
        .push_i (queue_push[u]),
        .data_i ({fetched, needs[u]}),
        .pop_i  (unit[u].take),
        .data_o ({queue[u].entry, queue[u].needs}),
        .valid_o(queue[u].valid),
        .full_o (queue_full[u]),
        .count_o(unused_count)
    );
    assign queue[u].tokens = token_available[u];
    assign token_push[u]   = unit[u].token_push;
    assign token_pop[u]    = unit[u].token_pop;
    assign queue_valid[u]  = queue[u].valid;
    assign unit_idle[u]    = unit[u].idle;
    assign retire[u]       = unit[u].retire;
    assign state[u]        = unit[u].state;
    assign unit_error[u]   = unit[u].error;
    assign retire_index[u] = unit[u].retire_index;
  end
  tw_tokens u_tokens (
      .clk_i,
      .rst_i      (unit_rst),
      .push_i     (token_push),
      .pop_i      (token_pop),
      .available_o(token_available),
      .overflow_o (token_overflow)
  );

  tw_read #(
      .BeatBytes  (BeatBytes),
      .Outstanding(Built.read_outstanding)
  ) u_read (
      .clk_i,
      .rst_i        (unit_rst),
      .halt_i       (halt),
      .mem_base_i   (mem_base),
      .req_valid_i  (req_valid),
      .req_ready_o  (req_ready),
      .req_addr_i   (req_addr),
      .req_len_i    (req_len),
      .load_inside_i(load_inside),
      .load_index_i (load_issue_index),
      .beat_valid_o (beat_valid),
      .beat_data_o  (beat_data),
      .load_index_o (load_beat_index),
      .idle_o       (read_idle),
      .burst_o      (read_burst),
      .range_err_o  (range_err),
      .resp_err_o   (resp_err),
      .last_err_o   (last_err),
      .araddr_o,
      .arlen_o,
      .arvalid_o,
      .arready_i,
      .rdata_i,
      .rresp_i,
      .rlast_i,
      .rvalid_i
  );

  // ---------------------------------------------------------------------------------------
  // Units
  logic [tw_pkg::AccBanks-1:0] gemm_lock, vector_lock, load_lock;
  logic vector_behind;  // GEMM takes banks that VECTOR needs
  assign vector_behind = unit[tw_pkg::UnitGemm].take &&
                         (queue[tw_pkg::UnitGemm].needs.banks &
                          queue[tw_pkg::UnitVector].needs.banks) != '0;
  logic [7:0] write_mem;
  tw_pkg::spad_write_t write_at;
  logic pad_step;
  logic [BeatBytes*8-1:0] write_data;

  tw_load #(.Config(Built)) u_load (
      .clk_i,
      .rst_i        (unit_rst),
      .halt_i       (stop_q[32'(tw_pkg::UnitLoad)]),
      .queue_i      (queue[tw_pkg::UnitLoad]),
      .unit_o       (unit[tw_pkg::UnitLoad]),
      .acc_busy_i   (gemm_lock | vector_lock),
      .acc_lock_o   (load_lock),
      .mem_size_i   (mem_size),
      .req_valid_o  (req_valid[1]),
      .req_ready_i  (req_ready[1]),
      .req_addr_o   (req_addr[1]),
      .req_len_o    (req_len[1]),
      .req_inside_o (load_inside),
      .beat_valid_i (beat_valid[1]),
      .beat_data_i  (beat_data),
      .write_mem_o  (write_mem),
      .write_at_o   (write_at),
      .write_data_o (write_data),
      .pad_step_o   (pad_step),
      .issue_index_o(load_issue_index)
  );

  logic uop_read, inp_read, wgt_read;
  logic [$clog2(Sizes.uop_depth)-1:0] uop_addr;
  logic [$clog2(Sizes.inp_depth)-1:0] inp_addr;
  logic [$clog2(Sizes.wgt_depth)-1:0] wgt_addr;
  logic [tw_pkg::UopBits-1:0] uop_data;
  logic [InpTile*8-1:0] inp_data;
  logic [WgtTile*8-1:0] wgt_data;
  logic gemm_acc_read, gemm_acc_write;
  logic [$clog2(Sizes.acc_depth)-1:0] gemm_acc_read_addr, gemm_acc_write_addr;
  logic [AccTile*8-1:0] gemm_acc_read_data, gemm_acc_write_data;

  tw_gemm #(.Config(Built)) u_gemm (
      .clk_i,
      .rst_i           (unit_rst),
      .halt_i          (stop_q[32'(tw_pkg::UnitGemm)]),
      .queue_i         (queue[tw_pkg::UnitGemm]),
      .unit_o          (unit[tw_pkg::UnitGemm]),
      .acc_busy_i      (vector_lock | load_lock),
      .acc_lock_o      (gemm_lock),
      .uop_read_o      (uop_read),
      .uop_addr_o      (uop_addr),
      .uop_data_i      (uop_data),
      .inp_read_o      (inp_read),
      .inp_addr_o      (inp_addr),
      .inp_data_i      (inp_data),
      .wgt_read_o      (wgt_read),
      .wgt_addr_o      (wgt_addr),
      .wgt_data_i      (wgt_data),
      .acc_read_o      (gemm_acc_read),
      .acc_read_addr_o (gemm_acc_read_addr),
      .acc_read_data_i (gemm_acc_read_data),
      .acc_write_o     (gemm_acc_write),
      .acc_write_addr_o(gemm_acc_write_addr),
      .acc_write_data_o(gemm_acc_write_data),
      .issue_o         (mac_issue)
  );

  logic par_read, res_read, vec_acc_read, vec_acc_write, out_write;
  logic [$clog2(Built.param_bytes/ParRow)-1:0] par_addr;
  logic [ParRow*8-1:0] par_data;
  logic [$clog2(Sizes.acc_depth)-1:0] vec_acc_read_addr, vec_acc_write_addr;
  logic [AccTile*8-1:0] vec_acc_read_data;
  logic [PartBits-1:0] vec_acc_write_part, out_part;
  logic [Lanes*32-1:0] vec_acc_write_data;
  logic [$clog2(Sizes.res_depth)-1:0] res_addr;
  logic [OutTile*8-1:0] res_data;
  logic [$clog2(Sizes.out_depth)-1:0] out_write_addr, out_read_addr;
  logic [Lanes*8-1:0] requantised, out_write_data;
  logic out_lookup;

  tw_vector #(.Config(Built)) u_vector (
      .clk_i,
      .rst_i           (unit_rst),
      .halt_i          (stop_q[32'(tw_pkg::UnitVector)]),
      .queue_i         (queue[tw_pkg::UnitVector]),
      .unit_o          (unit[tw_pkg::UnitVector]),
      .acc_busy_i      (gemm_lock | load_lock),
      .acc_behind_i    (vector_behind),
      .acc_lock_o      (vector_lock),
      .par_read_o      (par_read),
      .par_addr_o      (par_addr),
      .par_data_i      (par_data),
      .acc_read_o      (vec_acc_read),
      .acc_read_addr_o (vec_acc_read_addr),
      .acc_read_data_i (vec_acc_read_data),
      .acc_write_o     (vec_acc_write),
      .acc_write_addr_o(vec_acc_write_addr),
      .acc_write_part_o(vec_acc_write_part),
      .acc_write_data_o(vec_acc_write_data),
      .res_read_o      (res_read),
      .res_addr_o      (res_addr),
      .res_data_i      (res_data),
      .out_write_o     (out_write),
      .out_addr_o      (out_write_addr),
      .out_part_o      (out_part),
      .out_data_o      (requantised),
      .out_lookup_o    (out_lookup),
      .issue_o         (vector_issue)
  );

  logic out_read;
  logic [9:0] out_slice;
  logic [4:0] out_lane;
  logic [BeatBytes*8-1:0] out_read_data;

  tw_store #(.Config(Built)) u_store (
      .clk_i,
      .rst_i        (unit_rst),
      .halt_i       (stop_q[32'(tw_pkg::UnitStore)]),
      .mem_base_i   (mem_base),
      .mem_size_i   (mem_size),
      .queue_i    (queue[tw_pkg::UnitStore]),
      .unit_o     (unit[tw_pkg::UnitStore]),
      .out_read_o   (out_read),
      .out_addr_o   (out_read_addr),
      .out_slice_o  (out_slice),
      .out_lane_o   (out_lane),
      .out_data_i   (out_read_data),
      .awaddr_o,
      .awlen_o,
      .awvalid_o,
      .awready_i,
      .wdata_o,
      .wstrb_o,
      .wlast_o,
      .wvalid_o,
      .wready_i,
      .bresp_i,
      .bvalid_i,
      .bus_idle_o   (write_idle),
      .burst_o      (write_burst),
      .beat_o       (write_beat)
  );

  // ---------------------------------------------------------------------------------------
  // Scratchpads
  tw_spad #(
      .TileBytes (8),
      .ReadBytes (8),
      .BeatBytes (BeatBytes),
      .TotalBytes(Built.uop_bytes)
  ) u_uop (
      .clk_i,
      .write_i     (write_mem[tw_pkg::MemUop]),
      .write_at_i  (write_at),
      .write_data_i(write_data),
      .read_i      (uop_read),
      .read_addr_i (uop_addr),
      .read_data_o (uop_data)
  );
  tw_spad #(
      .TileBytes (InpTile),
      .ReadBytes (InpTile),
      .BeatBytes (BeatBytes),
      .TotalBytes(Built.inp_bytes),
      .DataPath  (Built.data_path)
  ) u_inp (
      .clk_i,
      .write_i     (write_mem[tw_pkg::MemInp]),
      .write_at_i  (write_at),
      .write_data_i(write_data),
      .read_i      (inp_read),
      .read_addr_i (inp_addr),
      .read_data_o (inp_data)
  );
  tw_spad #(
      .TileBytes (WgtTile),
      .ReadBytes (WgtTile),
      .BeatBytes (BeatBytes),
      .TotalBytes(Built.wgt_bytes),
      .DiagBytes (1 << Sizes.diag_shift),
      .RowBytes  (Built.block_in),
      .Int4      (Built.int4_weights),
      .DataPath  (Built.data_path)
  ) u_wgt (
      .clk_i,
      .write_i     (write_mem[tw_pkg::MemWgt]),
      .write_at_i  (write_at),
      .write_data_i(write_data),
      .read_i      (wgt_read),
      .read_addr_i (wgt_addr),
      .read_data_o (wgt_data)
  );
  tw_spad #(
      .TileBytes (ParTile),
      .ReadBytes (ParRow),
      .BeatBytes (BeatBytes),
      .TotalBytes(Built.param_bytes),
      .DataPath  (Built.data_path)
  ) u_param (
      .clk_i,
      .write_i     (write_mem[tw_pkg::MemParam]),
      .write_at_i  (write_at),
      .write_data_i(write_data),
      .read_i      (par_read),
      .read_addr_i (par_addr),
      .read_data_o (par_data)
  );
  tw_spad #(
      .TileBytes (OutTile),
      .ReadBytes (OutTile),
      .BeatBytes (BeatBytes),
      .TotalBytes(Built.res_bytes),
      .DataPath  (Built.data_path)
  ) u_res (
      .clk_i,
      .write_i     (write_mem[tw_pkg::MemRes]),
      .write_at_i  (write_at),
      .write_data_i(write_data),
      .read_i      (res_read),
      .read_addr_i (res_addr),
      .read_data_o (res_data)
  );
  tw_acc #(
      .TileBytes (AccTile),
      .PartBytes (Lanes * 4),
      .BeatBytes (BeatBytes),
      .TotalBytes(Built.acc_bytes),
      .Banks     (Sizes.acc_depth >> Sizes.acc_bank_shift),
      .DataPath  (Built.data_path)
  ) u_acc (
      .clk_i,
      .gemm_read_i       (gemm_acc_read),
      .gemm_read_addr_i  (gemm_acc_read_addr),
      .gemm_read_data_o  (gemm_acc_read_data),
      .gemm_write_i      (gemm_acc_write),
      .gemm_write_addr_i (gemm_acc_write_addr),
      .gemm_write_data_i (gemm_acc_write_data),
      .vec_read_i        (vec_acc_read),
      .vec_read_addr_i   (vec_acc_read_addr),
      .vec_read_data_o   (vec_acc_read_data),
      .vec_write_i       (vec_acc_write),
      .vec_write_addr_i  (vec_acc_write_addr),
      .vec_write_part_i  (vec_acc_write_part),
      .vec_write_data_i  (vec_acc_write_data),
      .load_write_i      (write_mem[tw_pkg::MemAcc]),
      .load_write_at_i   (write_at),
      .load_write_data_i (write_data)
  );
  tw_table #(
      .Lanes    (Lanes),
      .BeatBytes(BeatBytes),
      .Present  (Built.activation_table * Built.data_path)
  ) u_table (
      .clk_i,
      .write_i     (write_mem[tw_pkg::MemTable]),
      .write_at_i  (write_at),
      .write_data_i(write_data),
      .use_i       (out_lookup),
      .result_i    (requantised),
      .result_o    (out_write_data)
  );
  tw_out #(
      .TileBytes (OutTile),
      .PartBytes (Lanes),
      .BeatBytes (BeatBytes),
      .TotalBytes(Built.out_bytes),
      .DataPath  (Built.data_path)
  ) u_out (
      .clk_i,
      .write_i     (out_write),
      .write_addr_i(out_write_addr),
      .write_part_i(out_part),
      .write_data_i(out_write_data),
      .read_i      (out_read),
      .read_addr_i (out_read_addr),
      .read_slice_i(out_slice),
      .read_lane_i (out_lane),
      .read_data_o (out_read_data)
  );

  // ---------------------------------------------------------------------------------------
  // Errors: those of the bus and of tokens join those of the unit that caused them. All of a cycle
  // are kept, and sorted in the next.
  tw_pkg::error_t unit_error_q[5];
  logic [3:0] token_overflow_q;
  logic [1:0] resp_err_q, last_err_q;
  logic range_err_q;
  tw_pkg::index_t retire_index_q[4], load_issue_index_q, load_beat_index_q, fetch_bus_index_q;
  always_comb begin
    for (int unsigned u = 0; u < 5; u++) wrong[u] = unit_error[u].valid;
    wrong[3:0] |= token_overflow;
    wrong[0] |= range_err || resp_err[1] || last_err[1];
    wrong[4] |= resp_err[0] || last_err[0];
  end
  always_ff @(posedge clk_i) begin
    wrong_q            <= unit_rst ? '0 : wrong;
    stop_q             <= {5{halting}} | (unit_rst ? '0 : wrong);
    unit_error_q       <= unit_error;
    token_overflow_q   <= token_overflow;
    // Tokens tell of an overflow in the cycle after the retirement.
    for (int unsigned u = 0; u < 4; u++) begin
      if (!token_overflow[u]) retire_index_q[u] <= retire_index[u];
    end
    range_err_q        <= range_err;
    resp_err_q         <= resp_err;
    last_err_q         <= last_err;
    load_issue_index_q <= load_issue_index;
    load_beat_index_q  <= load_beat_index;
    fetch_bus_index_q  <= fetch_bus_index;
    state_q            <= state;
    progress_q         <= progress;
  end
  always_comb begin
    error = unit_error_q;
    for (int unsigned u = 0; u < 4; u++) begin
      if (token_overflow_q[u] && !unit_error_q[u].valid) begin
        error[u].code  = tw_pkg::ErrTokenOverflow;
        error[u].index = retire_index_q[u];
      end
    end
    if ((range_err_q || resp_err_q[1] || last_err_q[1]) && !unit_error_q[0].valid) begin
      error[0].code  = resp_err_q[1] ? tw_pkg::ErrAxiRead :
                       last_err_q[1] ? tw_pkg::ErrAxiLast : tw_pkg::ErrDramRange;
      error[0].index = resp_err_q[1] || last_err_q[1] ? load_beat_index_q : load_issue_index_q;
    end
    if ((resp_err_q[0] || last_err_q[0]) && !unit_error_q[4].valid) begin
      error[4].code  = resp_err_q[0] ? tw_pkg::ErrAxiRead : tw_pkg::ErrAxiLast;
      error[4].index = fetch_bus_index_q;
    end
    for (int unsigned u = 0; u < 5; u++) error[u].valid = wrong_q[u];
  end

  assign all_idle = (queue_valid == '0) && (&unit_idle) && read_idle;
  assign bus_idle = read_idle && write_idle;
  assign progress = mac_issue || vector_issue || rvalid_i || bvalid_i || write_beat ||
                    read_burst || write_burst || (write_mem != '0) || pad_step || (retire != '0) ||
                    (queue_push != '0) || finish;
endmodule
