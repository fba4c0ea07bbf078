// SPDX-License-Identifier: Apache-2.0
// In the accelerator's place, for tests of what stands around it: sixteen registers, of which START
// copies a burst of memory to another place. A start of address 0x40 and up answers SLVERR.
//
// Registers: 0x00 start, 0x04 beats less one, 0x08 from (bits 31:0), 0x0c to, 0x10 strobes, 0x14 bits
// 39:32 of both, 0x38 (read) AddressBits, 0x3c (read) responses: bits 1:0 of the last beat read, 3:2 of the write, 4 busy.
module tilewright #(
    parameter int unsigned AddressBits = 40
) (
    input  logic        aclk,
    input  logic        aresetn,
    output logic        irq,
    input  logic [11:0] s_axil_awaddr,
    input  logic [ 2:0] s_axil_awprot,
    input  logic        s_axil_awvalid,
    output logic        s_axil_awready,
    input  logic [31:0] s_axil_wdata,
    input  logic [ 3:0] s_axil_wstrb,
    input  logic        s_axil_wvalid,
    output logic        s_axil_wready,
    output logic [ 1:0] s_axil_bresp,
    output logic        s_axil_bvalid,
    input  logic        s_axil_bready,
    input  logic [11:0] s_axil_araddr,
    input  logic [ 2:0] s_axil_arprot,
    input  logic        s_axil_arvalid,
    output logic        s_axil_arready,
    output logic [31:0] s_axil_rdata,
    output logic [ 1:0] s_axil_rresp,
    output logic        s_axil_rvalid,
    input  logic        s_axil_rready,
    output logic [ 0:0] m_axi_awid,
    output logic [39:0] m_axi_awaddr,
    output logic [ 7:0] m_axi_awlen,
    output logic [ 2:0] m_axi_awsize,
    output logic [ 1:0] m_axi_awburst,
    output logic [ 0:0] m_axi_awlock,
    output logic [ 3:0] m_axi_awcache,
    output logic [ 2:0] m_axi_awprot,
    output logic [ 3:0] m_axi_awqos,
    output logic        m_axi_awvalid,
    input  logic        m_axi_awready,
    output logic [63:0] m_axi_wdata,
    output logic [ 7:0] m_axi_wstrb,
    output logic        m_axi_wlast,
    output logic        m_axi_wvalid,
    input  logic        m_axi_wready,
    input  logic [ 0:0] m_axi_bid,
    input  logic [ 1:0] m_axi_bresp,
    input  logic        m_axi_bvalid,
    output logic        m_axi_bready,
    output logic [ 0:0] m_axi_arid,
    output logic [39:0] m_axi_araddr,
    output logic [ 7:0] m_axi_arlen,
    output logic [ 2:0] m_axi_arsize,
    output logic [ 1:0] m_axi_arburst,
    output logic [ 0:0] m_axi_arlock,
    output logic [ 3:0] m_axi_arcache,
    output logic [ 2:0] m_axi_arprot,
    output logic [ 3:0] m_axi_arqos,
    output logic        m_axi_arvalid,
    input  logic        m_axi_arready,
    input  logic [ 0:0] m_axi_rid,
    input  logic [63:0] m_axi_rdata,
    input  logic [ 1:0] m_axi_rresp,
    input  logic        m_axi_rlast,
    input  logic        m_axi_rvalid,
    output logic        m_axi_rready
);
  logic [31:0] regs_q[16];
  logic [63:0] beats_q[16];
  logic [3:0] read_q, write_q;
  logic [1:0] read_resp_q, write_resp_q;
  logic busy_q, awheld_q, wheld_q;
  logic [11:0] awaddr_q;
  logic [31:0] wdata_q;

  // ---- registers: address and data of a write come in any order
  assign s_axil_awready = !awheld_q && !s_axil_bvalid;
  assign s_axil_wready  = !wheld_q && !s_axil_bvalid;
  assign s_axil_arready = !s_axil_rvalid;
  always_ff @(posedge aclk) begin
    if (s_axil_awvalid && s_axil_awready) {awheld_q, awaddr_q} <= {1'b1, s_axil_awaddr};
    if (s_axil_wvalid && s_axil_wready) {wheld_q, wdata_q} <= {1'b1, s_axil_wdata};
    if (awheld_q && wheld_q) begin
      {awheld_q, wheld_q, s_axil_bvalid} <= 3'b001;
      s_axil_bresp <= awaddr_q[11:6] == '0 ? 2'b00 : 2'b10;
      if (awaddr_q[11:6] == '0) regs_q[awaddr_q[5:2]] <= wdata_q;
    end
    if (s_axil_bvalid && s_axil_bready) s_axil_bvalid <= 1'b0;
    if (s_axil_arvalid && s_axil_arready) begin
      s_axil_rvalid <= 1'b1;
      s_axil_rresp  <= s_axil_araddr[11:6] == '0 ? 2'b00 : 2'b10;
      s_axil_rdata  <= regs_q[s_axil_araddr[5:2]];
      if (s_axil_araddr[5:2] == 4'd14) s_axil_rdata <= AddressBits;
      if (s_axil_araddr[5:2] == 4'd15)
        s_axil_rdata <= {27'd0, busy_q, write_resp_q, read_resp_q};
    end
    if (s_axil_rvalid && s_axil_rready) s_axil_rvalid <= 1'b0;
    if (!aresetn) {awheld_q, wheld_q, s_axil_bvalid, s_axil_rvalid} <= '0;
  end

  // ---- a burst is read, then written
  assign m_axi_araddr = {regs_q[5][7:0], regs_q[2]};
  assign m_axi_awaddr = {regs_q[5][7:0], regs_q[3]};
  assign m_axi_arlen  = {4'd0, regs_q[1][3:0]};
  assign m_axi_awlen  = {4'd0, regs_q[1][3:0]};
  assign m_axi_wstrb  = regs_q[4][7:0];
  assign m_axi_wdata  = beats_q[write_q];
  assign m_axi_wlast  = write_q == regs_q[1][3:0];
  assign m_axi_bready = 1'b1;
  assign m_axi_rready = 1'b1;
  assign irq          = !busy_q;
  always_ff @(posedge aclk) begin
    if (m_axi_arready) m_axi_arvalid <= 1'b0;
    if (m_axi_awready) m_axi_awvalid <= 1'b0;
    if (awheld_q && wheld_q && awaddr_q == '0) begin
      {busy_q, m_axi_arvalid, read_q, write_q} <= {2'b11, 8'd0};
    end
    if (m_axi_rvalid) begin
      beats_q[read_q] <= m_axi_rdata;
      read_q          <= read_q + 1'b1;
      read_resp_q     <= m_axi_rresp;
      if (m_axi_rlast) {m_axi_awvalid, m_axi_wvalid} <= '1;
    end
    if (m_axi_wvalid && m_axi_wready) begin
      write_q      <= write_q + 1'b1;
      m_axi_wvalid <= !m_axi_wlast;
    end
    if (m_axi_bvalid) {busy_q, write_resp_q} <= {1'b0, m_axi_bresp};
    if (!aresetn) {busy_q, m_axi_arvalid, m_axi_awvalid, m_axi_wvalid} <= '0;
  end

  // ---- constant
  assign m_axi_arid    = '0;
  assign m_axi_awid    = '0;
  assign m_axi_arsize  = 3'd3;
  assign m_axi_awsize  = 3'd3;
  assign m_axi_arburst = 2'b01;
  assign m_axi_awburst = 2'b01;
  assign m_axi_arlock  = '0;
  assign m_axi_awlock  = '0;
  assign m_axi_arcache = 4'd3;
  assign m_axi_awcache = 4'd3;
  assign m_axi_arprot  = '0;
  assign m_axi_awprot  = '0;
  assign m_axi_arqos   = '0;
  assign m_axi_awqos   = '0;
  logic unused;
  assign unused = ^{s_axil_awprot, s_axil_arprot, s_axil_wstrb, m_axi_bid, m_axi_rid,
                    s_axil_araddr[1:0], awaddr_q[1:0], regs_q[0]};
endmodule
