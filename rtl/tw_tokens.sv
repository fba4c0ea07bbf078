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
    output logic [NumUnits-1:0]               overflow_o   // by producer, in the cycle of the push
);
  logic [NumUnits-1:0][NumUnits-1:0][CountBits-1:0] count_q;  // [consumer][producer]

  always_comb begin
    overflow_o = '0;
    for (int unsigned c = 0; c < NumUnits; c++) begin
      for (int unsigned p = 0; p < NumUnits; p++) begin
        available_o[c][p] = count_q[c][p] != '0;
        if (push_i[p][c] && !pop_i[c][p] && (&count_q[c][p])) overflow_o[p] = 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned c = 0; c < NumUnits; c++) begin
      for (int unsigned p = 0; p < NumUnits; p++) begin
        if (rst_i) count_q[c][p] <= '0;
        else if (push_i[p][c] && !pop_i[c][p]) count_q[c][p] <= count_q[c][p] + 1'b1;
        else if (pop_i[c][p] && !push_i[p][c]) count_q[c][p] <= count_q[c][p] - 1'b1;
      end
    end
  end
endmodule
