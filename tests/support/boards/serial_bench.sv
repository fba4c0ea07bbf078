// SPDX-License-Identifier: Apache-2.0
// A whole ULX3S with a host at its serial line: bytes through ports of valid and ready, or, while
// `by_hand` is high, the line itself.
module serial_bench #(
    parameter int unsigned AxiDataBits = 64,
    parameter int unsigned MemoryBytes = 131072,
    parameter int unsigned ClocksPerBit = 5
) (
    input  logic       clk,
    input  logic       button,
    input  logic       by_hand,
    input  logic       line_in,
    output logic       line_out,
    input  logic       source_valid,
    output logic       source_ready,
    input  logic [7:0] source_data,
    output logic       sink_valid,
    input  logic       sink_ready,
    output logic [7:0] sink_data,
    output logic [7:0] led
);
  logic sent, wifi_gpio0;
  logic [1:0] unused;
  assign unused = {sink_ready, wifi_gpio0};

  tw_uart_tx #(
      .ClocksPerBit(ClocksPerBit)
  ) u_tx (
      .clk_i  (clk),
      .rst_i  (!button),
      .valid_i(source_valid),
      .data_i (source_data),
      .ready_o(source_ready),
      .line_o (sent)
  );
  tw_uart_rx #(
      .ClocksPerBit(ClocksPerBit)
  ) u_rx (
      .clk_i  (clk),
      .rst_i  (!button),
      .line_i (line_out),
      .valid_o(sink_valid),
      .data_o (sink_data)
  );
  ulx3s_top #(
      .AxiDataBits(AxiDataBits),
      .MemoryBytes(MemoryBytes),
      .Baud       (25_000_000 / ClocksPerBit)
  ) u_board (
      .clk_25mhz (clk),
      .ftdi_txd  (by_hand ? line_in : sent),
      .ftdi_rxd  (line_out),
      .btn       (button),
      .led       (led),
      .wifi_gpio0(wifi_gpio0)
  );
endmodule
