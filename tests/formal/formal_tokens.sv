// SPDX-License-Identifier: Apache-2.0
// Properties of tw_tokens: a counter holds pushes minus pops; one that wraps is reported in the cycle
// after the push that was too many, and nothing else is.
module formal_tokens #(
    parameter int unsigned CountBits = 3  // bits of a counter
) (
    input logic            clk_i,
    input logic            rst_i,
    input logic [3:0][3:0] push_i,      // [producer][consumer]
    input logic [3:0][3:0] pop_i,       // [consumer][producer]
    input logic [3:0]      pair_i       // pair that is watched: any, but constant
);
  logic [3:0][3:0] available;
  logic [3:0] overflow, pair_q;
  logic [1:0] c, p;
  logic started_q, live_q;
  logic [CountBits:0] sum_q;  // one bit more than the counter: it cannot wrap unseen
  logic [3:0][3:0] excess_q;  // in the cycle before a full counter was pushed; [producer][consumer]

  tw_tokens #(
      .CountBits(CountBits)
  ) dut (
      .clk_i,
      .rst_i,
      .push_i,
      .pop_i,
      .available_o(available),
      .overflow_o (overflow)
  );
  assign {c, p} = pair_q;
  logic [3:0][3:0][CountBits-1:0] count;
  for (genvar i = 0; i < 4; i++) begin : gen_consumer
    for (genvar j = 0; j < 4; j++) begin : gen_producer
      assign count[i][j] = dut.gen_consumer[i].gen_producer[j].count_q;
    end
  end

  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    pair_q <= started_q ? pair_q : pair_i;
    // A reported overflow halts the accelerator: what counters hold behind it does not matter.
    live_q <= rst_i || (live_q && overflow == '0);
    for (int i = 0; i < 4; i++) begin
      for (int j = 0; j < 4; j++)
        excess_q[j][i] <= push_i[j][i] && !pop_i[i][j] && (&count[i][j]) && !rst_i;
    end
    sum_q <= rst_i ? '0 : sum_q + (CountBits + 1)'(push_i[p][c]) - (CountBits + 1)'(pop_i[c][p]);
  end

  always_comb begin
    if (!started_q) assume (rst_i);
    else begin
      // Units pop only what is available.
      assume ((pop_i & ~available) == '0);
      if (live_q) begin
        assert (count[c][p] == sum_q[CountBits-1:0]);
        assert (available[c][p] == (sum_q[CountBits-1:0] != '0));
        assert (sum_q[CountBits] == excess_q[p][c]);
        assert (overflow[p] == (excess_q[p] != '0));
        cover (pair_q == 4'b0111 && overflow[p]);
        cover (rst_i && sum_q > (CountBits + 1)'(2) && pop_i[c][p]);
      end
    end
  end
endmodule
