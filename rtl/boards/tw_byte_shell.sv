// SPDX-License-Identifier: Apache-2.0
// A board without a processor: the accelerator of one configuration, its memory in block RAM, and a
// host that reads and writes both through a stream of bytes.
//
// Addresses of the host, in bytes: 0x00000000 the memory, 0x40000000 the accelerator's registers,
// 0x80000000 what the shell is: magic number, bytes of the memory, clock in Hz.
// `tilewright` is the wrapper of tilewright_top that is generated for a configuration
// (sim/synth/core_wrapper.py).
module tw_byte_shell #(
    parameter int unsigned AxiDataBits = 64,         // of the configuration
    parameter int unsigned MemoryBytes = 131072,     // a power of two, 4 KiB to 1 GiB
    parameter int unsigned ClockHz     = 25_000_000  // of aclk, for the host to read
) (
    input  logic       aclk,
    input  logic       aresetn,
    // bytes of the host
    input  logic       rx_valid,
    input  logic [7:0] rx_data,
    output logic       rx_ready,
    output logic       tx_valid,
    output logic [7:0] tx_data,
    input  logic       tx_ready,
    output logic       irq
);
  localparam logic [31:0] Magic = "TWS2";
  localparam int unsigned AddressBits = $clog2(MemoryBytes);

  logic rst;
  assign rst = !aresetn;

  // ---- words of the host
  logic valid, write, done, error;
  logic [31:0] addr, wdata, rdata;

  tw_host_link u_link (
      .clk_i     (aclk),
      .rst_i     (rst),
      .rx_valid_i(rx_valid),
      .rx_data_i (rx_data),
      .rx_ready_o(rx_ready),
      .tx_valid_o(tx_valid),
      .tx_data_o (tx_data),
      .tx_ready_i(tx_ready),
      .valid_o   (valid),
      .write_o   (write),
      .addr_o    (addr),
      .wdata_o   (wdata),
      .done_i    (done),
      .error_i   (error),
      .rdata_i   (rdata)
  );

  // ---- whom an access is for
  typedef enum logic [1:0] {
    Memory,
    Registers,
    Shell,
    Nobody
  } target_e;
  target_e target;
  logic memory_done, registers_done, registers_error;
  logic [31:0] memory_rdata, registers_rdata, shell_rdata;

  always_comb begin
    target = Nobody;
    unique case (addr[31:30])
      2'd0: if (addr[29:0] >> AddressBits == '0) target = Memory;
      2'd1: if (addr[29:12] == '0) target = Registers;
      2'd2: if (addr[29:4] == '0 && !write) target = Shell;
      default: ;
    endcase
    if (addr[1:0] != 2'd0) target = Nobody;
    unique case (addr[3:2])
      2'd0: shell_rdata = Magic;
      2'd1: shell_rdata = MemoryBytes;
      2'd2: shell_rdata = ClockHz;
      default: shell_rdata = '0;
    endcase
    {done, error, rdata} = {valid, target == Nobody, shell_rdata};
    if (target == Memory) {done, error, rdata} = {memory_done, 1'b0, memory_rdata};
    if (target == Registers) {done, error, rdata} = {registers_done, registers_error, registers_rdata};
  end

  // ---- the accelerator
  logic [11:0] axil_awaddr, axil_araddr;
  logic [31:0] axil_wdata, axil_rdata;
  logic axil_awvalid, axil_awready, axil_wvalid, axil_wready, axil_bvalid, axil_bready;
  logic axil_arvalid, axil_arready, axil_rvalid, axil_rready;
  logic [1:0] axil_bresp, axil_rresp, axi_bresp, axi_rresp;
  logic [39:0] axi_awaddr, axi_araddr;
  logic [7:0] axi_arlen;
  logic [AxiDataBits-1:0] axi_wdata, axi_rdata;
  logic [AxiDataBits/8-1:0] axi_wstrb;
  logic axi_awvalid, axi_awready, axi_wvalid, axi_wready, axi_wlast, axi_bvalid, axi_bready;
  logic axi_arvalid, axi_arready, axi_rvalid, axi_rready, axi_rlast;

  tw_axil_access u_registers (
      .clk_i    (aclk),
      .rst_i    (rst),
      .valid_i  (valid && target == Registers),
      .write_i  (write),
      .addr_i   (addr[11:0]),
      .wdata_i  (wdata),
      .done_o   (registers_done),
      .error_o  (registers_error),
      .rdata_o  (registers_rdata),
      .awaddr_o (axil_awaddr),
      .awvalid_o(axil_awvalid),
      .awready_i(axil_awready),
      .wdata_o  (axil_wdata),
      .wvalid_o (axil_wvalid),
      .wready_i (axil_wready),
      .bresp_i  (axil_bresp),
      .bvalid_i (axil_bvalid),
      .bready_o (axil_bready),
      .araddr_o (axil_araddr),
      .arvalid_o(axil_arvalid),
      .arready_i(axil_arready),
      .rdata_i  (axil_rdata),
      .rresp_i  (axil_rresp),
      .rvalid_i (axil_rvalid),
      .rready_o (axil_rready)
  );
  tw_block_memory #(
      .MemoryBytes(MemoryBytes),
      .DataBits   (AxiDataBits)
  ) u_memory (
      .clk_i       (aclk),
      .rst_i       (rst),
      .host_valid_i(valid && target == Memory),
      .host_write_i(write),
      .host_addr_i (addr[AddressBits-1:0]),
      .host_wdata_i(wdata),
      .host_done_o (memory_done),
      .host_rdata_o(memory_rdata),
      .awaddr_i    (axi_awaddr),
      .awvalid_i   (axi_awvalid),
      .awready_o   (axi_awready),
      .wdata_i     (axi_wdata),
      .wstrb_i     (axi_wstrb),
      .wlast_i     (axi_wlast),
      .wvalid_i    (axi_wvalid),
      .wready_o    (axi_wready),
      .bresp_o     (axi_bresp),
      .bvalid_o    (axi_bvalid),
      .bready_i    (axi_bready),
      .araddr_i    (axi_araddr),
      .arlen_i     (axi_arlen),
      .arvalid_i   (axi_arvalid),
      .arready_o   (axi_arready),
      .rdata_o     (axi_rdata),
      .rresp_o     (axi_rresp),
      .rlast_o     (axi_rlast),
      .rvalid_o    (axi_rvalid),
      .rready_i    (axi_rready)
  );
  // Attributes that are constant, and lengths of writes, whose last beat is marked, stay open.
  /* verilator lint_off PINCONNECTEMPTY */
  tilewright u_accelerator (
      .aclk          (aclk),
      .aresetn       (aresetn),
      .irq           (irq),
      .s_axil_awaddr (axil_awaddr),
      .s_axil_awprot (3'd0),
      .s_axil_awvalid(axil_awvalid),
      .s_axil_awready(axil_awready),
      .s_axil_wdata  (axil_wdata),
      .s_axil_wstrb  (4'hF),
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
      .m_axi_awaddr  (axi_awaddr),
      .m_axi_awlen   (),
      .m_axi_awsize  (),
      .m_axi_awburst (),
      .m_axi_awlock  (),
      .m_axi_awcache (),
      .m_axi_awprot  (),
      .m_axi_awqos   (),
      .m_axi_awvalid (axi_awvalid),
      .m_axi_awready (axi_awready),
      .m_axi_wdata   (axi_wdata),
      .m_axi_wstrb   (axi_wstrb),
      .m_axi_wlast   (axi_wlast),
      .m_axi_wvalid  (axi_wvalid),
      .m_axi_wready  (axi_wready),
      .m_axi_bid     (1'b0),
      .m_axi_bresp   (axi_bresp),
      .m_axi_bvalid  (axi_bvalid),
      .m_axi_bready  (axi_bready),
      .m_axi_arid    (),
      .m_axi_araddr  (axi_araddr),
      .m_axi_arlen   (axi_arlen),
      .m_axi_arsize  (),
      .m_axi_arburst (),
      .m_axi_arlock  (),
      .m_axi_arcache (),
      .m_axi_arprot  (),
      .m_axi_arqos   (),
      .m_axi_arvalid (axi_arvalid),
      .m_axi_arready (axi_arready),
      .m_axi_rid     (1'b0),
      .m_axi_rdata   (axi_rdata),
      .m_axi_rresp   (axi_rresp),
      .m_axi_rlast   (axi_rlast),
      .m_axi_rvalid  (axi_rvalid),
      .m_axi_rready  (axi_rready)
  );
  /* verilator lint_on PINCONNECTEMPTY */
endmodule
