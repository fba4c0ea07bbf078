// SPDX-License-Identifier: Apache-2.0
// Asserts the AXI4-Lite rules on the control port, of the accelerator and of its host.
// verilator coverage_off
module axil_protocol (
    input logic        aclk,
    input logic        aresetn,
    input logic [11:0] awaddr,
    input logic        awvalid,
    input logic        awready,
    input logic [31:0] wdata,
    input logic [ 3:0] wstrb,
    input logic        wvalid,
    input logic        wready,
    input logic [ 1:0] bresp,
    input logic        bvalid,
    input logic        bready,
    input logic [11:0] araddr,
    input logic        arvalid,
    input logic        arready,
    input logic [31:0] rdata,
    input logic [ 1:0] rresp,
    input logic        rvalid,
    input logic        rready
);
  logic aw_wait_q, w_wait_q, ar_wait_q, b_wait_q, r_wait_q;
  logic [11:0] aw_q, ar_q;
  logic [35:0] w_q;
  logic [33:0] r_q;
  logic [1:0] b_q;
  logic known_q;     // a reset has been seen
  logic in_reset_q;  // the edge before this one was in reset
  // Taken and not answered. The port answers each access before it takes the next but one.
  logic [1:0] address_q, data_q, read_q;

  initial begin
    known_q = 1'b0;
    in_reset_q = 1'b0;
  end

  // Not always_ff: these two start with a value.
  always @(posedge aclk) begin
    in_reset_q <= !aresetn;
    if (!aresetn) known_q <= 1'b1;
  end

  always_ff @(posedge aclk) begin
    if (in_reset_q) begin
      assert (!bvalid) else $error("control port: BVALID is high in reset or at its end");
      assert (!rvalid) else $error("control port: RVALID is high in reset or at its end");
    end
    if (!aresetn || !known_q) begin
      aw_wait_q <= 1'b0;
      w_wait_q  <= 1'b0;
      b_wait_q  <= 1'b0;
      ar_wait_q <= 1'b0;
      r_wait_q  <= 1'b0;
      address_q <= '0;
      data_q    <= '0;
      read_q    <= '0;
    end else begin
      aw_wait_q <= awvalid && !awready;
      w_wait_q  <= wvalid && !wready;
      b_wait_q  <= bvalid && !bready;
      ar_wait_q <= arvalid && !arready;
      r_wait_q  <= rvalid && !rready;
      if (awvalid || wvalid || bvalid || aw_wait_q || w_wait_q || b_wait_q) begin
        aw_q <= awaddr;
        w_q <= {wstrb, wdata};
        b_q <= bresp;
        if (aw_wait_q) begin
          assert (awvalid) else $error("control port: AWVALID fell before AWREADY");
          assert (awaddr == aw_q) else $error("control port: AWADDR changed before AWREADY");
        end
        if (w_wait_q) begin
          assert (wvalid) else $error("control port: WVALID fell before WREADY");
          assert ({wstrb, wdata} == w_q)
          else $error("control port: the write data changed before WREADY");
        end
        if (b_wait_q) begin
          assert (bvalid) else $error("control port: BVALID fell before BREADY");
          assert (bresp == b_q) else $error("control port: BRESP changed before BREADY");
        end
        if (bvalid) begin
          assert (address_q != '0 && data_q != '0)
          else $error("control port: a write response answers no write");
          assert (bresp != 2'b01) else $error("control port: EXOKAY on AXI4-Lite");
        end
        address_q <= address_q + 2'(awvalid && awready) - 2'(bvalid && bready);
        data_q <= data_q + 2'(wvalid && wready) - 2'(bvalid && bready);
      end
      if (arvalid || rvalid || ar_wait_q || r_wait_q) begin
        ar_q <= araddr;
        r_q <= {rresp, rdata};
        if (ar_wait_q) begin
          assert (arvalid) else $error("control port: ARVALID fell before ARREADY");
          assert (araddr == ar_q) else $error("control port: ARADDR changed before ARREADY");
        end
        if (r_wait_q) begin
          assert (rvalid) else $error("control port: RVALID fell before RREADY");
          assert ({rresp, rdata} == r_q)
          else $error("control port: the read data changed before RREADY");
        end
        if (rvalid) begin
          assert (read_q != '0) else $error("control port: read data answer no read");
          assert (rresp != 2'b01) else $error("control port: EXOKAY on AXI4-Lite");
        end
        read_q <= read_q + 2'(arvalid && arready) - 2'(rvalid && rready);
      end
    end
  end
endmodule
