// SPDX-License-Identifier: Apache-2.0
// Properties of tw_bursts: inside 4 KiB, not longer than BurstBeats, adjoining, and summing up to
// the beats that the rows touch.
module formal_bursts #(
    parameter int unsigned BeatBytes  = 8,   // bytes of a beat
    parameter int unsigned BurstBeats = 16,  // longest burst
    parameter int unsigned RowBits    = 28   // bits of row_bytes that may be set
) (
    input logic        clk_i,
    input logic        rst_i,
    input logic        start_i,
    input logic        ready_i,
    input logic [39:0] base_i,
    input logic [39:0] y_step_i,
    input logic [39:0] z_step_i,
    input logic [27:0] row_bytes_i,
    input logic [15:0] y_size_i,
    input logic [15:0] z_size_i
);
  localparam int unsigned Shift = $clog2(BeatBytes);
  logic valid, last, done, started_q, in_row_q, first_q;
  logic [39:0] addr, base_q, y_step_q, z_step_q, next_q;
  logic [7:0] len;
  logic [27:0] row_bytes_q;
  logic [15:0] y_size_q, z_size_q;
  logic [8:0] beats;
  logic [29:0] wanted, sent_q;
  logic [39:0] row_addr;

  tw_bursts #(
      .BeatBytes (BeatBytes),
      .BurstBeats(BurstBeats)
  ) dut (
      .clk_i,
      .rst_i,
      .start_i,
      .base_i     (start_i ? base_i : base_q),
      .y_step_i   (start_i ? y_step_i : y_step_q),
      .z_step_i   (start_i ? z_step_i : z_step_q),
      .row_bytes_i(start_i ? row_bytes_i : row_bytes_q),
      .y_size_i   (start_i ? y_size_i : y_size_q),
      .z_size_i   (start_i ? z_size_i : z_size_q),
      .valid_o    (valid),
      .ready_i,
      .addr_o     (addr),
      .len_o      (len),
      .last_o     (last),
      .done_o     (done)
  );
  assign beats = 9'(len) + 9'd1;
  assign row_addr = dut.row_addr;
  // First and last byte of the row, in beats: the number of beats by another formula.
  assign wanted = 30'((41'(row_addr[11:0]) + 41'(row_bytes_q) - 41'd1) >> Shift) -
                  30'(row_addr[11:0] >> Shift) + 30'd1;

  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    if (start_i) begin
      {base_q, y_step_q, z_step_q} <= {base_i, y_step_i, z_step_i};
      {row_bytes_q, y_size_q, z_size_q} <= {row_bytes_i, y_size_i, z_size_i};
    end
    if (rst_i || start_i) begin
      sent_q  <= '0;
      first_q <= 1'b1;
    end else if (valid && ready_i) begin
      first_q <= sent_q + 30'(beats) == wanted;
      sent_q  <= sent_q + 30'(beats) == wanted ? '0 : sent_q + 30'(beats);
      next_q  <= addr + (40'(beats) << Shift);
    end
  end

  always_comb begin
    if (!started_q) assume (rst_i);
    assume (!start_i || done);
    if (start_i) begin
      assume (row_bytes_i != '0 && y_size_i != '0 && z_size_i != '0);
      assume ((row_bytes_i >> RowBits) == '0);
    end
    if (started_q && valid) begin
      assert (addr[Shift-1:0] == '0);
      assert (32'(beats) <= BurstBeats);
      assert (13'(addr[11:0]) + (13'(beats) << Shift) <= 13'd4096);
      assert (addr[39:Shift] == row_addr[39:Shift] + (40 - Shift)'(sent_q));
      if (!first_q) assert (addr == next_q);
      assert (sent_q + 30'(beats) <= wanted);
      assert (last == (dut.last_row && sent_q + 30'(beats) == wanted));
      // What makes the above inductive.
      assert (30'(dut.left_q) + sent_q == wanted);
      assert (first_q == (sent_q == '0));
    end
    if (started_q && !done) assert (row_bytes_q != '0 && (row_bytes_q >> RowBits) == '0);
    if (started_q && !valid && !done) assert (sent_q == '0 && first_q);
  end
endmodule
