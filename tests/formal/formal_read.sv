// SPDX-License-Identifier: Apache-2.0
// Properties of tw_read: AXI read requests held until taken, bursts in flight bounded, every
// accepted request issued once with its address and length, data to the requester that asked, in the
// cycle after the bus gave them.
module formal_read #(
    parameter int unsigned BeatBytes   = 4,  // bytes of a beat
    parameter int unsigned Outstanding = 3   // bursts in flight
) (
    input logic                   clk_i,
    input logic                   rst_i,
    input logic                   halt_i,
    input logic [           39:0] mem_base_i,
    input logic [            1:0] req_valid_i,
    input logic [      1:0][39:0] req_addr_i,
    input logic [      1:0][ 7:0] req_len_i,
    input logic                   load_inside_i,
    input tw_pkg::index_t         load_index_i,
    input logic                   arready_i,
    input logic [BeatBytes*8-1:0] rdata_i,
    input logic [            1:0] rresp_i,
    input logic                   rlast_i,
    input logic                   rvalid_i
);
  logic [1:0] req_ready, beat_valid, resp_err, last_err;
  logic [BeatBytes*8-1:0] beat_data;
  tw_pkg::index_t load_index;
  logic idle, burst, range_err, arvalid, started_q, ar_wait_q;
  logic [39:0] araddr, araddr_q, end_q, base_q;
  logic [7:0] arlen, arlen_q;

  tw_read #(
      .BeatBytes  (BeatBytes),
      .Outstanding(Outstanding)
  ) dut (
      .clk_i,
      .rst_i,
      .halt_i,
      .mem_base_i  (base_q),
      .req_valid_i,
      .req_ready_o (req_ready),
      .req_addr_i,
      .req_len_i,
      .load_inside_i,
      .load_index_i,
      .beat_valid_o(beat_valid),
      .beat_data_o (beat_data),
      .load_index_o(load_index),
      .idle_o      (idle),
      .burst_o     (burst),
      .range_err_o (range_err),
      .resp_err_o  (resp_err),
      .last_err_o  (last_err),
      .araddr_o    (araddr),
      .arlen_o     (arlen),
      .arvalid_o   (arvalid),
      .arready_i,
      .rdata_i,
      .rresp_i,
      .rlast_i,
      .rvalid_i
  );

  // Owners of the bursts in flight, oldest at place 0; the last of them may not be issued yet.
  logic [16:0] owner_q;
  tw_pkg::index_t index_q[17];  // instructions of the bursts
  logic [7:0] len_q[17];  // and their lengths
  logic [7:0] came_q;  // beats of the oldest
  logic over_q;        // more than its length
  logic [4:0] count_q, after_q;
  logic accept, retire, who;
  // What the bus gave in the cycle before.
  logic rvalid_q, rlast_q;
  logic [1:0] rresp_q;
  logic [BeatBytes*8-1:0] rdata_q;
  assign accept = |req_ready && !(who && !load_inside_i);  // the others are dropped
  assign who = req_ready[1];
  assign retire = rvalid_q && rlast_q;
  assign after_q = count_q - 5'(retire);

  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    if (!started_q) base_q <= {mem_base_i[39:12], 12'd0};
    ar_wait_q <= arvalid && !arready_i && !rst_i;
    araddr_q <= araddr;
    arlen_q <= arlen;
    rvalid_q <= rvalid_i && !rst_i;
    {rlast_q, rresp_q, rdata_q} <= {rlast_i, rresp_i, rdata_i};
    if (rst_i) begin
      count_q <= '0;
      came_q  <= '0;
      over_q  <= 1'b0;
    end else begin
      if (rvalid_q) begin
        came_q <= rlast_q ? '0 : came_q + 8'd1;
        over_q <= !rlast_q && (over_q || came_q == len_q[0]);
      end
      count_q <= after_q + 5'(accept);
      if (retire) begin
        owner_q <= owner_q >> 1;
        for (int i = 0; i < 16; i++) begin
          index_q[i] <= index_q[i+1];
          len_q[i] <= len_q[i+1];
        end
      end
      if (accept) begin
        owner_q[after_q] <= who;
        index_q[after_q] <= load_index_i;
        len_q[after_q]   <= req_len_i[who];
      end
    end
    if (accept) begin
      end_q <= base_q + req_addr_i[who];
    end
  end

  always_comb begin
    if (!started_q) assume (rst_i);
    else begin
      // The memory answers issued bursts only, none behind its last beat; requesters keep requests
      // inside a page.
      assume (!rvalid_i || after_q > 5'(arvalid));
      for (int r = 0; r < 2; r++) begin
        assume (req_addr_i[r][$clog2(BeatBytes)-1:0] == '0);
        assume (13'(req_addr_i[r][11:0]) + ((13'(req_len_i[r]) + 13'd1) << $clog2(BeatBytes)) <=
                13'd4096);
      end
      assert (count_q <= 5'(Outstanding));
      assert (idle == (count_q == '0));
      assert (!arvalid || count_q != '0);
      if (ar_wait_q) begin
        assert (arvalid);
        assert (araddr == araddr_q && arlen == arlen_q);
      end
      if (arvalid) begin
        assert (araddr == end_q);
        assert (13'(araddr[11:0]) + ((13'(arlen) + 13'd1) << $clog2(BeatBytes)) <= 13'd4096);
      end
      assert (burst == (arvalid && arready_i));
      assert (!(req_ready[0] && req_ready[1]));
      assert ((req_ready & ~req_valid_i) == '0);
      assert (!(req_ready[1] && req_valid_i[0]));
      assert (range_err == (req_valid_i == 2'b10 && !load_inside_i && !halt_i));
      if (|req_ready) assert (!halt_i && (!arvalid || arready_i));
      assert (beat_valid == (rvalid_q && !over_q ? (owner_q[0] ? 2'b10 : 2'b01) : 2'b00));
      assert (resp_err == (beat_valid & {2{rresp_q[1]}}));
      assert (last_err == (rlast_q != (came_q == len_q[0]) ? beat_valid : 2'b00));
      if (rvalid_q) assert (beat_data == rdata_q);
      if (beat_valid[1]) assert (load_index == index_q[0]);
      // What makes the above inductive.
      assert (base_q[11:0] == '0);
      assert (dut.in_flight_q == count_q && dut.u_owner.count_q == count_q);
      assert (dut.u_owner.tail_q - dut.u_owner.head_q == count_q[3:0]);
      for (int unsigned i = 0; i < Outstanding; i++)
        if (5'(i) < count_q)
          assert (dut.u_owner.mem[4'(dut.u_owner.head_q+4'(i))] == {len_q[i], index_q[i]} &&
                  dut.loads_q[i] == owner_q[i]);
      assert (dut.u_owner.valid_q == (count_q != '0) && !dut.u_owner.full_q);
      assert (dut.rvalid_q == rvalid_q);
      if (rvalid_q) assert (dut.rlast_q == rlast_q && dut.rfail_q == rresp_q[1]);
      if (rvalid_q) assert (count_q > 5'(arvalid));
      assert (dut.asked_q == ({2{rvalid_q && !over_q}} & {owner_q[0], !owner_q[0]}));
      assert (dut.beats_q == came_q && dut.over_q == over_q);
      assert (!over_q || count_q != '0);
      // The interesting states can be reached, and a reset in the middle of them.
      cover (count_q == 5'(Outstanding) && retire && req_valid_i == 2'b11);
      cover (resp_err[1] && load_index == 32'hFFFF_FFFF && count_q > 5'd1);
      cover (range_err && arvalid);
      cover (last_err[0] && rlast_q && came_q == 8'd2);
      cover (over_q && rvalid_q && rlast_q);
      cover (rst_i && arvalid && count_q > 5'd1 && rvalid_i);
    end
  end
endmodule
