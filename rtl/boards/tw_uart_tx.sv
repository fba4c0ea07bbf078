// SPDX-License-Identifier: Apache-2.0
// Transmitter of a serial line: 8 data bits, no parity, one stop bit.
module tw_uart_tx #(
    parameter int unsigned ClocksPerBit = 25  // clock cycles of a bit, at least 4
) (
    input  logic       clk_i,
    input  logic       rst_i,
    input  logic       valid_i,
    input  logic [7:0] data_i,
    output logic       ready_o,  // the byte is taken
    output logic       line_o
);
  localparam int unsigned TimerBits = $clog2(ClocksPerBit);

  logic [9:0] bits_q;  // start bit, data and stop bit, sent from bit 0
  logic [3:0] left_q;  // bits that are not over, and one before the first
  logic [TimerBits-1:0] timer_q;

  assign ready_o = left_q == '0;

  always_ff @(posedge clk_i) begin
    timer_q <= timer_q - 1'b1;
    if (ready_o) begin
      timer_q <= TimerBits'(ClocksPerBit - 1);
      line_o  <= 1'b1;
      if (valid_i) begin
        bits_q  <= {1'b1, data_i, 1'b0};
        left_q  <= 4'd11;
        timer_q <= '0;
      end
    end else if (timer_q == '0) begin
      timer_q <= TimerBits'(ClocksPerBit - 1);
      line_o  <= bits_q[0];
      bits_q  <= {1'b1, bits_q[9:1]};
      left_q  <= left_q - 1'b1;
    end
    if (rst_i) begin
      left_q <= '0;
      line_o <= 1'b1;
    end
  end
endmodule
