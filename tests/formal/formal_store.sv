// SPDX-License-Identifier: Apache-2.0
// Properties of the write engine of tw_store: AXI channels held until ready, bursts inside 4 KiB,
// WLAST on the last beat only, no data before their address, bounded bursts in flight. A response
// counts in the cycle after it came, and a wrong instruction errs in the cycle after its take.
module formal_store #(
    parameter int unsigned Outstanding = 2  // write bursts in flight
) (
    input logic                        clk_i,
    input logic                        rst_i,
    input logic                        halt_i,
    input logic                        insn_valid_i,
    input logic [tw_pkg::InsnBits-1:0] insn_i,
    input tw_pkg::index_t              index_i,
    input logic [                 3:0] token_i,
    input logic [                31:0] out_data_i,
    input logic                        awready_i,
    input logic                        wready_i,
    input logic [                 1:0] bresp_i,
    input logic                        bvalid_i
);
  localparam tw_pkg::sizes_t Sizes = '{
      write_outstanding: Outstanding, out_shift: 2, out_depth: 16, default: '0
  };
  tw_pkg::index_t retire_index;
  tw_pkg::error_t error;
  logic pop, awvalid, wvalid, wlast, idle, bus_idle, burst, beat, retire;
  logic [39:0] awaddr, awaddr_q;
  logic [7:0] awlen, awlen_q;
  logic [31:0] wdata, wdata_q;
  logic [3:0] wstrb, wstrb_q;
  logic wlast_q, aw_wait_q, w_wait_q, started_q;
  tw_pkg::store_t insn;
  assign insn = tw_pkg::store_t'(insn_i);

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
      .Config('{axi_data_bits: 32, axi_burst_beats: 2, default: '0}),
      .Sizes (Sizes)
  ) dut (
      .clk_i,
      .rst_i,
      .halt_i,
      .mem_base_i   (40'h1000),
      .mem_size_i   (40'h2000),
      .queue_i      ('{
          entry: '{insn: insn_i, index: index_i}, needs: needs[tw_pkg::UnitStore],
          valid: insn_valid_i, tokens: token_i
      }),
      .unit_o       (unit),
      .out_read_o   (),
      .out_addr_o   (),
      .out_slice_o  (),
      .out_lane_o   (),
      .out_data_i,
      .awaddr_o     (awaddr),
      .awlen_o      (awlen),
      .awvalid_o    (awvalid),
      .awready_i,
      .wdata_o      (wdata),
      .wstrb_o      (wstrb),
      .wlast_o      (wlast),
      .wvalid_o     (wvalid),
      .wready_i,
      .bresp_i,
      .bvalid_i,
      .bus_idle_o   (bus_idle),
      .burst_o      (burst),
      .beat_o       (beat)
  );

  // Offered bursts whose data have not ended, oldest at place 0.
  logic [7:0] len_q[4];
  logic [2:0] open_q, open_after;
  logic [7:0] beat_q;
  logic [4:0] address_q, data_q;
  // Response of the cycle before, and what was taken then.
  logic answered_q, failed_q, took_q, illegal_q, unaligned_q;
  logic broken_q;  // an error or a halt since the reset
  // Instruction taken last, and those of the bursts without an answer, oldest at place 0.
  tw_pkg::index_t taken_q, index_q[4];
  logic [2:0] unanswered_q, unanswered_after;
  assign unanswered_after = unanswered_q - 3'(answered_q);
  logic offer, w_end;
  assign offer = awvalid && !aw_wait_q;
  assign w_end = wvalid && wready_i && wlast;
  assign open_after = open_q - 3'(w_end);

  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    aw_wait_q <= awvalid && !awready_i && !rst_i;
    w_wait_q  <= wvalid && !wready_i && !rst_i;
    {awaddr_q, awlen_q} <= {awaddr, awlen};
    {wdata_q, wstrb_q, wlast_q} <= {wdata, wstrb, wlast};
    broken_q   <= !rst_i && (broken_q || error.valid || halt_i);
    answered_q <= bvalid_i && !rst_i;
    failed_q   <= bresp_i[1];
    took_q     <= pop && !rst_i;
    illegal_q  <= insn.pop[tw_pkg::UnitStore] || insn.push[tw_pkg::UnitStore];
    unaligned_q <= insn.dram_offset[1:0] != '0;
    if (pop) taken_q <= index_i;
    if (rst_i) begin
      open_q <= '0;
      beat_q <= '0;
      address_q <= '0;
      data_q <= '0;
      unanswered_q <= '0;
    end else begin
      if (w_end) for (int i = 0; i < 3; i++) len_q[i] <= len_q[i+1];
      if (offer) len_q[open_after[1:0]] <= awlen;
      open_q <= open_after + 3'(offer);
      if (wvalid && wready_i) beat_q <= wlast ? '0 : beat_q + 8'd1;
      address_q <= address_q + 5'(awvalid && awready_i) - 5'(bvalid_i);
      data_q <= data_q + 5'(w_end) - 5'(bvalid_i);
      if (answered_q) for (int i = 0; i < 3; i++) index_q[i] <= index_q[i+1];
      if (dut.announce) index_q[unanswered_after[1:0]] <= taken_q;
      unanswered_q <= unanswered_after + 3'(dut.announce);
    end
  end

  always_comb begin
    if (!started_q) assume (rst_i);
    else begin
      assume (!bvalid_i || (address_q != '0 && data_q != '0));
      // Size 0 is refused with an error that halts the unit (tests/rtl/test_predecode.py).
      assume (insn.x_size != '0 && insn.y_size != '0 && insn.z_size != '0);
      // Small regions, so that several instructions end within the bound.
      assume (insn.x_size <= 16'd5 && insn.y_size <= 16'd2 && insn.z_size <= 16'd2);
      if (aw_wait_q) assert (awvalid && awaddr == awaddr_q && awlen == awlen_q);
      if (w_wait_q) assert (wvalid && wdata == wdata_q && wlast == wlast_q);
      // Only a halt clears the strobes, and never those of a beat that is offered.
      if (w_wait_q) assert (wstrb == wstrb_q);
      if (awvalid) begin
        assert (awlen < 8'd2);
        assert (13'(awaddr[11:0]) + ((13'(awlen) + 13'd1) << 2) <= 13'd4096);
        assert (awaddr >= 40'h1000 && awaddr < 40'h3000);
      end
      if (wvalid) begin
        assert (open_q != '0 || offer);
        assert (dut.tag_valid || awvalid);  // no data without a burst that waits for its answer
        assert (wlast == (beat_q == (open_q != '0 ? len_q[0] : awlen)));
      end
      assert (address_q + 5'(awvalid) + 5'(answered_q) <= 5'(Outstanding));
      if (bus_idle) assert (!awvalid && !wvalid && !answered_q && address_q == '0 && data_q == '0);
      // Every wrong answer is an error of the instruction that its burst belongs to, a cycle later.
      if (answered_q && failed_q && !halt_i) begin
        assert (error.valid);
        if (error.code == tw_pkg::ErrAxiWrite) assert (error.index == index_q[0]);
      end
      if (error.valid && error.code == tw_pkg::ErrAxiWrite) assert (answered_q && failed_q);
      // A wrong instruction errs in the cycle after its take, and no other.
      if (took_q && (illegal_q || unaligned_q) && !halt_i) assert (error.valid);
      // The first error counts: the unit then stops until its reset, whatever else comes here.
      if (error.valid && !broken_q) begin
        if (error.code == tw_pkg::ErrIllegalField)
          assert (took_q && illegal_q && error.index == taken_q);
        if (error.code == tw_pkg::ErrDramAlignment)
          assert (took_q && !illegal_q && unaligned_q && error.index == taken_q);
        if (error.code == tw_pkg::ErrDramRange) assert (error.index == taken_q);
      end
      if (retire) assert (answered_q && retire_index == index_q[0]);
      cover (retire && address_q + 5'd1 == 5'(Outstanding));
      cover (error.valid && error.code == tw_pkg::ErrDramAlignment && awvalid);
      cover (error.valid && error.code == tw_pkg::ErrAxiWrite && error.index != taken_q && !retire);
      cover (awvalid && 11'(awaddr[11:2]) + 11'(awlen) == 11'd1023 && awlen != '0);
      cover (rst_i && awvalid && wvalid && !bus_idle);
    end
  end
endmodule
