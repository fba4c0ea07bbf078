// SPDX-License-Identifier: Apache-2.0
// Receiver of a serial line: 8 data bits, no parity, one stop bit. A byte whose stop bit is missing
// is dropped: the check of the frame that it belongs to then fails (tw_host_link).
module tw_uart_rx #(
    parameter int unsigned ClocksPerBit = 25  // clock cycles of a bit, at least 4
) (
    input  logic       clk_i,
    input  logic       rst_i,
    input  logic       line_i,   // asynchronous; idle is high
    output logic       valid_o,  // one cycle a byte
    output logic [7:0] data_o
);
  localparam int unsigned TimerBits = $clog2(ClocksPerBit);
  localparam logic [TimerBits-1:0] Whole = TimerBits'(ClocksPerBit - 1);
  localparam logic [TimerBits-1:0] Half = TimerBits'(ClocksPerBit / 2 - 1);

  typedef enum logic [2:0] {
    Idle,   // the line rests
    Start,  // to the middle of the start bit
    Data,   // to the middle of the next data bit
    Stop,   // to the middle of the stop bit
    Broken  // no stop bit: until the line rests
  } state_e;

  (* ASYNC_REG = "TRUE" *) logic [1:0] sync_q;
  logic line;
  state_e state_q;
  logic [TimerBits-1:0] timer_q;
  logic [2:0] bit_q;

  assign line = sync_q[1];

  always_ff @(posedge clk_i) begin
    sync_q  <= {sync_q[0], line_i};
    valid_o <= 1'b0;
    timer_q <= timer_q - 1'b1;
    unique case (state_q)
      Idle: begin
        timer_q <= Half;
        if (!line) state_q <= Start;
      end
      Start:
      if (timer_q == '0) begin
        timer_q <= Whole;
        bit_q   <= '0;
        state_q <= line ? Idle : Data;
      end
      Data:
      if (timer_q == '0) begin
        timer_q <= Whole;
        data_o  <= {line, data_o[7:1]};
        bit_q   <= bit_q + 1'b1;
        if (bit_q == 3'd7) state_q <= Stop;
      end
      Stop:
      if (timer_q == '0) begin
        valid_o <= line;
        state_q <= line ? Idle : Broken;
      end
      Broken: if (line) state_q <= Idle;
      default: state_q <= Idle;
    endcase
    if (rst_i) begin
      sync_q  <= '1;
      valid_o <= 1'b0;
      state_q <= Idle;
    end
  end
endmodule
