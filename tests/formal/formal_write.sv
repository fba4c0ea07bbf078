// SPDX-License-Identifier: Apache-2.0
// AXI4 on the write side of STORE, for whole bursts and by induction: the walkers that cut a region
// into bursts and find its tiles are any that keep what their own proofs (bursts, rows) say of them.
// Addresses and data stand until they are taken, a burst lies within 4 KiB and its WLAST marks the
// last of its beats and no other, data come in the order of the addresses and never before one is
// offered, no more bursts are without a response than the unit may have, and the bus is idle when
// nothing of a burst is left. All that holds while a halt comes in any cycle.
module formal_write #(
    parameter int unsigned BurstBeats  = 16,  // longest burst
    parameter int unsigned Outstanding = 4    // write bursts in flight
) (
    input logic                        clk_i,
    input logic                        rst_i,
    input logic                        halt_i,
    input logic [                39:0] mem_base_i,  // any, but constant
    input logic [                39:0] mem_size_i,  // any, but constant
    input logic                        insn_valid_i,
    input logic [tw_pkg::InsnBits-1:0] insn_i,
    input logic [                31:0] out_data_i,
    input logic                        awready_i,
    input logic                        wready_i,
    input logic [                 1:0] bresp_i,
    input logic                        bvalid_i
);
  localparam int unsigned Beats = 4;  // that the unit has read, and not sent
  localparam tw_pkg::sizes_t Sizes = '{
      write_outstanding: Outstanding, out_shift: 2, out_depth: 16, default: '0
  };
  logic started_q, pop, awvalid, wvalid, wlast, idle, bus_idle, burst, beat, retire;
  logic [39:0] awaddr, awaddr_q, base_q, size_q;
  logic [7:0] awlen, awlen_q;
  logic [31:0] wdata, wdata_q;
  logic [3:0] wstrb, wstrb_q;
  logic wlast_q, aw_wait_q, w_wait_q;
  tw_pkg::error_t error;
  tw_pkg::index_t retire_index;

  tw_pkg::needs_t [3:0] needs;
  tw_predecode #(
      .BeatBytes(4),
      .Sizes    (Sizes)
  ) u_predecode (
      .insn_i,
      .needs_o(needs)
  );

  tw_pkg::unit_t unit;
  assign {pop, retire, idle} = {unit.take, unit.retire, unit.idle};
  assign {error, retire_index} = {unit.error, unit.retire_index};

  tw_store #(
      .Config('{axi_data_bits: 32, axi_burst_beats: BurstBeats, default: '0}),
      .Sizes (Sizes)
  ) dut (
      .clk_i,
      .rst_i,
      .halt_i,
      .mem_base_i    (base_q),
      .mem_size_i    (size_q),
      .queue_i      ('{
          entry: '{insn: insn_i, index: '0}, needs: needs[tw_pkg::UnitStore],
          valid: insn_valid_i, tokens: '1
      }),
      .unit_o       (unit),
      .out_read_o    (),
      .out_addr_o    (),
      .out_slice_o   (),
      .out_lane_o    (),
      .out_data_i,
      .awaddr_o      (awaddr),
      .awlen_o       (awlen),
      .awvalid_o     (awvalid),
      .awready_i,
      .wdata_o       (wdata),
      .wstrb_o       (wstrb),
      .wlast_o       (wlast),
      .wvalid_o      (wvalid),
      .wready_i,
      .bresp_i,
      .bvalid_i,
      .bus_idle_o    (bus_idle),
      .burst_o       (burst),
      .beat_o        (beat)
  );

  // Bursts that were announced and whose data have not ended, oldest at place 0; beats sent of it.
  logic [7:0] len_q[8];
  logic [3:0] open_q, open_after;
  logic [7:0] sent_q;
  // Bursts with an address that was taken, and those with all data, both without a response.
  logic [4:0] address_q, data_q;
  logic answered_q;  // a response came in the cycle before: its burst still counts
  logic w_end;
  assign w_end = wvalid && wready_i && wlast;
  assign open_after = open_q - 4'(w_end);

  // What the walker of bursts said and what was not taken of it.
  logic bursts_wait_q;
  logic [48:0] bursts_q;

  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    if (!started_q) begin
      base_q <= {mem_base_i[39:12], 12'd0};
      size_q <= {mem_size_i[39:12], 12'd0};
    end
    aw_wait_q <= awvalid && !awready_i && !rst_i;
    w_wait_q  <= wvalid && !wready_i && !rst_i;
    {awaddr_q, awlen_q} <= {awaddr, awlen};
    {wdata_q, wstrb_q, wlast_q} <= {wdata, wstrb, wlast};
    answered_q <= bvalid_i && !rst_i;
    bursts_wait_q <= dut.burst_valid && !dut.burst_ready && !rst_i;
    bursts_q <= {dut.burst_last, dut.burst_addr, dut.burst_len};
    if (rst_i) begin
      open_q <= '0;
      sent_q <= '0;
      address_q <= '0;
      data_q <= '0;
    end else begin
      if (w_end) for (int i = 0; i < 7; i++) len_q[i] <= len_q[i+1];
      if (dut.announce) len_q[open_after[2:0]] <= dut.burst_len;
      open_q <= open_after + 4'(dut.announce);
      if (wvalid && wready_i) sent_q <= wlast ? '0 : sent_q + 8'd1;
      address_q <= address_q + 5'(awvalid && awready_i) - 5'(bvalid_i);
      data_q <= data_q + 5'(w_end) - 5'(bvalid_i);
    end
  end

  // The beats that were read and not sent, oldest first, walked through the bursts that are open.
  logic [3:0] held;        // beats
  logic [3:0] ended;       // bursts of which they are the last
  logic [7:0] at;          // beats before, in the burst of the next one
  logic marked;            // each is marked as it must be
  always_comb begin
    logic last;
    held   = 4'(dut.fifo_count) + 4'(dut.read1_q);
    ended  = '0;
    at     = sent_q;
    marked = 1'b1;
    for (int unsigned i = 0; i < Beats; i++) begin
      if (4'(i) < held) begin
        last = 3'(i) < dut.fifo_count ? dut.u_beats.mem[2'(dut.u_beats.head_q+2'(i))][36] : dut.last1_q;
        if (last != (at == len_q[ended[2:0]])) marked = 1'b0;
        at    = last ? '0 : at + 8'd1;
        ended = ended + 4'(last);
      end
    end
  end

  always_comb begin
    if (!started_q) assume (rst_i);
    else begin
      // The memory answers bursts whose address and data it has.
      assume (!bvalid_i || (address_q != '0 && data_q != '0));
      // The walker of bursts: see formal_bursts.
      if (dut.burst_valid) begin
        assume (dut.burst_addr[1:0] == '0);
        assume (32'(dut.burst_len) < BurstBeats);
        assume (13'(dut.burst_addr[11:0]) + ((13'(dut.burst_len) + 13'd1) << 2) <= 13'd4096);
        assume (dut.burst_inside ==
                (41'(dut.burst_addr) + ((41'(dut.burst_len) + 41'd1) << 2) <= 41'(size_q)));
      end
      if (bursts_wait_q) assume (dut.burst_valid && bursts_q == {dut.burst_last, dut.burst_addr, dut.burst_len});

      // Stability
      if (aw_wait_q) assert (awvalid && awaddr == awaddr_q && awlen == awlen_q);
      if (w_wait_q) begin
        assert (wvalid && wdata == wdata_q && wlast == wlast_q);
        assert (wstrb == wstrb_q);
      end
      // 4 KiB, and the memory of the program
      if (awvalid) begin
        assert (32'(awlen) < BurstBeats);
        assert (13'(awaddr[11:0]) + ((13'(awlen) + 13'd1) << 2) <= 13'd4096);
        assert (40'(awaddr - base_q) < size_q);
      end
      // Data
      if (wvalid) begin
        assert (open_q != '0);
        assert (5'(open_q) <= address_q + 5'(awvalid));
        assert (wlast == (sent_q == len_q[0]));
      end
      // Counts
      assert (address_q + 5'(awvalid) + 5'(answered_q) <= 5'(Outstanding));
      assert (data_q + 5'(open_q) == address_q + 5'(awvalid));
      assert (data_q <= 5'(Outstanding) && 5'(open_q) <= 5'(Outstanding));
      if (bus_idle) begin
        assert (!awvalid && !wvalid && !answered_q);
        assert (address_q == '0 && data_q == '0 && open_q == '0);
      end

      // What makes the above inductive.
      assert (base_q[11:0] == '0 && size_q[11:0] == '0);
      assert (dut.u_tags.count_q == address_q + 5'(awvalid) + 5'(answered_q));
      assert (dut.u_tags.valid_q == (dut.u_tags.count_q != '0) && !dut.u_tags.full_q);
      assert (dut.u_lengths.valid_q == (dut.u_lengths.count_q != '0) && !dut.u_lengths.full_q);
      assert (dut.u_beats.valid_q == (dut.fifo_count != '0));
      assert (dut.u_beats.full_q == (dut.fifo_count == 3'(Beats)));
      assert (dut.answer_q == answered_q);
      assert (dut.u_lengths.count_q == 5'(open_q) - 5'(ended) && ended <= open_q);
      assert (held <= 4'(Beats) && marked);
      assert (dut.beats_q == at);
      assert (dut.u_beats.tail_q == 2'(dut.u_beats.head_q + 2'(dut.u_beats.count_q)));
      assert (dut.u_lengths.tail_q == 4'(dut.u_lengths.head_q + 4'(dut.u_lengths.count_q)));
      for (int unsigned i = 0; i < Outstanding; i++) begin
        if (5'(i) < dut.u_lengths.count_q)
          assert (dut.u_lengths.mem[4'(dut.u_lengths.head_q+4'(i))] == len_q[3'(ended)+3'(i)]);
        if (4'(i) < open_q) assert (32'(len_q[i]) < BurstBeats);
      end
      if (open_q != '0) assert (sent_q <= len_q[0]);
      else assert (sent_q == '0);
      if (dut.u_lengths.count_q != '0) assert (at <= dut.len_out);
      else assert (at == '0);
      cover (w_end && sent_q == 8'd3 && open_q == 4'd2);
      cover (wvalid && halt_i && open_q == 4'd2 && !wlast);
      cover (awvalid && data_q == 5'd1 && address_q == 5'd2);
      cover (awvalid && 32'(awlen) == BurstBeats - 1);
    end
  end
endmodule
