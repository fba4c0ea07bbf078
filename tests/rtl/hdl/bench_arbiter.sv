// SPDX-License-Identifier: Apache-2.0
// The write side of tw_arbiter with two cores and flat ports: a core's part of each is [core].
module bench_arbiter (
    input  logic        clk_i,
    input  logic        rst_i,
    // cores
    input  logic [79:0] awaddr_i,
    input  logic [15:0] awlen_i,
    input  logic [ 1:0] awvalid_i,
    output logic [ 1:0] awready_o,
    input  logic [63:0] wdata_i,
    input  logic [ 1:0] wlast_i,
    input  logic [ 1:0] wvalid_i,
    output logic [ 1:0] wready_o,
    output logic [ 1:0] bvalid_o,
    output logic [ 1:0] write_waited_o,
    // memory
    output logic [ 3:0] port_awid_o,
    output logic [39:0] port_awaddr_o,
    output logic [ 7:0] port_awlen_o,
    output logic        port_awvalid_o,
    input  logic        port_awready_i,
    output logic [31:0] port_wdata_o,
    output logic        port_wlast_o,
    output logic        port_wvalid_o,
    input  logic        port_wready_i,
    input  logic [ 3:0] port_bid_i,
    input  logic        port_bvalid_i
);
  logic [1:0] unused_grant[2], unused_waited, unused_throttled[2], unused_arready, unused_rvalid;
  logic [3:0] unused_arid, unused_wstrb;
  logic [39:0] unused_araddr;
  logic [7:0] unused_arlen;
  logic [10:0] unused_attributes[2];
  logic unused_arvalid;

  tw_arbiter #(
      .Masters (2),
      .DataBits(32),
      .Cores   ({3'd1, 3'd0})
  ) u_dut (
      .clk_i,
      .rst_i,
      .weight_i           ({4'd1, 4'd2}),
      .read_budget_i      ('0),
      .write_budget_i     ('0),
      .refill_i           (1'b0),
      .read_limit_i       (8'd4),
      .write_limit_i      (8'd4),
      .read_grant_o       (unused_grant[0]),
      .read_waited_o      (unused_waited),
      .read_throttled_o   (unused_throttled[0]),
      .write_grant_o      (unused_grant[1]),
      .write_waited_o,
      .write_throttled_o  (unused_throttled[1]),
      .attributes_i       ('0),
      .araddr_i           ('0),
      .arlen_i            ('0),
      .arvalid_i          ('0),
      .arready_o          (unused_arready),
      .rvalid_o           (unused_rvalid),
      .awaddr_i,
      .awlen_i,
      .awvalid_i,
      .awready_o,
      .wdata_i,
      .wstrb_i            ('1),
      .wlast_i,
      .wvalid_i,
      .wready_o,
      .bvalid_o,
      .port_arid_o        (unused_arid),
      .port_araddr_o      (unused_araddr),
      .port_arlen_o       (unused_arlen),
      .port_arattributes_o(unused_attributes[0]),
      .port_arvalid_o     (unused_arvalid),
      .port_arready_i     (1'b0),
      .port_rid_i         ('0),
      .port_rlast_i       (1'b0),
      .port_rvalid_i      (1'b0),
      .port_awid_o,
      .port_awaddr_o,
      .port_awlen_o,
      .port_awattributes_o(unused_attributes[1]),
      .port_awvalid_o,
      .port_awready_i,
      .port_wdata_o,
      .port_wstrb_o       (unused_wstrb),
      .port_wlast_o,
      .port_wvalid_o,
      .port_wready_i,
      .port_bid_i,
      .port_bvalid_i
  );
endmodule
