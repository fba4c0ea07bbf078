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
    parameter int unsigned Batch            = 1,       // rows of the activation tile
    parameter int unsigned BlockIn          = 16,      // input channels of a tile
    parameter int unsigned BlockOut         = 16,      // output channels of a tile
    parameter int unsigned InpBytes         = 32768,   // INP scratchpad
    parameter int unsigned WgtBytes         = 262144,  // WGT scratchpad
    parameter int unsigned AccBytes         = 131072,  // ACC scratchpad
    parameter int unsigned OutBytes         = 32768,   // OUT scratchpad
    parameter int unsigned UopBytes         = 32768,   // UOP scratchpad
    parameter int unsigned ResBytes         = 32768,   // RES scratchpad
    parameter int unsigned ParamBytes       = 16384,   // PARAM scratchpad
    parameter int unsigned AxiDataBits      = 64,      // width of the AXI4 data bus
    parameter int unsigned AxiBurstBeats    = 16,      // longest AXI burst
    parameter int unsigned ReadOutstanding  = 8,       // read bursts in flight
    parameter int unsigned WriteOutstanding = 4,       // write bursts in flight
    parameter int unsigned VectorLanes      = 16,      // elements a cycle of the vector unit
    parameter int unsigned MacPipeline      = 2,       // registers of the MAC reduction
    parameter int unsigned MacPacked        = 1,       // 1: two int8 MACs share one multiplier
    parameter int unsigned MacLutColumns    = 0,       // output channels that multiply in LUTs
    parameter int unsigned ActivationTable  = 0,       // 1: results can be looked up in a table
    parameter int unsigned RowUnit          = 0,       // 1: VECTOR reduces rows
    parameter int unsigned Int4Weights      = 0,       // 1: LOAD unpacks weights of 4 bits; 2: scaled
    parameter int unsigned DataPath         = 1,       // 0: control and UOP alone, for simulation
    parameter int unsigned AddressBits      = 40       // of the memory port, 32 to 40
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
    input  logic [                AxiDataBits-1:0] rdata_i,
    input  logic [                            1:0] rresp_i,
    input  logic                                   rlast_i,
    input  logic                                   rvalid_i,
    // memory, write: answers are taken at once
    output logic [                           39:0] awaddr_o,
    output logic [                            7:0] awlen_o,
    output logic                                   awvalid_o,
    input  logic                                   awready_i,
    output logic [                AxiDataBits-1:0] wdata_o,
    output logic [              AxiDataBits/8-1:0] wstrb_o,
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
  // Sizes are at least 1 (a bus 32 bits), so that an illegal elaboration reaches the $error of
  // tw_legal and does not end in a division by zero.
  localparam int unsigned BeatBytes = AxiDataBits < 32 ? 4 : AxiDataBits / 8;
  localparam int unsigned Rows = Batch == 0 ? 1 : Batch;
  localparam int unsigned ChannelsIn = BlockIn == 0 ? 1 : BlockIn;
  localparam int unsigned ChannelsOut = BlockOut == 0 ? 1 : BlockOut;
  localparam int unsigned Lanes = VectorLanes == 0 ? 1 : VectorLanes;
  localparam int unsigned InpTile = Rows * ChannelsIn;
  localparam int unsigned WgtTile = ChannelsIn * ChannelsOut;
  localparam int unsigned Diagonal = ChannelsIn < ChannelsOut ? ChannelsIn : ChannelsOut;
  localparam int unsigned OutTile = Rows * ChannelsOut;
  localparam int unsigned AccTile = 4 * OutTile;
  localparam int unsigned ParTile = 16 * ChannelsOut;
  localparam int unsigned ParRow = BeatBytes > 32 ? BeatBytes : 32;
  localparam int unsigned InpDepth = InpBytes / InpTile;
  localparam int unsigned WgtDepth = WgtBytes / WgtTile;
  localparam int unsigned AccDepth = AccBytes / AccTile;
  localparam int unsigned OutDepth = OutBytes / OutTile;
  localparam int unsigned ResDepth = ResBytes / OutTile;
  localparam int unsigned UopDepth = UopBytes / 8;
  localparam int unsigned ParDepth = ParamBytes / ParTile;
  localparam int unsigned TableDepth =
      ActivationTable == 0 ? 0 : tw_pkg::TableEntries / tw_pkg::TableRowEntries;
  localparam int unsigned Banks = AccDepth < tw_pkg::AccBanks ? AccDepth : tw_pkg::AccBanks;
  localparam int unsigned AccBankShift = $clog2(AccDepth / Banks);
  localparam int unsigned Parts = OutTile / Lanes;
  localparam int unsigned PartBits = Parts > 1 ? $clog2(Parts) : 1;

  tw_legal #(
      .Batch           (Batch),
      .BlockIn         (BlockIn),
      .BlockOut        (BlockOut),
      .InpBytes        (InpBytes),
      .WgtBytes        (WgtBytes),
      .AccBytes        (AccBytes),
      .OutBytes        (OutBytes),
      .UopBytes        (UopBytes),
      .ResBytes        (ResBytes),
      .ParamBytes      (ParamBytes),
      .AxiDataBits     (AxiDataBits),
      .AxiBurstBeats   (AxiBurstBeats),
      .ReadOutstanding (ReadOutstanding),
      .WriteOutstanding(WriteOutstanding),
      .VectorLanes     (VectorLanes),
      .MacPipeline     (MacPipeline),
      .MacPacked       (MacPacked),
      .MacLutColumns   (MacLutColumns),
      .ActivationTable (ActivationTable),
      .RowUnit         (RowUnit),
      .Int4Weights     (Int4Weights)
  ) u_legal ();

  // ---------------------------------------------------------------------------------------
  // Run control
  logic unit_rst, halt, running, fetch_start, finish;
  logic progress, bus_idle, all_idle, read_idle, write_idle;
  logic accept, refuse;
  logic [39:0] insn_base, mem_base, mem_size;
  logic [31:0] insn_count, watchdog;
  tw_pkg::error_t unit_error[4], fetch_error, error[5];  // `error` by unit, fetch last
  tw_pkg::wait_e state[4];
  logic [3:0] retire, unit_idle;
  logic mac_issue, vector_issue, read_burst, write_burst, write_beat;
  logic [$clog2(BeatBytes):0] write_bytes;

  tw_settings #(
      .AddressBits(AddressBits)
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
      .progress_i   (progress),
      .watchdog_i   (watchdog),
      .error_i      (error),
      .state_i      (state),
      .accept_o     (accept),
      .unit_reset_o (unit_rst),
      .fetch_start_o(fetch_start),
      .halt_o       (halt),
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
  logic [1:0] req_valid, req_ready, beat_valid, range_err, resp_err, last_err;
  logic [1:0][39:0] req_addr;
  logic [1:0][7:0] req_len;
  logic [BeatBytes*8-1:0] beat_data;
  logic [3:0] queue_push, queue_full, queue_valid, queue_pop;
  tw_pkg::entry_t fetched, queue[4];  // the oldest entry of each queue
  tw_pkg::index_t load_issue_index, load_beat_index, fetch_bus_index;
  tw_pkg::index_t retire_index[4];

  tw_fetch #(
      .BeatBytes (BeatBytes),
      .BurstBeats(AxiBurstBeats)
  ) u_fetch (
      .clk_i,
      .rst_i        (unit_rst),
      .start_i      (fetch_start),
      .halt_i       (halt),
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
      .error_o      (fetch_error),
      .bus_index_o  (fetch_bus_index)
  );

  for (genvar u = 0; u < 4; u++) begin : gen_queue
    logic [4:0] unused_count;
    tw_fifo #(
        .Width($bits(tw_pkg::entry_t)),
        .Depth(16)
    ) u_queue (
        .clk_i,
        .rst_i  (unit_rst),
        .push_i (queue_push[u]),
        .data_i (fetched),
        .pop_i  (queue_pop[u]),
        .data_o (queue[u]),
        .valid_o(queue_valid[u]),
        .full_o (queue_full[u]),
        .count_o(unused_count)
    );
  end

  logic [3:0][3:0] token_push, token_pop, token_available;
  logic [3:0] token_overflow;
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
      .Outstanding(ReadOutstanding)
  ) u_read (
      .clk_i,
      .rst_i       (unit_rst),
      .halt_i      (halt),
      .mem_base_i  (mem_base),
      .mem_size_i  (mem_size),
      .req_valid_i (req_valid),
      .req_ready_o (req_ready),
      .req_addr_i  (req_addr),
      .req_len_i   (req_len),
      .load_index_i(load_issue_index),
      .beat_valid_o(beat_valid),
      .beat_data_o (beat_data),
      .load_index_o(load_beat_index),
      .idle_o      (read_idle),
      .burst_o     (read_burst),
      .range_err_o (range_err),
      .resp_err_o  (resp_err),
      .last_err_o  (last_err),
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
  logic [tw_pkg::AccBanks-1:0] gemm_lock, gemm_claim, vector_lock, vector_claim, load_lock;
  logic [7:0] write_mem;
  tw_pkg::spad_write_t write_at;
  logic pad_step;
  logic [BeatBytes*8-1:0] write_data;

  tw_load #(
      .BeatBytes   (BeatBytes),
      .BurstBeats  (AxiBurstBeats),
      .InpTileBytes(InpTile),
      .WgtTileBytes(WgtTile),
      .AccTileBytes(AccTile),
      .ParTileBytes(ParTile),
      .ResTileBytes(OutTile),
      .InpDepth    (InpDepth),
      .WgtDepth    (WgtDepth),
      .AccDepth    (AccDepth),
      .UopDepth    (UopDepth),
      .ParDepth    (ParDepth),
      .ResDepth    (ResDepth),
      .TableDepth  (TableDepth),
      .Int4Weights (Int4Weights),
      .AccBankShift(AccBankShift),
      .DiagBytes   (Diagonal),
      .DiagBlocks  (WgtTile / (Diagonal * Diagonal))
  ) u_load (
      .clk_i,
      .rst_i        (unit_rst),
      .halt_i       (halt),
      .insn_valid_i (queue_valid[tw_pkg::UnitLoad]),
      .entry_i      (queue[tw_pkg::UnitLoad]),
      .insn_pop_o   (queue_pop[tw_pkg::UnitLoad]),
      .token_i      (token_available[tw_pkg::UnitLoad]),
      .token_pop_o  (token_pop[tw_pkg::UnitLoad]),
      .token_push_o (token_push[tw_pkg::UnitLoad]),
      .acc_busy_i   (gemm_lock | gemm_claim | vector_lock | vector_claim),
      .acc_lock_o   (load_lock),
      .req_valid_o  (req_valid[1]),
      .req_ready_i  (req_ready[1]),
      .req_addr_o   (req_addr[1]),
      .req_len_o    (req_len[1]),
      .beat_valid_i (beat_valid[1]),
      .beat_data_i  (beat_data),
      .write_mem_o  (write_mem),
      .write_at_o   (write_at),
      .write_data_o (write_data),
      .idle_o       (unit_idle[tw_pkg::UnitLoad]),
      .pad_step_o   (pad_step),
      .retire_o     (retire[tw_pkg::UnitLoad]),
      .state_o      (state[tw_pkg::UnitLoad]),
      .error_o      (unit_error[tw_pkg::UnitLoad]),
      .issue_index_o(load_issue_index),
      .retire_index_o(retire_index[tw_pkg::UnitLoad])
  );

  logic uop_read, inp_read, wgt_read;
  logic [$clog2(UopDepth)-1:0] uop_addr;
  logic [$clog2(InpDepth)-1:0] inp_addr;
  logic [$clog2(WgtDepth)-1:0] wgt_addr;
  logic [tw_pkg::UopBits-1:0] uop_data;
  logic [InpTile*8-1:0] inp_data;
  logic [WgtTile*8-1:0] wgt_data;
  logic gemm_acc_read, gemm_acc_write;
  logic [$clog2(AccDepth)-1:0] gemm_acc_read_addr, gemm_acc_write_addr;
  logic [AccTile*8-1:0] gemm_acc_read_data, gemm_acc_write_data;

  tw_gemm #(
      .Batch        (Rows),
      .BlockIn      (ChannelsIn),
      .BlockOut     (ChannelsOut),
      .MacPipeline  (MacPipeline),
      .MacPacked    (MacPacked),
      .MacLutColumns(MacLutColumns),
      .DataPath     (DataPath),
      .UopDepth     (UopDepth),
      .InpDepth     (InpDepth),
      .WgtDepth     (WgtDepth),
      .AccDepth     (AccDepth),
      .AccBankShift (AccBankShift)
  ) u_gemm (
      .clk_i,
      .rst_i           (unit_rst),
      .halt_i          (halt),
      .insn_valid_i    (queue_valid[tw_pkg::UnitGemm]),
      .entry_i         (queue[tw_pkg::UnitGemm]),
      .insn_pop_o      (queue_pop[tw_pkg::UnitGemm]),
      .token_i         (token_available[tw_pkg::UnitGemm]),
      .token_pop_o     (token_pop[tw_pkg::UnitGemm]),
      .token_push_o    (token_push[tw_pkg::UnitGemm]),
      .acc_busy_i      (vector_lock | load_lock),
      .acc_lock_o      (gemm_lock),
      .acc_claim_o     (gemm_claim),
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
      .idle_o          (unit_idle[tw_pkg::UnitGemm]),
      .issue_o         (mac_issue),
      .retire_o        (retire[tw_pkg::UnitGemm]),
      .state_o         (state[tw_pkg::UnitGemm]),
      .error_o         (unit_error[tw_pkg::UnitGemm]),
      .retire_index_o  (retire_index[tw_pkg::UnitGemm])
  );

  logic par_read, res_read, vec_acc_read, vec_acc_write, out_write;
  logic [$clog2(ParamBytes/ParRow)-1:0] par_addr;
  logic [ParRow*8-1:0] par_data;
  logic [$clog2(AccDepth)-1:0] vec_acc_read_addr, vec_acc_write_addr;
  logic [AccTile*8-1:0] vec_acc_read_data;
  logic [PartBits-1:0] vec_acc_write_part, out_part;
  logic [Lanes*32-1:0] vec_acc_write_data;
  logic [$clog2(ResDepth)-1:0] res_addr;
  logic [OutTile*8-1:0] res_data;
  logic [$clog2(OutDepth)-1:0] out_write_addr, out_read_addr;
  logic [Lanes*8-1:0] requantised, out_write_data;
  logic out_lookup;

  tw_vector #(
      .Batch       (Rows),
      .BlockOut    (ChannelsOut),
      .Lanes       (Lanes),
      .ParRowBytes (ParRow),
      .ParDepth    (ParDepth),
      .AccDepth    (AccDepth),
      .OutDepth    (OutDepth),
      .ResDepth    (ResDepth),
      .TableDepth  (TableDepth),
      .RowUnit     (RowUnit),
      .AccBankShift(AccBankShift)
  ) u_vector (
      .clk_i,
      .rst_i           (unit_rst),
      .halt_i          (halt),
      .insn_valid_i    (queue_valid[tw_pkg::UnitVector]),
      .entry_i         (queue[tw_pkg::UnitVector]),
      .insn_pop_o      (queue_pop[tw_pkg::UnitVector]),
      .token_i         (token_available[tw_pkg::UnitVector]),
      .token_pop_o     (token_pop[tw_pkg::UnitVector]),
      .token_push_o    (token_push[tw_pkg::UnitVector]),
      .acc_busy_i      (gemm_lock | gemm_claim | load_lock),
      .acc_lock_o      (vector_lock),
      .acc_claim_o     (vector_claim),
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
      .idle_o          (unit_idle[tw_pkg::UnitVector]),
      .issue_o         (vector_issue),
      .retire_o        (retire[tw_pkg::UnitVector]),
      .state_o         (state[tw_pkg::UnitVector]),
      .error_o         (unit_error[tw_pkg::UnitVector]),
      .retire_index_o  (retire_index[tw_pkg::UnitVector])
  );

  logic out_read;
  logic [9:0] out_slice;
  logic [4:0] out_lane;
  logic [BeatBytes*8-1:0] out_read_data;

  tw_store #(
      .BeatBytes  (BeatBytes),
      .BurstBeats (AxiBurstBeats),
      .Outstanding(WriteOutstanding),
      .TileBytes  (OutTile),
      .OutDepth   (OutDepth)
  ) u_store (
      .clk_i,
      .rst_i        (unit_rst),
      .halt_i       (halt),
      .mem_base_i   (mem_base),
      .mem_size_i   (mem_size),
      .insn_valid_i (queue_valid[tw_pkg::UnitStore]),
      .entry_i      (queue[tw_pkg::UnitStore]),
      .insn_pop_o   (queue_pop[tw_pkg::UnitStore]),
      .token_i      (token_available[tw_pkg::UnitStore]),
      .token_pop_o  (token_pop[tw_pkg::UnitStore]),
      .token_push_o (token_push[tw_pkg::UnitStore]),
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
      .idle_o       (unit_idle[tw_pkg::UnitStore]),
      .bus_idle_o   (write_idle),
      .burst_o      (write_burst),
      .beat_o       (write_beat),
      .retire_o     (retire[tw_pkg::UnitStore]),
      .state_o      (state[tw_pkg::UnitStore]),
      .error_o      (unit_error[tw_pkg::UnitStore]),
      .retire_index_o(retire_index[tw_pkg::UnitStore])
  );

  // ---------------------------------------------------------------------------------------
  // Scratchpads
  tw_spad #(
      .TileBytes (8),
      .ReadBytes (8),
      .BeatBytes (BeatBytes),
      .TotalBytes(UopBytes)
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
      .TotalBytes(InpBytes),
      .DataPath  (DataPath)
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
      .TotalBytes(WgtBytes),
      .DiagBytes (Diagonal),
      .RowBytes  (ChannelsIn),
      .Int4      (Int4Weights),
      .DataPath  (DataPath)
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
      .TotalBytes(ParamBytes),
      .DataPath  (DataPath)
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
      .TotalBytes(ResBytes),
      .DataPath  (DataPath)
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
      .TotalBytes(AccBytes),
      .Banks     (Banks),
      .DataPath  (DataPath)
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
      .Present  (ActivationTable * DataPath)
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
      .TotalBytes(OutBytes),
      .DataPath  (DataPath)
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
  // Errors: those of the bus and of tokens join those of the unit that caused them
  always_comb begin
    error[4] = fetch_error;
    for (int unsigned u = 0; u < 4; u++) begin
      error[u] = unit_error[u];
      if (token_overflow[u] && !unit_error[u].valid)
        error[u] = '{valid: 1'b1, code: tw_pkg::ErrTokenOverflow, index: retire_index[u]};
    end
    if ((range_err[1] || resp_err[1] || last_err[1]) && !unit_error[0].valid) begin
      error[0].valid = 1'b1;
      error[0].code  = resp_err[1] ? tw_pkg::ErrAxiRead :
                       last_err[1] ? tw_pkg::ErrAxiLast : tw_pkg::ErrDramRange;
      error[0].index = resp_err[1] || last_err[1] ? load_beat_index : load_issue_index;
    end
    if ((range_err[0] || resp_err[0] || last_err[0]) && !fetch_error.valid) begin
      error[4].valid = 1'b1;
      error[4].code  = resp_err[0] ? tw_pkg::ErrAxiRead :
                       last_err[0] ? tw_pkg::ErrAxiLast : tw_pkg::ErrDramRange;
      error[4].index = fetch_bus_index;
    end
  end

  assign all_idle = (queue_valid == '0) && (&unit_idle) && read_idle;
  assign bus_idle = read_idle && write_idle;
  assign progress = mac_issue || vector_issue || rvalid_i || bvalid_i || write_beat ||
                    read_burst || write_burst || (write_mem != '0) || pad_step || (retire != '0) ||
                    (queue_push != '0) || finish;
endmodule
