// SPDX-License-Identifier: Apache-2.0
// Properties of tw_arbiter for two cores: addresses stand until they are taken and are those of the
// core whose ID they bear, each burst takes the data of its own core in the order of the addresses
// and waits for no address to be taken, responses go to the core whose ID they bear, and no more
// bursts are in flight than the host allows.
module formal_arbiter (
    input logic             clk_i,
    input logic             rst_i,
    input logic [1:0][ 3:0] weight_i,      // any, but constant; so are budgets and attributes
    input logic [1:0][15:0] read_budget_i,
    input logic [1:0][15:0] write_budget_i,
    input logic [1:0][10:0] attributes_i,
    input logic             refill_i,
    input logic [7:0]       read_limit_i,
    input logic [7:0]       write_limit_i,
    input logic [1:0][39:0] araddr_i,
    input logic [1:0][ 7:0] arlen_i,
    input logic [1:0]       arvalid_i,
    input logic [1:0][39:0] awaddr_i,
    input logic [1:0][ 7:0] awlen_i,
    input logic [1:0]       awvalid_i,
    input logic [1:0][ 7:0] wdata_i,
    input logic [1:0]       wstrb_i,
    input logic [1:0]       wlast_i,
    input logic [1:0]       wvalid_i,
    input logic             arready_i,
    input logic [3:0]       rid_i,
    input logic             rlast_i,
    input logic             rvalid_i,
    input logic             awready_i,
    input logic             wready_i,
    input logic [3:0]       bid_i,
    input logic             bvalid_i,
    input logic [5:0]       watched_i      // write burst that is followed, modulo 64: any, but constant
);
  localparam logic [1:0][2:0] Cores = {3'd5, 3'd2};

  logic started_q;
  logic [5:0] watched_q;
  logic [1:0][3:0] weight_q;
  logic [1:0][15:0] read_budget_q, write_budget_q;
  logic [1:0][10:0] attributes_q;

  logic [1:0] arready, rvalid, awready, wready, bvalid;
  logic [1:0] read_grant, read_waited, read_throttled, write_grant, write_waited, write_throttled;
  logic [3:0] arid, awid;
  logic [39:0] araddr, awaddr;
  logic [7:0] arlen, awlen, wdata;
  logic [10:0] arattributes, awattributes;
  logic arvalid, awvalid, wstrb, wlast, wvalid;

  tw_arbiter #(
      .Masters (2),
      .DataBits(8),
      .Cores   (Cores)
  ) dut (
      .clk_i,
      .rst_i,
      .weight_i           (weight_q),
      .read_budget_i      (read_budget_q),
      .write_budget_i     (write_budget_q),
      .refill_i,
      .read_limit_i,
      .write_limit_i,
      .read_grant_o       (read_grant),
      .read_waited_o      (read_waited),
      .read_throttled_o   (read_throttled),
      .write_grant_o      (write_grant),
      .write_waited_o     (write_waited),
      .write_throttled_o  (write_throttled),
      .attributes_i       (attributes_q),
      .araddr_i,
      .arlen_i,
      .arvalid_i,
      .arready_o          (arready),
      .rvalid_o           (rvalid),
      .awaddr_i,
      .awlen_i,
      .awvalid_i,
      .awready_o          (awready),
      .wdata_i,
      .wstrb_i,
      .wlast_i,
      .wvalid_i,
      .wready_o           (wready),
      .bvalid_o           (bvalid),
      .port_arid_o        (arid),
      .port_araddr_o      (araddr),
      .port_arlen_o       (arlen),
      .port_arattributes_o(arattributes),
      .port_arvalid_o     (arvalid),
      .port_arready_i     (arready_i),
      .port_rid_i         (rid_i),
      .port_rlast_i       (rlast_i),
      .port_rvalid_i      (rvalid_i),
      .port_awid_o        (awid),
      .port_awaddr_o      (awaddr),
      .port_awlen_o       (awlen),
      .port_awattributes_o(awattributes),
      .port_awvalid_o     (awvalid),
      .port_awready_i     (awready_i),
      .port_wdata_o       (wdata),
      .port_wstrb_o       (wstrb),
      .port_wlast_o       (wlast),
      .port_wvalid_o      (wvalid),
      .port_wready_i      (wready_i),
      .port_bid_i         (bid_i),
      .port_bvalid_i      (bvalid_i)
  );

  function automatic logic [7:0] limit_of(logic [7:0] limit);
    return limit == '0 ? 8'd1 : limit > 8'd32 ? 8'd32 : limit;
  endfunction

  // What cores hold because it was not taken.
  logic [1:0] ar_held_q, aw_held_q, w_held_q;
  logic [1:0][39:0] araddr_q, awaddr_q;
  logic [1:0][7:0] arlen_q, awlen_q, wdata_q;
  logic [1:0] wstrb_q, wlast_q;

  // What the port was offered and did not take.
  logic ar_stands_q, aw_stands_q;
  logic [3:0] arid_q, awid_q;

  // Bursts: read and without their last beat; written, offered first, with all data, and with data
  // but without a response.
  logic [5:0] reads_q, writes_q, offers_q, filled_q, unanswered_q;
  logic reader, writer, owner_q, in_order, data_ends;
  logic [5:0] pending, place;
  logic [4:0] slot;
  assign reader    = arid == {Cores[1], 1'b0};
  assign writer    = awid == {Cores[1], 1'b0};
  assign data_ends = wvalid && wready_i && wlast;
  assign pending   = offers_q - filled_q;
  assign place     = watched_q - filled_q;
  assign in_order  = place < pending;  // the watched burst was offered, and lacks data
  assign slot      = dut.u_order.head_q + 5'(place);

  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q      <= 1'b1;
    watched_q      <= started_q ? watched_q : watched_i;
    weight_q       <= started_q ? weight_q : weight_i;
    read_budget_q  <= started_q ? read_budget_q : read_budget_i;
    write_budget_q <= started_q ? write_budget_q : write_budget_i;
    attributes_q   <= started_q ? attributes_q : attributes_i;
    ar_held_q      <= rst_i ? '0 : arvalid_i & ~arready;
    aw_held_q      <= rst_i ? '0 : awvalid_i & ~awready;
    w_held_q       <= rst_i ? '0 : wvalid_i & ~wready;
    araddr_q       <= araddr_i;
    awaddr_q       <= awaddr_i;
    arlen_q        <= arlen_i;
    awlen_q        <= awlen_i;
    wdata_q        <= wdata_i;
    wstrb_q        <= wstrb_i;
    wlast_q        <= wlast_i;
    ar_stands_q    <= arvalid && !arready_i && !rst_i;
    aw_stands_q    <= awvalid && !awready_i && !rst_i;
    arid_q         <= arid;
    awid_q         <= awid;
    if (awvalid && !aw_stands_q && offers_q == watched_q) owner_q <= writer;
    if (rst_i) begin
      reads_q      <= '0;
      writes_q     <= '0;
      offers_q     <= '0;
      filled_q     <= '0;
      unanswered_q <= '0;
    end else begin
      reads_q      <= reads_q + 6'(arvalid && arready_i) - 6'(rvalid_i && rlast_i);
      writes_q     <= writes_q + 6'(awvalid && awready_i) - 6'(bvalid_i);
      offers_q     <= offers_q + 6'(awvalid && !aw_stands_q);
      filled_q     <= filled_q + 6'(data_ends);
      unanswered_q <= unanswered_q + 6'(data_ends) - 6'(bvalid_i);
    end
  end

  always_comb begin
    if (!started_q) assume (rst_i);
    else if (!rst_i) begin
      for (int unsigned m = 0; m < 2; m++) begin
        if (ar_held_q[m]) assume (arvalid_i[m] && araddr_i[m] == araddr_q[m] && arlen_i[m] == arlen_q[m]);
        if (aw_held_q[m]) assume (awvalid_i[m] && awaddr_i[m] == awaddr_q[m] && awlen_i[m] == awlen_q[m]);
        if (w_held_q[m]) begin
          assume (wvalid_i[m] && wdata_i[m] == wdata_q[m]);
          assume (wstrb_i[m] == wstrb_q[m] && wlast_i[m] == wlast_q[m]);
        end
      end
      // Memory answers what it was asked for: a write burst with its address and all its data.
      if (rvalid_i) assume (reads_q != '0);
      if (bvalid_i) assume (writes_q != '0 && unanswered_q != '0);

      // Addresses
      if (ar_stands_q) assert (arvalid && arid == arid_q);
      if (aw_stands_q) assert (awvalid && awid == awid_q);
      if (arvalid) begin
        assert (arid == {Cores[reader], 1'b0} && arvalid_i[reader]);
        assert (araddr == araddr_i[reader] && arlen == arlen_i[reader]);
        assert (arattributes == attributes_q[reader]);
        if (!ar_stands_q) assert (8'(reads_q) < limit_of(read_limit_i));
      end
      if (awvalid) begin
        assert (awid == {Cores[writer], 1'b0} && awvalid_i[writer]);
        assert (awaddr == awaddr_i[writer] && awlen == awlen_i[writer]);
        assert (awattributes == attributes_q[writer]);
        if (!aw_stands_q) assert (8'(writes_q) < limit_of(write_limit_i));
      end
      for (int unsigned m = 0; m < 2; m++) begin
        assert (arready[m] == (arvalid && arready_i && reader == m[0]));
        assert (awready[m] == (awvalid && awready_i && writer == m[0]));
        assert (rvalid[m] == (rvalid_i && rid_i == {Cores[m], 1'b0}));
        assert (bvalid[m] == (bvalid_i && bid_i == {Cores[m], 1'b0}));
      end

      // Data: the watched burst is the next that lacks some.
      if (place == '0) begin
        assert (wvalid == (in_order && wvalid_i[owner_q]));
        if (wvalid) begin
          assert (wdata == wdata_i[owner_q]);
          assert (wstrb == wstrb_i[owner_q] && wlast == wlast_i[owner_q]);
        end
        for (int unsigned m = 0; m < 2; m++) begin
          assert (wready[m] == (in_order && wready_i && owner_q == m[0]));
        end
        cover (wvalid && wready_i && aw_stands_q && pending == 6'd1);  // before its address is taken
        cover (wvalid && owner_q && pending == 6'd3);
      end
      assert (!(dut.u_order.push_i && dut.u_order.full_o));
      cover (bvalid[1] && unanswered_q == 6'd2);

      // What the induction needs to know of the unit and of what is counted here.
      assert (dut.u_reads.offered_q == ar_stands_q && dut.u_writes.offered_q == aw_stands_q);
      assert (dut.stands_q == aw_stands_q && dut.reads_q == reads_q && dut.writes_q == writes_q);
      if (ar_stands_q) assert (arid_q == {Cores[dut.u_reads.owner_q], 1'b0} && ar_held_q[dut.u_reads.owner_q]);
      if (aw_stands_q) assert (awid_q == {Cores[dut.u_writes.owner_q], 1'b0} && aw_held_q[dut.u_writes.owner_q]);
      assert (reads_q <= 6'd32 && writes_q <= 6'd32);
      if (ar_stands_q) assert (reads_q < 6'd32);
      if (aw_stands_q) assert (writes_q < 6'd32);
      assert (7'(pending) + 7'(unanswered_q) == 7'(writes_q) + 7'(aw_stands_q));
      assert (dut.u_order.count_q == pending);
      assert (dut.u_order.valid_q == (pending != '0) && dut.u_order.full_q == (pending == 6'd32));
      assert (dut.u_order.tail_q == 5'(dut.u_order.head_q + 5'(pending)));
      if (in_order) assert (dut.u_order.mem[slot] == owner_q);
    end
  end
endmodule
