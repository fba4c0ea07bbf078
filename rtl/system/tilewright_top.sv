// SPDX-License-Identifier: Apache-2.0
// The accelerator as a board has it: a core, its AXI4-Lite registers and interrupt, and an AXI4 port
// to DRAM with its constant attributes.
module tilewright_top #(
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
    parameter int unsigned AccBankCount     = 4,       // banks of ACC
    parameter logic [31:0] ConfigHash       = 32'd0,   // HwConfig.config_hash of the above
    parameter int unsigned DataPath         = 1,       // 0: control and UOP alone, for simulation
    parameter int unsigned AddressBits      = 40       // of the board's memory port, 32 to 40
) (
    input  logic                     aclk,
    input  logic                     aresetn,
    output logic                     irq_o,
    // AXI4-Lite control
    input  logic [             11:0] s_axil_awaddr,
    input  logic [              2:0] s_axil_awprot,
    input  logic                     s_axil_awvalid,
    output logic                     s_axil_awready,
    input  logic [             31:0] s_axil_wdata,
    input  logic [              3:0] s_axil_wstrb,
    input  logic                     s_axil_wvalid,
    output logic                     s_axil_wready,
    output logic [              1:0] s_axil_bresp,
    output logic                     s_axil_bvalid,
    input  logic                     s_axil_bready,
    input  logic [             11:0] s_axil_araddr,
    input  logic [              2:0] s_axil_arprot,
    input  logic                     s_axil_arvalid,
    output logic                     s_axil_arready,
    output logic [             31:0] s_axil_rdata,
    output logic [              1:0] s_axil_rresp,
    output logic                     s_axil_rvalid,
    input  logic                     s_axil_rready,
    // AXI4 DRAM port
    output logic [              0:0] m_axi_awid,
    output logic [             39:0] m_axi_awaddr,
    output logic [              7:0] m_axi_awlen,
    output logic [              2:0] m_axi_awsize,
    output logic [              1:0] m_axi_awburst,
    output logic [              0:0] m_axi_awlock,
    output logic [              3:0] m_axi_awcache,
    output logic [              2:0] m_axi_awprot,
    output logic [              3:0] m_axi_awqos,
    output logic                     m_axi_awvalid,
    input  logic                     m_axi_awready,
    output logic [  AxiDataBits-1:0] m_axi_wdata,
    output logic [AxiDataBits/8-1:0] m_axi_wstrb,
    output logic                     m_axi_wlast,
    output logic                     m_axi_wvalid,
    input  logic                     m_axi_wready,
    input  logic [              0:0] m_axi_bid,
    input  logic [              1:0] m_axi_bresp,
    input  logic                     m_axi_bvalid,
    output logic                     m_axi_bready,
    output logic [              0:0] m_axi_arid,
    output logic [             39:0] m_axi_araddr,
    output logic [              7:0] m_axi_arlen,
    output logic [              2:0] m_axi_arsize,
    output logic [              1:0] m_axi_arburst,
    output logic [              0:0] m_axi_arlock,
    output logic [              3:0] m_axi_arcache,
    output logic [              2:0] m_axi_arprot,
    output logic [              3:0] m_axi_arqos,
    output logic                     m_axi_arvalid,
    input  logic                     m_axi_arready,
    input  logic [              0:0] m_axi_rid,
    input  logic [  AxiDataBits-1:0] m_axi_rdata,
    input  logic [              1:0] m_axi_rresp,
    input  logic                     m_axi_rlast,
    input  logic                     m_axi_rvalid,
    output logic                     m_axi_rready
);
  localparam tw_pkg::config_t Config = '{
      batch: Batch,
      block_in: BlockIn,
      block_out: BlockOut,
      inp_bytes: InpBytes,
      wgt_bytes: WgtBytes,
      acc_bytes: AccBytes,
      out_bytes: OutBytes,
      uop_bytes: UopBytes,
      res_bytes: ResBytes,
      param_bytes: ParamBytes,
      axi_data_bits: AxiDataBits,
      axi_burst_beats: AxiBurstBeats,
      read_outstanding: ReadOutstanding,
      write_outstanding: WriteOutstanding,
      vector_lanes: VectorLanes,
      mac_pipeline: MacPipeline,
      mac_packed: MacPacked,
      mac_lut_columns: MacLutColumns,
      activation_table: ActivationTable,
      row_unit: RowUnit,
      int4_weights: Int4Weights,
      acc_bank_count: AccBankCount,
      config_hash: ConfigHash,
      data_path: DataPath,
      address_bits: AddressBits
  };

  logic rst, start, soft_reset, snapshot;
  tw_pkg::settings_t settings;
  tw_pkg::status_t status;
  logic [1:0] events;
  logic [$clog2(tw_pkg::NumCounters)-1:0] counter_index;
  logic [63:0] counter;
  logic [10:0] attributes;

  assign rst = !aresetn;

  tw_regs #(
      .ConfigHash(ConfigHash)
  ) u_regs (
      .clk_i          (aclk),
      .rst_i          (rst),
      .awaddr_i       (s_axil_awaddr),
      .awvalid_i      (s_axil_awvalid),
      .awready_o      (s_axil_awready),
      .wdata_i        (s_axil_wdata),
      .wstrb_i        (s_axil_wstrb),
      .wvalid_i       (s_axil_wvalid),
      .wready_o       (s_axil_wready),
      .bvalid_o       (s_axil_bvalid),
      .bready_i       (s_axil_bready),
      .araddr_i       (s_axil_araddr),
      .arvalid_i      (s_axil_arvalid),
      .arready_o      (s_axil_arready),
      .rdata_o        (s_axil_rdata),
      .rvalid_o       (s_axil_rvalid),
      .rready_i       (s_axil_rready),
      .start_o        (start),
      .soft_reset_o   (soft_reset),
      .settings_o     (settings),
      .snapshot_o     (snapshot),
      .status_i       (status),
      .event_i        (events),
      .irq_o          (irq_o),
      .counter_index_o(counter_index),
      .counter_i      (counter)
  );
  assign s_axil_bresp = '0;
  assign s_axil_rresp = '0;

  tw_core #(.Config(Config)) u_core (
      .clk_i          (aclk),
      .rst_i          (rst),
      .start_i        (start),
      .soft_reset_i   (soft_reset),
      .settings_i     (settings),
      .status_o       (status),
      .event_o        (events),
      .snapshot_i     (snapshot),
      .counter_index_i(counter_index),
      .counter_o      (counter),
      .araddr_o       (m_axi_araddr),
      .arlen_o        (m_axi_arlen),
      .arvalid_o      (m_axi_arvalid),
      .arready_i      (m_axi_arready),
      .rdata_i        (m_axi_rdata),
      .rresp_i        (m_axi_rresp),
      .rlast_i        (m_axi_rlast),
      .rvalid_i       (m_axi_rvalid),
      .awaddr_o       (m_axi_awaddr),
      .awlen_o        (m_axi_awlen),
      .awvalid_o      (m_axi_awvalid),
      .awready_i      (m_axi_awready),
      .wdata_o        (m_axi_wdata),
      .wstrb_o        (m_axi_wstrb),
      .wlast_o        (m_axi_wlast),
      .wvalid_o       (m_axi_wvalid),
      .wready_i       (m_axi_wready),
      .bresp_i        (m_axi_bresp),
      .bvalid_i       (m_axi_bvalid),
      .attributes_o   (attributes)
  );

  // AXI attributes: constant, but for those that the run's settings give
  assign m_axi_awid    = '0;
  assign m_axi_awsize  = 3'($clog2(AxiDataBits / 8));
  assign m_axi_awburst = 2'b01;
  assign m_axi_awlock  = '0;
  assign {m_axi_awqos, m_axi_awprot, m_axi_awcache} = attributes;
  assign m_axi_bready  = 1'b1;
  assign m_axi_arid    = '0;
  assign m_axi_arsize  = 3'($clog2(AxiDataBits / 8));
  assign m_axi_arburst = 2'b01;
  assign m_axi_arlock  = '0;
  assign {m_axi_arqos, m_axi_arprot, m_axi_arcache} = attributes;
  assign m_axi_rready  = 1'b1;

  logic unused;
  assign unused = ^{s_axil_awprot, s_axil_arprot, m_axi_bid, m_axi_rid};
endmodule
