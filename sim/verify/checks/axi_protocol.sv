// SPDX-License-Identifier: Apache-2.0
// Asserts the AXI4 rules on the DRAM port, of the accelerator and of the memory behind it.
//
// Simulation only. Every rule is an immediate assertion at the rising edge; a rule that looks at
// waiting payload compares only while the channel waits, so that an idle port costs next to nothing.
// verilator coverage_off
module axi_protocol #(
    parameter int unsigned DataBits         = 64,  // width of the data bus
    parameter int unsigned BurstBeats       = 16,  // longest burst
    parameter int unsigned ReadOutstanding  = 8,   // read bursts in flight, 1 to 16
    parameter int unsigned WriteOutstanding = 4    // write bursts in flight, 1 to 16
) (
    input logic                  aclk,
    input logic                  aresetn,
    input logic [           0:0] awid,
    input logic [          39:0] awaddr,
    input logic [           7:0] awlen,
    input logic [           2:0] awsize,
    input logic [           1:0] awburst,
    input logic                  awvalid,
    input logic                  awready,
    input logic [  DataBits-1:0] wdata,
    input logic [DataBits/8-1:0] wstrb,
    input logic                  wlast,
    input logic                  wvalid,
    input logic                  wready,
    input logic [           0:0] bid,
    input logic [           1:0] bresp,
    input logic                  bvalid,
    input logic                  bready,
    input logic [           0:0] arid,
    input logic [          39:0] araddr,
    input logic [           7:0] arlen,
    input logic [           2:0] arsize,
    input logic [           1:0] arburst,
    input logic                  arvalid,
    input logic                  arready,
    input logic [           0:0] rid,
    input logic [  DataBits-1:0] rdata,
    input logic [           1:0] rresp,
    input logic                  rlast,
    input logic                  rvalid,
    input logic                  rready
);
  localparam int unsigned Size = $clog2(DataBits / 8);

  typedef struct packed {
    logic [0:0]  id;
    logic [39:0] addr;
    logic [7:0]  len;
    logic [2:0]  size;
    logic [1:0]  burst;
  } address_t;

  typedef struct packed {
    logic [DataBits-1:0]   data;
    logic [DataBits/8-1:0] strb;
    logic                  last;
  } write_t;

  typedef struct packed {
    logic [0:0]          id;
    logic [DataBits-1:0] data;
    logic [1:0]          resp;
    logic                last;
  } read_t;

  address_t ar, aw, ar_q, aw_q;
  write_t w, w_q;
  read_t r, r_q;
  logic [2:0] b_q;
  logic ar_wait_q, aw_wait_q, w_wait_q, r_wait_q, b_wait_q;
  logic known_q;     // a reset has been seen: the state below means something
  logic in_reset_q;  // the edge before this one was in reset
  // Lengths of the bursts whose data have not ended, oldest at the head.
  logic [7:0] ar_len_q[32], aw_len_q[32];
  logic [4:0] ar_head_q, ar_tail_q, aw_head_q, aw_tail_q;
  logic [7:0] r_beat_q, w_beat_q;
  // Write bursts without a response: of which the address, of which the data were taken.
  logic [5:0] b_address_q, b_data_q;
  logic ar_open, w_open, r_end, w_end;
  logic [4:0] ar_count;
  logic [7:0] w_len;

  assign ar = '{id: arid, addr: araddr, len: arlen, size: arsize, burst: arburst};
  assign aw = '{id: awid, addr: awaddr, len: awlen, size: awsize, burst: awburst};
  assign w = '{data: wdata, strb: wstrb, last: wlast};
  assign r = '{id: rid, data: rdata, resp: rresp, last: rlast};
  assign ar_count = ar_tail_q - ar_head_q;
  assign ar_open = ar_count != '0;
  // Data may arrive in the cycle in which their address is offered first.
  assign w_open = (aw_head_q != aw_tail_q) || (awvalid && !aw_wait_q);
  assign w_len = aw_head_q != aw_tail_q ? aw_len_q[aw_head_q] : awlen;
  assign r_end = rvalid && rready && rlast;
  assign w_end = wvalid && wready && wlast;

  function automatic logic crosses_page(logic [11:0] offset, logic [7:0] len);
    return ((21'(offset >> Size) + 21'(len) + 21'd1) << Size) > 21'd4096;
  endfunction

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
      assert (!arvalid) else $error("ARVALID is high in reset or at its end");
      assert (!awvalid) else $error("AWVALID is high in reset or at its end");
      assert (!wvalid) else $error("WVALID is high in reset or at its end");
    end
  end

  // ---------------------------------------------------------------------------------------
  // Read address and data
  always_ff @(posedge aclk) begin
    if (!aresetn || !known_q) begin
      ar_wait_q <= 1'b0;
      r_wait_q  <= 1'b0;
      ar_head_q <= '0;
      ar_tail_q <= '0;
      r_beat_q  <= '0;
    end else begin
      ar_wait_q <= arvalid && !arready;
      r_wait_q  <= rvalid && !rready;
      if (ar_wait_q) begin
        assert (arvalid) else $error("ARVALID fell before ARREADY");
        assert (ar == ar_q) else $error("the read address changed before ARREADY");
      end else if (arvalid) begin
        ar_q <= ar;
        assert (arburst == 2'b01) else $error("ARBURST is not INCR");
        assert (arsize == 3'(Size)) else $error("ARSIZE is not the width of the bus");
        assert (32'(arlen) < BurstBeats) else $error("ARLEN is longer than AxiBurstBeats");
        assert (!crosses_page(araddr[11:0], arlen)) else $error("a read burst crosses 4 KiB");
      end
      if (arvalid && arready) begin
        ar_len_q[ar_tail_q] <= arlen;
        ar_tail_q <= ar_tail_q + 1'b1;
        assert (32'(ar_count) < ReadOutstanding)
        else $error("more read bursts in flight than ReadOutstanding");
      end
      if (r_wait_q) begin
        assert (rvalid) else $error("RVALID fell before RREADY");
        assert (r == r_q) else $error("the read data changed before RREADY");
      end
      if (rvalid) begin
        if (!rready) r_q <= r;
        assert (ar_open) else $error("read data answer no request");
        assert (rid == '0) else $error("RID was never requested");
        assert (rlast == (r_beat_q == ar_len_q[ar_head_q]))
        else $error("RLAST is not on the last beat of the burst");
        if (rready) r_beat_q <= rlast ? '0 : r_beat_q + 1'b1;
        if (r_end) ar_head_q <= ar_head_q + 1'b1;
      end
    end
  end

  // ---------------------------------------------------------------------------------------
  // Write address, data and response
  always_ff @(posedge aclk) begin
    if (!aresetn || !known_q) begin
      aw_wait_q   <= 1'b0;
      w_wait_q    <= 1'b0;
      b_wait_q    <= 1'b0;
      aw_head_q   <= '0;
      aw_tail_q   <= '0;
      w_beat_q    <= '0;
      b_address_q <= '0;
      b_data_q    <= '0;
    end else begin
      aw_wait_q <= awvalid && !awready;
      w_wait_q  <= wvalid && !wready;
      b_wait_q  <= bvalid && !bready;
      if (aw_wait_q) begin
        assert (awvalid) else $error("AWVALID fell before AWREADY");
        assert (aw == aw_q) else $error("the write address changed before AWREADY");
      end else if (awvalid) begin
        aw_q <= aw;
        aw_len_q[aw_tail_q] <= awlen;
        aw_tail_q <= aw_tail_q + 1'b1;
        assert (awburst == 2'b01) else $error("AWBURST is not INCR");
        assert (awsize == 3'(Size)) else $error("AWSIZE is not the width of the bus");
        assert (32'(awlen) < BurstBeats) else $error("AWLEN is longer than AxiBurstBeats");
        assert (!crosses_page(awaddr[11:0], awlen)) else $error("a write burst crosses 4 KiB");
      end
      if (w_wait_q) begin
        assert (wvalid) else $error("WVALID fell before WREADY");
        assert (w == w_q) else $error("the write data changed before WREADY");
      end
      if (wvalid) begin
        if (!wready) w_q <= w;
        assert (w_open) else $error("write data before their address was offered");
        assert (wlast == (w_beat_q == w_len))
        else $error("WLAST is not on the last beat of the burst");
        if (wready) w_beat_q <= wlast ? '0 : w_beat_q + 1'b1;
        if (w_end) aw_head_q <= aw_head_q + 1'b1;
      end
      if (b_wait_q) begin
        assert (bvalid) else $error("BVALID fell before BREADY");
        assert ({bid, bresp} == b_q) else $error("the write response changed before BREADY");
      end
      if (bvalid) begin
        if (!bready) b_q <= {bid, bresp};
        assert (b_address_q != '0) else $error("a write response answers no address");
        assert (b_data_q != '0) else $error("a write response before the last beat");
        assert (bid == '0) else $error("BID was never requested");
      end
      b_address_q <= b_address_q + 6'(awvalid && awready) - 6'(bvalid && bready);
      b_data_q <= b_data_q + 6'(w_end) - 6'(bvalid && bready);
      if (awvalid && awready) begin
        assert (32'(b_address_q) < WriteOutstanding)
        else $error("more write bursts in flight than WriteOutstanding");
      end
    end
  end
endmodule
