// SPDX-License-Identifier: Apache-2.0
// Asserts what an arbiter promises its cores: a grant answers a request, an offer stands until it is
// taken, a budget is kept, and bursts in flight are counted right.
// verilator coverage_off
module grant_checks #(
    parameter int unsigned Masters   = 2,
    parameter int unsigned OwnerBits = 1
) (
    input logic                     clk_i,
    input logic                     rst_i,
    input logic [Masters-1:0]       request_i,
    input logic [Masters-1:0]       open,
    input logic [Masters-1:0][15:0] budget_i,
    input logic [Masters-1:0]       grant_o,
    input logic [Masters-1:0]       waited_o,
    input logic [Masters-1:0]       throttled_o,
    input logic                     valid_o,
    input logic [OwnerBits-1:0]     owner_o,
    input logic                     ready_i
);
  logic waits_q;
  logic [OwnerBits-1:0] owner_q;

  always_ff @(posedge clk_i) begin
    waits_q <= valid_o && !ready_i && !rst_i;
    owner_q <= owner_o;
    if (!rst_i) begin
      assert ($onehot0(grant_o)) else $error("%m: two cores are granted in a cycle");
      assert ((grant_o & ~request_i) == '0) else $error("%m: a grant answers no request");
      assert (!valid_o || request_i[owner_o]) else $error("%m: an offer that nobody asked for");
      assert ((waited_o & throttled_o) == '0) else $error("%m: a core waits for two reasons");
      assert (((waited_o | throttled_o) & ~request_i) == '0)
      else $error("%m: a core waits for nothing");
      if (waits_q) assert (valid_o && owner_o == owner_q) else $error("%m: an offer was withdrawn");
      for (int unsigned m = 0; m < Masters; m++) begin
        if (valid_o && !waits_q && owner_o == OwnerBits'(m))
          assert (open[m]) else $error("%m: a core without tokens is offered");
        if (budget_i[m] == '0) assert (open[m]) else $error("%m: no budget must mean no limit");
      end
    end
  end
endmodule
