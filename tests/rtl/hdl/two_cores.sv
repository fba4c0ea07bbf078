// SPDX-License-Identifier: Apache-2.0
// Two cores of different parameters in one design, each with a memory port of its own.
module two_cores (
    input  logic                       aclk,
    input  logic                       aresetn,
    input  logic [                1:0] start_i,
    input  tw_pkg::settings_t          settings_i,
    output tw_pkg::status_t      [1:0] status_o,
    input  logic [                1:0] arready_i,
    output logic [          1:0][39:0] araddr_o,
    input  logic [              127:0] rdata_i,
    input  logic [                1:0] rvalid_i,
    output logic [             63:0]   small_wdata_o,
    output logic [            127:0]   large_wdata_o
);
  logic rst;
  logic [1:0][1:0] events;
  logic [1:0][63:0] counter;
  logic [1:0][7:0] arlen, awlen;
  logic [1:0][39:0] awaddr;
  logic [1:0][10:0] attributes;
  logic [1:0] arvalid, awvalid, wlast, wvalid;
  logic [7:0] small_wstrb;
  logic [15:0] large_wstrb;
  assign rst = !aresetn;

  tw_core #(.Config('{
      batch: 1,
      block_in: 4,
      block_out: 4,
      inp_bytes: 4096,
      wgt_bytes: 4096,
      acc_bytes: 4096,
      out_bytes: 2048,
      uop_bytes: 4096,
      res_bytes: 2048,
      param_bytes: 2048,
      axi_data_bits: 64,
      axi_burst_beats: 16,
      read_outstanding: 4,
      write_outstanding: 2,
      vector_lanes: 4,
      mac_pipeline: 1,
      mac_packed: 0,
      acc_bank_count: 4,
      data_path: 1,
      address_bits: 40,
      default: '0
  })) u_small (
      .clk_i          (aclk),
      .rst_i          (rst),
      .start_i        (start_i[0]),
      .soft_reset_i   (1'b0),
      .settings_i,
      .status_o       (status_o[0]),
      .event_o        (events[0]),
      .snapshot_i     (1'b0),
      .counter_index_i('0),
      .counter_o      (counter[0]),
      .araddr_o       (araddr_o[0]),
      .arlen_o        (arlen[0]),
      .arvalid_o      (arvalid[0]),
      .arready_i      (arready_i[0]),
      .rdata_i        (rdata_i[63:0]),
      .rresp_i        (2'b00),
      .rlast_i        (1'b1),
      .rvalid_i       (rvalid_i[0]),
      .awaddr_o       (awaddr[0]),
      .awlen_o        (awlen[0]),
      .awvalid_o      (awvalid[0]),
      .awready_i      (1'b1),
      .wdata_o        (small_wdata_o),
      .wstrb_o        (small_wstrb),
      .wlast_o        (wlast[0]),
      .wvalid_o       (wvalid[0]),
      .wready_i       (1'b1),
      .bresp_i        (2'b00),
      .bvalid_i       (1'b0),
      .attributes_o   (attributes[0])
  );

  tw_core #(.Config('{
      batch: 1,
      block_in: 32,
      block_out: 32,
      inp_bytes: 65536,
      wgt_bytes: 524288,
      acc_bytes: 262144,
      out_bytes: 65536,
      uop_bytes: 32768,
      res_bytes: 65536,
      param_bytes: 32768,
      axi_data_bits: 128,
      axi_burst_beats: 16,
      read_outstanding: 8,
      write_outstanding: 4,
      vector_lanes: 32,
      mac_pipeline: 2,
      mac_packed: 1,
      acc_bank_count: 2,
      data_path: 1,
      address_bits: 40,
      default: '0
  })) u_large (
      .clk_i          (aclk),
      .rst_i          (rst),
      .start_i        (start_i[1]),
      .soft_reset_i   (1'b0),
      .settings_i,
      .status_o       (status_o[1]),
      .event_o        (events[1]),
      .snapshot_i     (1'b0),
      .counter_index_i('0),
      .counter_o      (counter[1]),
      .araddr_o       (araddr_o[1]),
      .arlen_o        (arlen[1]),
      .arvalid_o      (arvalid[1]),
      .arready_i      (arready_i[1]),
      .rdata_i        (rdata_i[127:0]),
      .rresp_i        (2'b00),
      .rlast_i        (1'b1),
      .rvalid_i       (rvalid_i[1]),
      .awaddr_o       (awaddr[1]),
      .awlen_o        (awlen[1]),
      .awvalid_o      (awvalid[1]),
      .awready_i      (1'b1),
      .wdata_o        (large_wdata_o),
      .wstrb_o        (large_wstrb),
      .wlast_o        (wlast[1]),
      .wvalid_o       (wvalid[1]),
      .wready_i       (1'b1),
      .bresp_i        (2'b00),
      .bvalid_i       (1'b0),
      .attributes_o   (attributes[1])
  );

  logic unused;
  assign unused = ^{events, counter, arlen, awlen, awaddr, attributes, arvalid, awvalid, wlast,
                    wvalid, small_wstrb, large_wstrb};
endmodule
