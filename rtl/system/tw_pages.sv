// SPDX-License-Identifier: Apache-2.0
// The AXI4-Lite port of a system: pages of 4 KiB, each of which answers an access in the next cycle.
//
// One write and one read are under way at a time. No input reaches an output within a cycle. A page
// that is not there answers DECERR.
module tw_pages #(
    parameter int unsigned Pages = 2  // 2 to 16
) (
    input  logic                   clk_i,
    input  logic                   rst_i,
    // AXI4-Lite
    input  logic [           15:0] awaddr_i,
    input  logic                   awvalid_i,
    output logic                   awready_o,
    input  logic [           31:0] wdata_i,
    input  logic [            3:0] wstrb_i,
    input  logic                   wvalid_i,
    output logic                   wready_o,
    output logic [            1:0] bresp_o,
    output logic                   bvalid_o,
    input  logic                   bready_i,
    input  logic [           15:0] araddr_i,
    input  logic                   arvalid_i,
    output logic                   arready_o,
    output logic [           31:0] rdata_o,
    output logic [            1:0] rresp_o,
    output logic                   rvalid_o,
    input  logic                   rready_i,
    // pages; addresses are those of words
    output logic [Pages-1:0]       write_o,       // one cycle
    output logic [           11:0] write_addr_o,
    output logic [           31:0] write_data_o,
    output logic [            3:0] write_strb_o,
    output logic [Pages-1:0]       read_o,        // one cycle
    output logic [           11:0] read_addr_o,
    input  logic [Pages-1:0][31:0] read_data_i    // in the cycle after that
);
  localparam logic [1:0] DecErr = 2'b11;

  logic awheld_q, wheld_q, bvalid_q, arheld_q, answer_q, rvalid_q;
  logic [15:2] awaddr_q, araddr_q;
  logic [31:0] wdata_q, rdata_q;
  logic [3:0] wstrb_q;
  logic [1:0] bresp_q, rresp_q;
  logic write, read;

  assign awready_o = !awheld_q && !bvalid_q;
  assign wready_o  = !wheld_q && !bvalid_q;
  assign bvalid_o  = bvalid_q;
  assign bresp_o   = bresp_q;
  assign arready_o = !arheld_q && !answer_q && !rvalid_q;
  assign rvalid_o  = rvalid_q;
  assign rdata_o   = rdata_q;
  assign rresp_o   = rresp_q;

  assign write        = awheld_q && wheld_q;
  assign write_addr_o = {awaddr_q[11:2], 2'b00};
  assign write_data_o = wdata_q;
  assign write_strb_o = wstrb_q;
  assign read         = arheld_q;
  assign read_addr_o  = {araddr_q[11:2], 2'b00};
  always_comb begin
    for (int unsigned page = 0; page < Pages; page++) begin
      write_o[page] = write && awaddr_q[15:12] == 4'(page);
      read_o[page]  = read && araddr_q[15:12] == 4'(page);
    end
  end

  always_ff @(posedge clk_i) begin
    if (awready_o) awaddr_q <= awaddr_i[15:2];
    if (wready_o) {wstrb_q, wdata_q} <= {wstrb_i, wdata_i};
    if (arready_o) araddr_q <= araddr_i[15:2];
    if (write) bresp_q <= write_o == '0 ? DecErr : '0;
    if (answer_q) begin
      {rresp_q, rdata_q} <= {DecErr, 32'd0};
      for (int unsigned page = 0; page < Pages; page++) begin
        if (araddr_q[15:12] == 4'(page)) {rresp_q, rdata_q} <= {2'b00, read_data_i[page]};
      end
    end
    if (rst_i) begin
      awheld_q <= 1'b0;
      wheld_q  <= 1'b0;
      bvalid_q <= 1'b0;
      arheld_q <= 1'b0;
      answer_q <= 1'b0;
      rvalid_q <= 1'b0;
    end else begin
      awheld_q <= (awheld_q || (awvalid_i && awready_o)) && !write;
      wheld_q  <= (wheld_q || (wvalid_i && wready_o)) && !write;
      bvalid_q <= bvalid_q ? !bready_i : write;
      arheld_q <= arvalid_i && arready_o;
      answer_q <= arheld_q;
      rvalid_q <= rvalid_q ? !rready_i : answer_q;
    end
  end

  logic unused;
  assign unused = ^{awaddr_i[1:0], araddr_i[1:0]};
endmodule
