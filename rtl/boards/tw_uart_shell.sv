// SPDX-License-Identifier: Apache-2.0
// The shell of tw_byte_shell at a serial line.
module tw_uart_shell #(
    parameter int unsigned AxiDataBits  = 64,          // of the configuration
    parameter int unsigned MemoryBytes  = 131072,      // a power of two, 4 KiB to 1 GiB
    parameter int unsigned ClockHz      = 25_000_000,  // of aclk
    parameter int unsigned ClocksPerBit = 25           // of the serial line, at least 4
) (
    input  logic aclk,
    input  logic aresetn,
    input  logic uart_rx,
    output logic uart_tx,
    output logic link_seen,  // bytes came since the reset
    output logic irq
);
  logic rx_valid, rx_full, queue_valid, queue_ready, tx_valid, tx_ready;
  logic [7:0] rx_data, queue_data, tx_data;
  logic [6:0] unused_count;

  tw_uart_rx #(
      .ClocksPerBit(ClocksPerBit)
  ) u_rx (
      .clk_i  (aclk),
      .rst_i  (!aresetn),
      .line_i (uart_rx),
      .valid_o(rx_valid),
      .data_o (rx_data)
  );
  // The host goes on sending while the words of a write are written, five cycles each at most, and
  // while it is answered.
  tw_fifo #(
      .Width(8),
      .Depth(64)
  ) u_queue (
      .clk_i  (aclk),
      .rst_i  (!aresetn),
      .push_i (rx_valid && !rx_full),
      .data_i (rx_data),
      .pop_i  (queue_ready),
      .data_o (queue_data),
      .valid_o(queue_valid),
      .full_o (rx_full),
      .count_o(unused_count)
  );
  tw_uart_tx #(
      .ClocksPerBit(ClocksPerBit)
  ) u_tx (
      .clk_i  (aclk),
      .rst_i  (!aresetn),
      .valid_i(tx_valid),
      .data_i (tx_data),
      .ready_o(tx_ready),
      .line_o (uart_tx)
  );
  tw_byte_shell #(
      .AxiDataBits(AxiDataBits),
      .MemoryBytes(MemoryBytes),
      .ClockHz    (ClockHz)
  ) u_shell (
      .aclk    (aclk),
      .aresetn (aresetn),
      .rx_valid(queue_valid),
      .rx_data (queue_data),
      .rx_ready(queue_ready),
      .tx_valid(tx_valid),
      .tx_data (tx_data),
      .tx_ready(tx_ready),
      .irq     (irq)
  );
  always_ff @(posedge aclk) link_seen <= aresetn && (link_seen || rx_valid);
endmodule
