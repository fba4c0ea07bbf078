// SPDX-License-Identifier: Apache-2.0
// Who of several cores gets the next burst of a direction of a memory port.
//
// Weighted round-robin: a core keeps its turn for as many bursts as its weight says while it wants
// them; then, or when it wants none, the turn goes to the next core that does. A budget limits what
// a core may ask for in a window: it may begin a burst while tokens are left, a burst takes as many
// tokens as it has beats, and a window adds the budget to what is left, up to the budget. So a
// burst may overdraw, and the next window pays: k windows in a row give at most k budgets and one
// burst less a beat.
//
// An offer follows the requests within the cycle: a core that is alone on its port loses none. One
// that the port does not take at once stands until it does.
module tw_grant #(
    parameter int unsigned Masters = 2,  // cores on the port, 1 to 8
    localparam int unsigned OwnerBits = Masters > 1 ? $clog2(Masters) : 1
) (
    input  logic                     clk_i,
    input  logic                     rst_i,
    // shares; registers of the host
    input  logic [Masters-1:0][ 3:0] weight_i,     // bursts in a row; 0 counts as 1
    input  logic [Masters-1:0][15:0] budget_i,     // beats a window; 0: no limit
    input  logic                     refill_i,     // one cycle: a window begins
    // requests, held until granted
    input  logic [Masters-1:0]       request_i,
    input  logic [Masters-1:0][ 7:0] len_i,        // beats minus 1
    input  logic                     room_i,       // the port may have one more burst in flight
    // the burst that is offered to the port
    output logic                     valid_o,
    output logic [    OwnerBits-1:0] owner_o,
    input  logic                     ready_i,
    output logic [Masters-1:0]       grant_o,      // taken, one at most
    // what happens to each core in this cycle
    output logic [Masters-1:0]       waited_o,     // for another core, or for room
    output logic [Masters-1:0]       throttled_o   // for the next window
);
  typedef logic [OwnerBits-1:0] master_t;
  typedef logic signed [17:0] tokens_t;

  logic [Masters-1:0] open, ask, offered;
  logic offered_q;       // the offer of the last cycle was not taken
  master_t turn_q, owner_q, chosen;
  logic [3:0] left_q;    // further bursts of the core whose turn it is
  logic take;

  // ---------------------------------------------------------------------------------------
  // Budgets
  for (genvar m = 0; m < int'(Masters); m++) begin : gen_bucket
    tokens_t tokens_q, filled, budget;
    assign budget = tokens_t'({2'b00, budget_i[m]});
    assign filled = !refill_i ? tokens_q :
                    tokens_q > 0 ? budget : tokens_q + budget;
    assign open[m] = budget_i[m] == '0 || tokens_q > 0;
    always_ff @(posedge clk_i) begin
      tokens_q <= filled - (grant_o[m] ? tokens_t'({10'd0, len_i[m]}) + tokens_t'(1) : '0);
      if (rst_i || budget_i[m] == '0) tokens_q <= '0;
    end
  end

  // ---------------------------------------------------------------------------------------
  // Turns
  assign ask = request_i & open;
  always_comb begin
    chosen = turn_q;
    if (left_q == '0 || !ask[turn_q]) begin
      for (int unsigned step = Masters; step > 0; step--) begin
        automatic int unsigned next = 32'(turn_q) + step;
        if (next >= Masters) next = next - Masters;
        if (ask[next]) chosen = master_t'(next);
      end
    end
  end

  assign owner_o = offered_q ? owner_q : chosen;
  assign valid_o = offered_q || (room_i && ask != '0);
  assign take = valid_o && ready_i;

  always_comb begin
    offered = '0;
    offered[owner_o] = valid_o;
  end
  assign grant_o = ready_i ? offered : '0;
  assign waited_o = request_i & ~offered & open;
  assign throttled_o = request_i & ~offered & ~open;

  always_ff @(posedge clk_i) begin
    owner_q <= owner_o;
    if (rst_i) begin
      offered_q <= 1'b0;
      turn_q    <= '0;
      left_q    <= '0;
    end else begin
      offered_q <= valid_o && !ready_i;
      if (take) begin
        turn_q <= owner_o;
        left_q <= owner_o == turn_q && left_q != '0 ? left_q - 1'b1 :
                  weight_i[owner_o] == '0 ? '0 : weight_i[owner_o] - 1'b1;
      end
    end
  end
endmodule
