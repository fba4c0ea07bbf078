// SPDX-License-Identifier: Apache-2.0
// Attaches the assertions of a system: the AXI4 rules on each core's side of an arbiter, where a
// core is alone; what an arbiter grants; the bounds of what a core runs. The memory model checks
// the memory ports.
bind tw_core_slot axi_protocol #(
    .DataBits        (AxiDataBits),
    .BurstBeats      (Config.axi_burst_beats),
    .ReadOutstanding (Config.read_outstanding),
    .WriteOutstanding(Config.write_outstanding)
) u_axi_protocol (
    .aclk   (clk_i),
    .aresetn(!rst_i),
    .awid   (1'b0),
    .awaddr (awaddr_o),
    .awlen  (awlen_o),
    .awsize (3'($clog2(AxiDataBits / 8))),
    .awburst(2'b01),
    .awvalid(awvalid_o),
    .awready(awready_i),
    .wdata  (wdata_o),
    .wstrb  (wstrb_o),
    .wlast  (wlast_o),
    .wvalid (wvalid_o),
    .wready (wready_i),
    .bid    (1'b0),
    .bresp  (bresp_i),
    .bvalid (bvalid_i),
    .bready (1'b1),
    .arid   (1'b0),
    .araddr (araddr_o),
    .arlen  (arlen_o),
    .arsize (3'($clog2(AxiDataBits / 8))),
    .arburst(2'b01),
    .arvalid(arvalid_o),
    .arready(arready_i),
    .rid    (1'b0),
    .rdata  (rdata_i),
    .rresp  (rresp_i),
    .rlast  (rlast_i),
    .rvalid (rvalid_i),
    .rready (1'b1)
);

bind tw_core_slot slot_checks #(
    .DataBits(AxiDataBits)
) u_slot_checks (
    .clk_i,
    .rst_i,
    .starts  (start && !status.busy && !status.resetting),
    .mem_base(settings.mem_base),
    .mem_size(settings.mem_size),
    .active,
    .scrub,
    .araddr_o,
    .arlen_o,
    .arvalid_o,
    .awaddr_o,
    .awlen_o,
    .awvalid_o
);

bind tw_core_slot unit_checks u_registers_take_every_write (
    .clk_i,
    .rst_i,
    .two_i   (1'b0),
    .orphan_i(u_regs.awvalid_i && !(&unused_ready[1:0]))
);

bind tw_grant grant_checks #(
    .Masters  (Masters),
    .OwnerBits(OwnerBits)
) u_grant_checks (
    .clk_i,
    .rst_i,
    .request_i,
    .open,
    .budget_i,
    .grant_o,
    .waited_o,
    .throttled_o,
    .valid_o,
    .owner_o,
    .ready_i
);
