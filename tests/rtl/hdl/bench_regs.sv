// SPDX-License-Identifier: Apache-2.0
// tw_regs with the AXI4-Lite port names that cocotbext.axi looks for.
module bench_regs #(
    parameter logic [31:0] ConfigHash = 32'd0
) (
    input  logic        clk_i,
    input  logic        rst_i,
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
    output logic        start_o,
    output logic        soft_reset_o,
    output logic [39:0] insn_base_o,
    output logic [31:0] insn_count_o,
    output logic [39:0] mem_base_o,
    output logic [38:0] mem_size_o,
    output logic [31:0] watchdog_o,
    output logic [10:0] attributes_o,
    output logic        snapshot_o,
    input  logic [ 3:0] status_i,
    input  logic [11:0] error_i,
    input  logic [31:0] error_insn_i,
    input  logic [15:0] wait_state_i,
    input  logic [ 1:0] event_i,
    output logic        irq_o,
    output logic [ 5:0] counter_index_o,
    input  logic [63:0] counter_i
);
  tw_pkg::settings_t settings;
  tw_pkg::status_t status;
  assign insn_base_o  = settings.insn_base;
  assign insn_count_o = settings.insn_count;
  assign mem_base_o   = settings.mem_base;
  assign mem_size_o   = settings.mem_size;
  assign watchdog_o   = settings.watchdog;
  assign attributes_o = settings.attributes;
  assign {status.resetting, status.failed, status.done, status.busy} = status_i;
  assign {status.error_unit, status.error} = error_i;
  assign status.error_index = error_insn_i;
  assign status.waits = wait_state_i;
  assign s_axil_bresp = '0;
  assign s_axil_rresp = '0;
  tw_regs #(
      .ConfigHash(ConfigHash)
  ) u_dut (
      .awaddr_i (s_axil_awaddr),
      .awvalid_i(s_axil_awvalid),
      .awready_o(s_axil_awready),
      .wdata_i  (s_axil_wdata),
      .wstrb_i  (s_axil_wstrb),
      .wvalid_i (s_axil_wvalid),
      .wready_o (s_axil_wready),
      .bvalid_o (s_axil_bvalid),
      .bready_i (s_axil_bready),
      .araddr_i (s_axil_araddr),
      .arvalid_i(s_axil_arvalid),
      .arready_o(s_axil_arready),
      .rdata_o  (s_axil_rdata),
      .rvalid_o (s_axil_rvalid),
      .rready_i (s_axil_rready),
      .settings_o(settings),
      .status_i (status),
      .*
  );
  logic unused;
  assign unused = ^{s_axil_awprot, s_axil_arprot};
endmodule
