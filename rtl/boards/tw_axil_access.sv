// SPDX-License-Identifier: Apache-2.0
// One AXI4-Lite access at a time, for a side that holds its request until done.
module tw_axil_access (
    input  logic        clk_i,
    input  logic        rst_i,
    // request
    input  logic        valid_i,  // held, with the rest, until done_o
    input  logic        write_i,
    input  logic [11:0] addr_i,
    input  logic [31:0] wdata_i,
    output logic        done_o,   // one cycle
    output logic        error_o,  // with done_o
    output logic [31:0] rdata_o,  // with done_o
    // AXI4-Lite
    output logic [11:0] awaddr_o,
    output logic        awvalid_o,
    input  logic        awready_i,
    output logic [31:0] wdata_o,
    output logic        wvalid_o,
    input  logic        wready_i,
    input  logic [ 1:0] bresp_i,
    input  logic        bvalid_i,
    output logic        bready_o,
    output logic [11:0] araddr_o,
    output logic        arvalid_o,
    input  logic        arready_i,
    input  logic [31:0] rdata_i,
    input  logic [ 1:0] rresp_i,
    input  logic        rvalid_i,
    output logic        rready_o
);
  logic busy_q;  // the channels below were asked

  assign awaddr_o = addr_i;
  assign araddr_o = addr_i;
  assign wdata_o  = wdata_i;
  assign bready_o = busy_q && write_i;
  assign rready_o = busy_q && !write_i;
  assign done_o   = busy_q && (write_i ? bvalid_i : rvalid_i);
  assign error_o  = (write_i ? bresp_i : rresp_i) != 2'b00;
  assign rdata_o  = rdata_i;

  always_ff @(posedge clk_i) begin
    if (awready_i) awvalid_o <= 1'b0;
    if (wready_i) wvalid_o <= 1'b0;
    if (arready_i) arvalid_o <= 1'b0;
    if (!busy_q) begin
      busy_q    <= valid_i;
      awvalid_o <= valid_i && write_i;
      wvalid_o  <= valid_i && write_i;
      arvalid_o <= valid_i && !write_i;
    end else if (done_o) begin
      busy_q <= 1'b0;
    end
    if (rst_i) begin
      busy_q <= 1'b0;
      {awvalid_o, wvalid_o, arvalid_o} <= '0;
    end
  end
endmodule
