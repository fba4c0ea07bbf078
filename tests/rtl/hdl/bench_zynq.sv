// SPDX-License-Identifier: Apache-2.0
// zynq_top with the ports of its processing system outside: s_ is M_AXI_GP0, m_ is S_AXI_HP0.
module bench_zynq (
    input  logic        clk_i,
    input  logic        resetn_i,
    output logic [19:0] irq_o,
    input  logic [11:0] s_awid_i,
    input  logic [31:0] s_awaddr_i,
    input  logic        s_awvalid_i,
    input  logic [31:0] s_wdata_i,
    input  logic [ 3:0] s_wstrb_i,
    input  logic        s_wlast_i,
    input  logic        s_wvalid_i,
    input  logic        s_bready_i,
    input  logic [11:0] s_arid_i,
    input  logic [31:0] s_araddr_i,
    input  logic [ 3:0] s_arlen_i,
    input  logic        s_arvalid_i,
    input  logic        s_rready_i,
    output logic        s_awready_o,
    output logic        s_wready_o,
    output logic [11:0] s_bid_o,
    output logic [ 1:0] s_bresp_o,
    output logic        s_bvalid_o,
    output logic        s_arready_o,
    output logic [11:0] s_rid_o,
    output logic [31:0] s_rdata_o,
    output logic [ 1:0] s_rresp_o,
    output logic        s_rlast_o,
    output logic        s_rvalid_o,
    input  logic        m_awready_i,
    input  logic        m_wready_i,
    input  logic [ 1:0] m_bresp_i,
    input  logic        m_bvalid_i,
    input  logic        m_arready_i,
    input  logic [63:0] m_rdata_i,
    input  logic [ 1:0] m_rresp_i,
    input  logic        m_rlast_i,
    input  logic        m_rvalid_i,
    output logic [31:0] m_awaddr_o,
    output logic [ 3:0] m_awlen_o,
    output logic        m_awvalid_o,
    output logic [63:0] m_wdata_o,
    output logic [ 7:0] m_wstrb_o,
    output logic        m_wlast_o,
    output logic        m_wvalid_o,
    output logic [31:0] m_araddr_o,
    output logic [ 3:0] m_arlen_o,
    output logic        m_arvalid_o
);
  zynq_top u_top ();
  always_comb begin
    u_top.u_ps7.FCLKCLK = {3'd0, clk_i};
    u_top.u_ps7.FCLKRESETN = {3'd0, resetn_i};
    u_top.u_ps7.MAXIGP0AWID = s_awid_i;
    u_top.u_ps7.MAXIGP0AWADDR = s_awaddr_i;
    u_top.u_ps7.MAXIGP0AWVALID = s_awvalid_i;
    u_top.u_ps7.MAXIGP0WDATA = s_wdata_i;
    u_top.u_ps7.MAXIGP0WSTRB = s_wstrb_i;
    u_top.u_ps7.MAXIGP0WLAST = s_wlast_i;
    u_top.u_ps7.MAXIGP0WVALID = s_wvalid_i;
    u_top.u_ps7.MAXIGP0BREADY = s_bready_i;
    u_top.u_ps7.MAXIGP0ARID = s_arid_i;
    u_top.u_ps7.MAXIGP0ARADDR = s_araddr_i;
    u_top.u_ps7.MAXIGP0ARLEN = s_arlen_i;
    u_top.u_ps7.MAXIGP0ARVALID = s_arvalid_i;
    u_top.u_ps7.MAXIGP0RREADY = s_rready_i;
    u_top.u_ps7.SAXIHP0AWREADY = m_awready_i;
    u_top.u_ps7.SAXIHP0WREADY = m_wready_i;
    u_top.u_ps7.SAXIHP0BRESP = m_bresp_i;
    u_top.u_ps7.SAXIHP0BVALID = m_bvalid_i;
    u_top.u_ps7.SAXIHP0ARREADY = m_arready_i;
    u_top.u_ps7.SAXIHP0RDATA = m_rdata_i;
    u_top.u_ps7.SAXIHP0RRESP = m_rresp_i;
    u_top.u_ps7.SAXIHP0RLAST = m_rlast_i;
    u_top.u_ps7.SAXIHP0RVALID = m_rvalid_i;
  end
  assign irq_o = u_top.u_ps7.IRQF2P;
  assign s_awready_o = u_top.u_ps7.MAXIGP0AWREADY;
  assign s_wready_o = u_top.u_ps7.MAXIGP0WREADY;
  assign s_bid_o = u_top.u_ps7.MAXIGP0BID;
  assign s_bresp_o = u_top.u_ps7.MAXIGP0BRESP;
  assign s_bvalid_o = u_top.u_ps7.MAXIGP0BVALID;
  assign s_arready_o = u_top.u_ps7.MAXIGP0ARREADY;
  assign s_rid_o = u_top.u_ps7.MAXIGP0RID;
  assign s_rdata_o = u_top.u_ps7.MAXIGP0RDATA;
  assign s_rresp_o = u_top.u_ps7.MAXIGP0RRESP;
  assign s_rlast_o = u_top.u_ps7.MAXIGP0RLAST;
  assign s_rvalid_o = u_top.u_ps7.MAXIGP0RVALID;
  assign m_awaddr_o = u_top.u_ps7.SAXIHP0AWADDR;
  assign m_awlen_o = u_top.u_ps7.SAXIHP0AWLEN;
  assign m_awvalid_o = u_top.u_ps7.SAXIHP0AWVALID;
  assign m_wdata_o = u_top.u_ps7.SAXIHP0WDATA;
  assign m_wstrb_o = u_top.u_ps7.SAXIHP0WSTRB;
  assign m_wlast_o = u_top.u_ps7.SAXIHP0WLAST;
  assign m_wvalid_o = u_top.u_ps7.SAXIHP0WVALID;
  assign m_araddr_o = u_top.u_ps7.SAXIHP0ARADDR;
  assign m_arlen_o = u_top.u_ps7.SAXIHP0ARLEN;
  assign m_arvalid_o = u_top.u_ps7.SAXIHP0ARVALID;
endmodule
