// SPDX-License-Identifier: Apache-2.0
// A Zynq-7000 for open tools: the accelerator of one configuration at the processing system's ports
// M_AXI_GP0 (registers) and S_AXI_HP0 (DRAM), its clock FCLK0 and its first interrupt.
//
// No pin of the logic is used. The pins of the processing system are fixed; its software sets them
// up, so they stay open here. The bus of the configuration has 64 bits and at most 16 beats.
module zynq_top ();
  logic [3:0] fclk, fclk_resetn;
  logic aclk, aresetn, irq;
  (* ASYNC_REG = "TRUE" *) logic [1:0] reset_q;

  BUFG u_clock (
      .I(fclk[0]),
      .O(aclk)
  );
  always_ff @(posedge aclk or negedge fclk_resetn[0])
    if (!fclk_resetn[0]) reset_q <= '0;
    else reset_q <= {reset_q[0], 1'b1};
  assign aresetn = reset_q[1];

  // ---- registers
  logic [31:0] gp_awaddr, gp_araddr, gp_wdata, gp_rdata;
  logic [11:0] gp_awid, gp_arid, gp_bid, gp_rid;
  logic [3:0] gp_arlen, gp_wstrb;
  logic [1:0] gp_bresp, gp_rresp;
  logic gp_awvalid, gp_awready, gp_wvalid, gp_wready, gp_wlast, gp_bvalid, gp_bready;
  logic gp_arvalid, gp_arready, gp_rvalid, gp_rready, gp_rlast;
  logic [11:0] axil_awaddr, axil_araddr;
  logic [31:0] axil_wdata, axil_rdata;
  logic [3:0] axil_wstrb;
  logic [1:0] axil_bresp, axil_rresp;
  logic axil_awvalid, axil_awready, axil_wvalid, axil_wready, axil_bvalid, axil_bready;
  logic axil_arvalid, axil_arready, axil_rvalid, axil_rready;

  tw_axi3_lite u_registers (
      .clk_i      (aclk),
      .rst_i      (!aresetn),
      .s_awid_i   (gp_awid),
      .s_awaddr_i (gp_awaddr[11:0]),
      .s_awvalid_i(gp_awvalid),
      .s_awready_o(gp_awready),
      .s_wdata_i  (gp_wdata),
      .s_wstrb_i  (gp_wstrb),
      .s_wlast_i  (gp_wlast),
      .s_wvalid_i (gp_wvalid),
      .s_wready_o (gp_wready),
      .s_bid_o    (gp_bid),
      .s_bresp_o  (gp_bresp),
      .s_bvalid_o (gp_bvalid),
      .s_bready_i (gp_bready),
      .s_arid_i   (gp_arid),
      .s_araddr_i (gp_araddr[11:0]),
      .s_arlen_i  (gp_arlen),
      .s_arvalid_i(gp_arvalid),
      .s_arready_o(gp_arready),
      .s_rid_o    (gp_rid),
      .s_rdata_o  (gp_rdata),
      .s_rresp_o  (gp_rresp),
      .s_rlast_o  (gp_rlast),
      .s_rvalid_o (gp_rvalid),
      .s_rready_i (gp_rready),
      .awaddr_o   (axil_awaddr),
      .awvalid_o  (axil_awvalid),
      .awready_i  (axil_awready),
      .wdata_o    (axil_wdata),
      .wstrb_o    (axil_wstrb),
      .wvalid_o   (axil_wvalid),
      .wready_i   (axil_wready),
      .bresp_i    (axil_bresp),
      .bvalid_i   (axil_bvalid),
      .bready_o   (axil_bready),
      .araddr_o   (axil_araddr),
      .arvalid_o  (axil_arvalid),
      .arready_i  (axil_arready),
      .rdata_i    (axil_rdata),
      .rresp_i    (axil_rresp),
      .rvalid_i   (axil_rvalid),
      .rready_o   (axil_rready)
  );

  // ---- DRAM
  logic [39:0] hp_awaddr, hp_araddr;
  logic [7:0] hp_awlen, hp_arlen, hp_wstrb;
  logic [2:0] hp_awsize, hp_arsize, hp_awprot, hp_arprot;
  logic [1:0] hp_awburst, hp_arburst, hp_bresp, hp_rresp;
  logic [3:0] hp_awcache, hp_arcache, hp_awqos, hp_arqos;
  logic [63:0] hp_wdata, hp_rdata;
  logic hp_awvalid, hp_awready, hp_wvalid, hp_wready, hp_wlast, hp_bvalid, hp_bready;
  logic hp_arvalid, hp_arready, hp_rvalid, hp_rready, hp_rlast;

  // S_AXI_HP0 has addresses of 32 bits: a run beyond them is refused at its start. IDs and locks are
  // constant and stay open.
  /* verilator lint_off PINCONNECTEMPTY */
  tilewright #(
      .AddressBits(32)
  ) u_accelerator (
      .aclk          (aclk),
      .aresetn       (aresetn),
      .irq           (irq),
      .s_axil_awaddr (axil_awaddr),
      .s_axil_awprot (3'd0),
      .s_axil_awvalid(axil_awvalid),
      .s_axil_awready(axil_awready),
      .s_axil_wdata  (axil_wdata),
      .s_axil_wstrb  (axil_wstrb),
      .s_axil_wvalid (axil_wvalid),
      .s_axil_wready (axil_wready),
      .s_axil_bresp  (axil_bresp),
      .s_axil_bvalid (axil_bvalid),
      .s_axil_bready (axil_bready),
      .s_axil_araddr (axil_araddr),
      .s_axil_arprot (3'd0),
      .s_axil_arvalid(axil_arvalid),
      .s_axil_arready(axil_arready),
      .s_axil_rdata  (axil_rdata),
      .s_axil_rresp  (axil_rresp),
      .s_axil_rvalid (axil_rvalid),
      .s_axil_rready (axil_rready),
      .m_axi_awid    (),
      .m_axi_awaddr  (hp_awaddr),
      .m_axi_awlen   (hp_awlen),
      .m_axi_awsize  (hp_awsize),
      .m_axi_awburst (hp_awburst),
      .m_axi_awlock  (),
      .m_axi_awcache (hp_awcache),
      .m_axi_awprot  (hp_awprot),
      .m_axi_awqos   (hp_awqos),
      .m_axi_awvalid (hp_awvalid),
      .m_axi_awready (hp_awready),
      .m_axi_wdata   (hp_wdata),
      .m_axi_wstrb   (hp_wstrb),
      .m_axi_wlast   (hp_wlast),
      .m_axi_wvalid  (hp_wvalid),
      .m_axi_wready  (hp_wready),
      .m_axi_bid     (1'b0),
      .m_axi_bresp   (hp_bresp),
      .m_axi_bvalid  (hp_bvalid),
      .m_axi_bready  (hp_bready),
      .m_axi_arid    (),
      .m_axi_araddr  (hp_araddr),
      .m_axi_arlen   (hp_arlen),
      .m_axi_arsize  (hp_arsize),
      .m_axi_arburst (hp_arburst),
      .m_axi_arlock  (),
      .m_axi_arcache (hp_arcache),
      .m_axi_arprot  (hp_arprot),
      .m_axi_arqos   (hp_arqos),
      .m_axi_arvalid (hp_arvalid),
      .m_axi_arready (hp_arready),
      .m_axi_rid     (1'b0),
      .m_axi_rdata   (hp_rdata),
      .m_axi_rresp   (hp_rresp),
      .m_axi_rlast   (hp_rlast),
      .m_axi_rvalid  (hp_rvalid),
      .m_axi_rready  (hp_rready)
  );
  /* verilator lint_on PINCONNECTEMPTY */

  // ---- processing system, by the names of the primitive (cells_xtra.v of Yosys lists them)
  (* keep *)
  PS7 u_ps7 (
      .FCLKCLK             (fclk),
      .FCLKRESETN          (fclk_resetn),
      .FCLKCLKTRIGN        (4'd0),
      .FPGAIDLEN           (1'b1),
      .DDRARB              (4'd0),
      .EMIOSRAMINTIN       (1'b0),
      .IRQF2P              ({19'd0, irq}),
      .MAXIGP0ACLK         (aclk),
      .MAXIGP0AWID         (gp_awid),
      .MAXIGP0AWADDR       (gp_awaddr),
      .MAXIGP0AWVALID      (gp_awvalid),
      .MAXIGP0AWREADY      (gp_awready),
      .MAXIGP0WDATA        (gp_wdata),
      .MAXIGP0WSTRB        (gp_wstrb),
      .MAXIGP0WLAST        (gp_wlast),
      .MAXIGP0WVALID       (gp_wvalid),
      .MAXIGP0WREADY       (gp_wready),
      .MAXIGP0BID          (gp_bid),
      .MAXIGP0BRESP        (gp_bresp),
      .MAXIGP0BVALID       (gp_bvalid),
      .MAXIGP0BREADY       (gp_bready),
      .MAXIGP0ARID         (gp_arid),
      .MAXIGP0ARADDR       (gp_araddr),
      .MAXIGP0ARLEN        (gp_arlen),
      .MAXIGP0ARVALID      (gp_arvalid),
      .MAXIGP0ARREADY      (gp_arready),
      .MAXIGP0RID          (gp_rid),
      .MAXIGP0RDATA        (gp_rdata),
      .MAXIGP0RRESP        (gp_rresp),
      .MAXIGP0RLAST        (gp_rlast),
      .MAXIGP0RVALID       (gp_rvalid),
      .MAXIGP0RREADY       (gp_rready),
      .SAXIHP0ACLK         (aclk),
      .SAXIHP0AWID         (6'd0),
      .SAXIHP0AWADDR       (hp_awaddr[31:0]),
      .SAXIHP0AWLEN        (hp_awlen[3:0]),
      .SAXIHP0AWSIZE       (hp_awsize[1:0]),
      .SAXIHP0AWBURST      (hp_awburst),
      .SAXIHP0AWLOCK       (2'd0),
      .SAXIHP0AWCACHE      (hp_awcache),
      .SAXIHP0AWPROT       (hp_awprot),
      .SAXIHP0AWQOS        (hp_awqos),
      .SAXIHP0AWVALID      (hp_awvalid),
      .SAXIHP0AWREADY      (hp_awready),
      .SAXIHP0WID          (6'd0),
      .SAXIHP0WDATA        (hp_wdata),
      .SAXIHP0WSTRB        (hp_wstrb),
      .SAXIHP0WLAST        (hp_wlast),
      .SAXIHP0WVALID       (hp_wvalid),
      .SAXIHP0WREADY       (hp_wready),
      .SAXIHP0BRESP        (hp_bresp),
      .SAXIHP0BVALID       (hp_bvalid),
      .SAXIHP0BREADY       (hp_bready),
      .SAXIHP0ARID         (6'd0),
      .SAXIHP0ARADDR       (hp_araddr[31:0]),
      .SAXIHP0ARLEN        (hp_arlen[3:0]),
      .SAXIHP0ARSIZE       (hp_arsize[1:0]),
      .SAXIHP0ARBURST      (hp_arburst),
      .SAXIHP0ARLOCK       (2'd0),
      .SAXIHP0ARCACHE      (hp_arcache),
      .SAXIHP0ARPROT       (hp_arprot),
      .SAXIHP0ARQOS        (hp_arqos),
      .SAXIHP0ARVALID      (hp_arvalid),
      .SAXIHP0ARREADY      (hp_arready),
      .SAXIHP0RDATA        (hp_rdata),
      .SAXIHP0RRESP        (hp_rresp),
      .SAXIHP0RLAST        (hp_rlast),
      .SAXIHP0RVALID       (hp_rvalid),
      .SAXIHP0RREADY       (hp_rready),
      .SAXIHP0RDISSUECAP1EN(1'b0),
      .SAXIHP0WRISSUECAP1EN(1'b0)
  );

  // One clock is used; pages and regions are the processors' to decode; bursts have 16 beats at most.
  logic unused;
  assign unused = ^{fclk[3:1], fclk_resetn[3:1], gp_awaddr[31:12], gp_araddr[31:12],
                    hp_awaddr[39:32], hp_araddr[39:32], hp_awlen[7:4], hp_arlen[7:4],
                    hp_awsize[2], hp_arsize[2]};
endmodule
