// SPDX-License-Identifier: Apache-2.0
// Properties of tw_bursts: inside 4 KiB, not longer than BurstBeats, as long as both allow,
// adjoining, ending with the last beat of the row, and whether they are within the memory; the first one two cycles after the start, the
// others without a bubble. What rows the walker shows is proven in formal_rows.
module formal_bursts #(
    parameter int unsigned BeatBytes  = 8,  // bytes of a beat
    parameter int unsigned BurstBeats = 16  // longest burst
) (
    input logic        clk_i,
    input logic        rst_i,
    input logic        start_i,
    input logic        ready_i,
    input logic [39:0] mem_size_i,
    input logic [39:0] base_i,
    input logic [39:0] y_step_i,
    input logic [39:0] z_step_i,
    input logic [27:0] row_bytes_i,
    input logic [15:0] y_size_i,
    input logic [15:0] z_size_i
);
  localparam int unsigned Shift = $clog2(BeatBytes);
  localparam int unsigned PageBeats = 4096 / BeatBytes;
  typedef logic [39-Shift:0] beat_t;  // address in beats
  logic valid, fits, last, done, started_q;
  logic [39:0] addr, size_q, base_q, y_step_q, z_step_q;
  logic [7:0] len;
  logic [27:0] row_bytes_q;
  logic [15:0] y_size_q, z_size_q;

  tw_bursts #(
      .BeatBytes (BeatBytes),
      .BurstBeats(BurstBeats)
  ) dut (
      .clk_i,
      .rst_i,
      .start_i,
      .mem_size_i (size_q),
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
      .inside_o   (fits),
      .last_o     (last),
      .done_o     (done)
  );

  // The rows that the next burst, the spare one and the offered one belong to: first and last beat by
  // a formula of their own, and whether the region ends with it.
  typedef struct packed {
    beat_t from;
    beat_t to;
    logic  last;
  } row_t;
  row_t row_q, spare_row_q, offered_row_q, tail_row;
  logic fresh_q;    // the next burst is the first of its row
  logic starts_q, spare_starts_q;  // the offered burst is, the spare one
  logic single_q;   // the first row was one burst
  logic [1:0] age_q;     // cycles since the start, up to 3
  logic [1:0] taken_q;   // bursts taken, up to 3
  logic waits_q, load;
  logic [48:0] held_q;
  beat_t first_beat, last_beat, spare_last, tail_last, after_q;
  logic [27:0] bytes;
  logic ends, spare_ends, tail_ends;  // its row ends; of the youngest before `next`
  logic [39-Shift:0] size;  // of the memory, in beats
  logic [10:0] page_left, next_page_left;

  assign load = start_i || dut.row_load;
  assign bytes = start_i ? row_bytes_i : row_bytes_q;
  assign first_beat = addr[39:Shift];
  assign last_beat = first_beat + beat_t'(len);
  assign ends = last_beat == offered_row_q.to;
  assign spare_last = dut.spare_q.beat + beat_t'(dut.spare_q.len);
  assign spare_ends = spare_last == spare_row_q.to;
  assign {tail_row, tail_last, tail_ends} = dut.spare_valid_q ?
      {spare_row_q, spare_last, spare_ends} : {offered_row_q, last_beat, ends};
  assign size = size_q[39:Shift];
  assign page_left = 11'(PageBeats) - 11'(first_beat % PageBeats);
  assign next_page_left = 11'(PageBeats) - 11'(dut.next_beat_q % PageBeats);

  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    waits_q <= valid && !ready_i && !rst_i;
    held_q <= {last, addr, len};
    if (!started_q) size_q <= {mem_size_i[39:12], 12'd0};
    if (start_i) begin
      {base_q, y_step_q, z_step_q} <= {base_i, y_step_i, z_step_i};
      {row_bytes_q, y_size_q, z_size_q} <= {row_bytes_i, y_size_i, z_size_i};
    end
    if (load) begin
      row_q.from <= beat_t'(dut.row_addr >> Shift);
      row_q.to   <= beat_t'((dut.row_addr + 40'(bytes) - 40'd1) >> Shift);
      row_q.last <= dut.row_last;
    end
    if (load) fresh_q <= 1'b1;
    else if (dut.advance) fresh_q <= 1'b0;
    if (!valid || ready_i) {offered_row_q, starts_q} <= dut.spare_valid_q ?
                           {spare_row_q, spare_starts_q} : {row_q, fresh_q};
    if (!dut.spare_valid_q) {spare_row_q, spare_starts_q} <= {row_q, fresh_q};
    if (start_i) age_q <= 2'd1;
    else if (age_q != 2'd3) age_q <= age_q + 2'd1;
    if (start_i) taken_q <= '0;
    else if (valid && ready_i && taken_q != '1) taken_q <= taken_q + 2'd1;
    if (valid && ready_i) begin
      after_q <= last_beat + beat_t'(1);
      if (taken_q == '0) single_q <= ends;
    end
  end

  always_comb begin
    if (!started_q) assume (rst_i);
    assume (!start_i || done);
    if (start_i) assume (row_bytes_i != '0 && y_size_i != '0 && z_size_i != '0);
    // A row ends below 2^40.
    if (load) assume (41'(dut.row_addr) + 41'(bytes) <= {1'b1, 40'd0});
    if (started_q) begin
      if (valid) begin
        assert (!done);
        assert (32'(len) < BurstBeats);
        assert (11'(len) < page_left);
        assert (starts_q ? first_beat == offered_row_q.from : first_beat == after_q);
        assert (last_beat <= offered_row_q.to);
        // No shorter than the rules ask for.
        assert (ends || 32'(len) == BurstBeats - 1 || 11'(len) == page_left - 11'd1);
        assert (last == (offered_row_q.last && ends));
        assert (fits == ({1'b0, first_beat} + (41 - Shift)'(len) < {1'b0, size}));
      end
      if (dut.spare_valid_q) begin
        assert (valid && 32'(dut.spare_q.len) < BurstBeats && spare_last <= spare_row_q.to);
        assert (11'(dut.spare_q.len) < 11'(PageBeats) - 11'(dut.spare_q.beat % PageBeats));
        assert (spare_ends || 32'(dut.spare_q.len) == BurstBeats - 1 ||
                11'(dut.spare_q.len) + 11'd1 ==
                11'(PageBeats) - 11'(dut.spare_q.beat % PageBeats));
        assert (dut.spare_q.last == (spare_row_q.last && spare_ends));
        assert (dut.spare_q.fits ==
                ({1'b0, dut.spare_q.beat} + (41 - Shift)'(dut.spare_q.len) < {1'b0, size}));
        assert (spare_starts_q ? ends && !offered_row_q.last && dut.spare_q.beat == spare_row_q.from
                : !ends && spare_row_q == offered_row_q && dut.spare_q.beat == last_beat + beat_t'(1));
      end
      if (waits_q) assert (valid && held_q == {last, addr, len});
      // The first burst is offered in the second cycle after the start; a cycle without a burst
      // follows only a first row of a single burst.
      if (!done) begin
        if (age_q >= 2'd2 && !(taken_q == 2'd1 && single_q)) assert (valid);
        if (age_q == 2'd1) assert (!valid);
      end
      // The first row comes from start_i, the walker's showing of it is passed over.
      assert (!(dut.skip_q && dut.row_load));
      // What makes the above inductive.
      if (dut.next_valid_q) begin
        assert (!done);
        assert (dut.next_beat_q + beat_t'(dut.left_q) == row_q.to);
        assert (dut.next_beat_q <= row_q.to);
        assert (dut.next_last_q == row_q.last);
        assert (dut.rows_q == !row_q.last);
        assert (11'(dut.room_q) + 11'd1 ==
                (next_page_left < 11'(BurstBeats) ? next_page_left : 11'(BurstBeats)));
        if (fresh_q) assert (dut.next_beat_q == row_q.from);
        assert (dut.until_q == $signed({1'b0, size}) - $signed({1'b0, dut.next_beat_q}));
        if (fresh_q && valid) assert (tail_ends && !tail_row.last);
        if (!fresh_q) assert (valid && !tail_ends && row_q == tail_row &&
                              dut.next_beat_q == tail_last + beat_t'(1));
      end else if (!done) begin
        assert (valid && tail_ends && dut.rows_q == !tail_row.last && row_q == tail_row);
      end
      assert (done == (!valid && !dut.next_valid_q));
      assert (size_q[11:0] == '0);
      if (done) assert (!dut.rows_q);
      else assert (row_bytes_q != '0);
      if (dut.skip_q) assert (age_q == 2'd1 && !done);
      if (!done) begin
        assert (age_q != '0);
        if (age_q == 2'd1) assert (taken_q == '0 && dut.skip_q && dut.next_valid_q && fresh_q);
        if (age_q == 2'd2) begin
          assert (taken_q == '0 && valid && starts_q);
          assert (dut.next_valid_q || last || (ends && dut.rows_q));
          assert (!dut.spare_valid_q && !(dut.next_valid_q && fresh_q));
        end
        if (age_q == 2'd3) assert (dut.next_valid_q || dut.spare_valid_q || last);
        if (taken_q == '0 && valid) assert (starts_q);
      end
      cover (valid && ready_i && last && taken_q == 2'd3);
      cover (valid && len != '0 && 11'(len) + 11'd1 == page_left && !ends);  // ends with its page
      cover (valid && ready_i && dut.spare_valid_q && !fits && spare_starts_q);
      cover (rst_i && valid && dut.next_valid_q && taken_q != '0);
    end
  end
endmodule
