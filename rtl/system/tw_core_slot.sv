// SPDX-License-Identifier: Apache-2.0
// A core in a system: its registers as a core by itself has them, its queue, its scrub, and its
// side of an arbiter.
module tw_core_slot #(
    parameter tw_pkg::config_t Config = '0,           // of the core
    parameter int unsigned QueueDepth       = 8,       // descriptors, and completions
    parameter logic [39:0] ScrubInsnBase    = 40'd0,   // the program that zeroes the scratchpads
    parameter logic [38:0] ScrubMemSize     = 39'd0,
    parameter int unsigned ScrubInsnCount   = 8,
    localparam int unsigned ScrubRoom = 2 ** $clog2(ScrubInsnCount),  // instructions
    parameter logic [ScrubRoom*256-1:0] ScrubProgram = '0,
    localparam int unsigned AxiDataBits = Config.axi_data_bits
) (
    input  logic                     clk_i,
    input  logic                     rst_i,
    input  logic                     start_i,       // one cycle: as by the window
    input  logic                     enable_i,      // the queue may begin its next descriptor
    input  logic [             47:0] now_i,         // cycles since the reset
    output logic                     irq_o,         // level
    // window: an access in a cycle, its answer in the next
    input  logic                     write_i,
    input  logic [             11:0] write_addr_i,
    input  logic [             31:0] write_data_i,
    input  logic [              3:0] write_strb_i,
    input  logic                     read_i,
    input  logic [             11:0] read_addr_i,
    output logic [             31:0] read_data_o,
    // memory: see tw_core
    output logic [             39:0] araddr_o,
    output logic [              7:0] arlen_o,
    output logic                     arvalid_o,
    input  logic                     arready_i,
    input  logic [  AxiDataBits-1:0] rdata_i,
    input  logic [              1:0] rresp_i,
    input  logic                     rlast_i,
    input  logic                     rvalid_i,
    output logic [             39:0] awaddr_o,
    output logic [              7:0] awlen_o,
    output logic                     awvalid_o,
    input  logic                     awready_i,
    output logic [  AxiDataBits-1:0] wdata_o,
    output logic [AxiDataBits/8-1:0] wstrb_o,
    output logic                     wlast_o,
    output logic                     wvalid_o,
    input  logic                     wready_i,
    input  logic [              1:0] bresp_i,
    input  logic                     bvalid_i,
    output logic [             10:0] attributes_o
);
  logic start, soft_reset, snapshot, window_irq;
  tw_pkg::settings_t settings, window_settings, queue_settings;
  tw_pkg::status_t status;
  logic [1:0] events;
  logic [$clog2(tw_pkg::NumCounters)-1:0] counter_index;
  logic [63:0] counter;

  // ---------------------------------------------------------------------------------------
  // Registers: the lower part as tw_regs has it. It takes an access at once, reads in the next cycle
  // and has written in the one after that: tw_pages brings writes three cycles apart at least.
  logic window_start, window_reset, of_queue_q;
  logic active, scrub, queue_irq, queue_start, queue_reset;
  logic [31:0] window_data, queue_data, queue_data_q;
  logic [4:0] unused_ready;

  tw_regs #(
      .ConfigHash(Config.config_hash)
  ) u_regs (
      .clk_i,
      .rst_i,
      .awaddr_i       (write_addr_i),
      .awvalid_i      (write_i && write_addr_i < tw_system_pkg::QueueBase),
      .awready_o      (unused_ready[0]),
      .wdata_i        (write_data_i),
      .wstrb_i        (write_strb_i),
      .wvalid_i       (write_i && write_addr_i < tw_system_pkg::QueueBase),
      .wready_o       (unused_ready[1]),
      .bvalid_o       (unused_ready[2]),
      .bready_i       (1'b1),
      .araddr_i       (read_addr_i),
      .arvalid_i      (read_i && read_addr_i < tw_system_pkg::QueueBase),
      .arready_o      (unused_ready[3]),
      .rdata_o        (window_data),
      .rvalid_o       (unused_ready[4]),
      .rready_i       (1'b1),
      .start_o        (window_start),
      .soft_reset_o   (window_reset),
      .settings_o     (window_settings),
      .snapshot_o     (snapshot),
      .status_i       (status),
      .event_i        (active ? 2'd0 : events),
      .irq_o          (window_irq),
      .counter_index_o(counter_index),
      .counter_i      (counter)
  );

  tw_queue #(
      .Depth         (QueueDepth),
      .ScrubInsnBase (ScrubInsnBase),
      .ScrubInsnCount(ScrubInsnCount),
      .ScrubMemSize  (ScrubMemSize)
  ) u_queue (
      .clk_i,
      .rst_i,
      .enable_i,
      .now_i,
      .write_i     (write_i && (&write_strb_i)),
      .write_addr_i,
      .write_data_i,
      .read_addr_i,
      .read_data_o (queue_data),
      .irq_o       (queue_irq),
      .active_o    (active),
      .scrub_o     (scrub),
      .start_o     (queue_start),
      .soft_reset_o(queue_reset),
      .settings_o  (queue_settings),
      .attributes_i(window_settings.attributes),
      .status_i    (status)
  );

  always_ff @(posedge clk_i) begin
    of_queue_q   <= read_addr_i >= tw_system_pkg::QueueBase;
    queue_data_q <= queue_data;
  end
  assign read_data_o = of_queue_q ? queue_data_q : window_data;
  assign irq_o       = window_irq || queue_irq;
  assign start       = active ? queue_start : window_start || start_i;
  assign soft_reset  = window_reset || queue_reset;
  assign settings    = active ? queue_settings : window_settings;

  // ---------------------------------------------------------------------------------------
  // Core. Between runs its bus is idle, so that DRAM and scrub change places unnoticed.
  logic core_arvalid, core_arready, core_rlast, core_rvalid;
  logic scrub_arready, scrub_rlast, scrub_rvalid;
  logic [1:0] core_rresp;
  logic [AxiDataBits-1:0] core_rdata, scrub_rdata;

  tw_core #(.Config(Config)) u_core (
      .clk_i,
      .rst_i,
      .start_i        (start),
      .soft_reset_i   (soft_reset),
      .settings_i     (settings),
      .status_o       (status),
      .event_o        (events),
      .snapshot_i     (snapshot),
      .counter_index_i(counter_index),
      .counter_o      (counter),
      .araddr_o,
      .arlen_o,
      .arvalid_o      (core_arvalid),
      .arready_i      (core_arready),
      .rdata_i        (core_rdata),
      .rresp_i        (core_rresp),
      .rlast_i        (core_rlast),
      .rvalid_i       (core_rvalid),
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
      .attributes_o
  );

  tw_scrub #(
      .BeatBytes(AxiDataBits / 8),
      .InsnBase (ScrubInsnBase),
      .Instructions(ScrubRoom),
      .Program  (ScrubProgram)
  ) u_scrub (
      .clk_i,
      .rst_i,
      .araddr_i (araddr_o),
      .arlen_i  (arlen_o),
      .arvalid_i(core_arvalid && scrub),
      .arready_o(scrub_arready),
      .rdata_o  (scrub_rdata),
      .rlast_o  (scrub_rlast),
      .rvalid_o (scrub_rvalid)
  );
  assign arvalid_o    = core_arvalid && !scrub;
  assign core_arready = scrub ? scrub_arready : arready_i;
  assign core_rvalid  = scrub ? scrub_rvalid : rvalid_i;
  assign core_rdata   = scrub ? scrub_rdata : rdata_i;
  assign core_rlast   = scrub ? scrub_rlast : rlast_i;
  assign core_rresp   = scrub ? 2'b00 : rresp_i;
endmodule
