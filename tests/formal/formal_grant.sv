// SPDX-License-Identifier: Apache-2.0
// Properties of tw_grant for two cores: an offer answers a request and stands until it is taken, a
// core with a budget gets no more than its windows give and the rest of a burst, and one that waits
// sees at most as many bursts of the other as the other's weight says.
module formal_grant (
    input logic             clk_i,
    input logic             rst_i,
    input logic [1:0][ 3:0] weight_i,   // any, but constant
    input logic [1:0][15:0] budget_i,   // any, but constant
    input logic             refill_i,
    input logic [1:0]       request_i,
    input logic [1:0][ 7:0] len_i,
    input logic             room_i,
    input logic             ready_i,
    input logic             watched_i   // core that is watched: any, but constant
);
  logic valid, owner, started_q, watched_q;
  logic [1:0] grant, waited, throttled;
  logic [1:0][3:0] weight_q;
  logic [1:0][15:0] budget_q;

  tw_grant #(
      .Masters(2)
  ) dut (
      .clk_i,
      .rst_i,
      .weight_i   (weight_q),
      .budget_i   (budget_q),
      .refill_i,
      .request_i,
      .len_i,
      .room_i,
      .valid_o    (valid),
      .owner_o    (owner),
      .ready_i,
      .grant_o    (grant),
      .waited_o   (waited),
      .throttled_o(throttled)
  );

  // What is watched: beats beyond the windows' budgets, and bursts of the other while this one waits.
  logic signed [21:0] excess_q, tokens;
  logic [15:0] budget;
  logic [4:0] weight, others_q;
  logic offered_q, owner_q;
  logic [1:0] request_q;
  logic [1:0][7:0] len_q;
  assign budget = budget_q[watched_q];
  assign weight = weight_q[!watched_q] == '0 ? 5'd1 : 5'(weight_q[!watched_q]);
  assign tokens = watched_q ? 22'(dut.gen_bucket[1].tokens_q) : 22'(dut.gen_bucket[0].tokens_q);

  initial started_q = 1'b0;
  always_ff @(posedge clk_i) begin
    started_q <= 1'b1;
    watched_q <= started_q ? watched_q : watched_i;
    weight_q  <= started_q ? weight_q : weight_i;
    budget_q  <= started_q ? budget_q : budget_i;
    request_q <= request_i & ~grant;
    len_q     <= len_i;
    offered_q <= valid && !ready_i && !rst_i;
    owner_q   <= owner;
    excess_q  <= rst_i ? '0 : excess_q + (grant[watched_q] ? 22'({14'd0, len_i[watched_q]}) + 22'd1 : '0)
                                       - (refill_i ? 22'({6'd0, budget}) : '0);
    others_q  <= rst_i || !request_i[watched_q] || grant[watched_q] ? '0 :
                 others_q + 5'(grant[!watched_q]);
  end

  always_comb begin
    if (!started_q) assume (rst_i);
    else begin
      for (int unsigned m = 0; m < 2; m++) begin
        if (request_q[m] && !rst_i) begin  // held until granted
          assume (request_i[m]);
          assume (len_i[m] == len_q[m]);
        end
      end
      assume (excess_q > -22'sd1000000);  // the sum of the solver has an end, that of time has not
      assert ($onehot0(grant));
      if (!rst_i) assert ((grant & ~request_i) == '0);
      assert (grant == '0 || ready_i);
      if (valid && !rst_i) assert (request_i[owner]);
      assert (dut.offered_q == offered_q);
      if (offered_q && owner_q == watched_q && budget != '0) assert (tokens > 0);
      if (offered_q) assert (valid && owner == owner_q && request_q[owner_q]);
      if (!rst_i && budget != '0) begin
        assert (tokens + excess_q <= 0);
        assert (tokens >= -22'sd255);
        assert (excess_q <= 22'sd255);
        cover (throttled[watched_q] && excess_q == 22'sd3);
      end
      if (!rst_i && budget == '0) begin
        assert (!throttled[watched_q]);
        assert (5'(dut.left_q) < 5'd16);
        assert (dut.turn_q == watched_q || 5'(dut.left_q) < weight);
        assert (others_q <= weight);
        if (others_q != '0) begin
          assert (dut.turn_q != watched_q && others_q + 5'(dut.left_q) <= weight);
          // What stands was offered while the other had its turn.
          if (offered_q && owner_q != watched_q) assert (dut.left_q != '0);
        end
        cover (others_q == 5'd3 && grant[watched_q]);
      end
    end
  end
endmodule
