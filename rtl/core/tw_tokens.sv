// SPDX-License-Identifier: Apache-2.0
// Dependency tokens: one counter for each ordered pair of different units.
module tw_tokens #(
    parameter int unsigned CountBits = 16,  // bits of a counter
    localparam int unsigned NumUnits = 4
) (
    input  logic                              clk_i,
    input  logic                              rst_i,
    input  logic [NumUnits-1:0][NumUnits-1:0] push_i,      // [producer][consumer]
    input  logic [NumUnits-1:0][NumUnits-1:0] pop_i,       // [consumer][producer]
    output logic [NumUnits-1:0][NumUnits-1:0] available_o, // [consumer][producer] not empty
    output logic [NumUnits-1:0]               overflow_o   // by producer, in the cycle after the push
);
  logic [NumUnits-1:0][NumUnits-1:0] full;  // one too many was pushed; [producer][consumer]

  for (genvar c = 0; c < NumUnits; c++) begin : gen_consumer
    for (genvar p = 0; p < NumUnits; p++) begin : gen_producer
      logic [CountBits-1:0] count_q;
      logic pushed_q;     // it counted up: if it is 0 now, it has wrapped
      logic available_q;  // count_q is not 0: what the queue heads wait for lies in a register
      assign available_o[c][p] = available_q;
      assign full[p][c] = pushed_q && count_q == '0;
      always_ff @(posedge clk_i) begin
        pushed_q <= push_i[p][c] && !pop_i[c][p] && !rst_i;
        if (rst_i) begin
          count_q     <= '0;
          available_q <= 1'b0;
        end else if (push_i[p][c] != pop_i[c][p]) begin
          // One adder: 1, or -1.
          count_q     <= count_q + {{(CountBits - 1) {!push_i[p][c]}}, 1'b1};
          available_q <= push_i[p][c] ? !(&count_q) : (count_q != CountBits'(1));
        end
      end
    end
    assign overflow_o[c] = |full[c];
  end
endmodule
