// SPDX-License-Identifier: Apache-2.0
// Pins of a ULX3S around the shell with a serial line: the board's 25 MHz oscillator is the clock.
// constraints/ecp5/ulx3s.lpf places the pins.
module ulx3s_top #(
    parameter int unsigned AxiDataBits = 64,      // of the configuration
    parameter int unsigned MemoryBytes = 131072,  // a power of two
    parameter int unsigned Baud        = 1_000_000
) (
    input  logic       clk_25mhz,
    input  logic       ftdi_txd,    // the FT231X sends
    output logic       ftdi_rxd,    // the FT231X receives
    input  logic [0:0] btn,         // PWR, low while pressed: reset
    output logic [7:0] led,
    output logic       wifi_gpio0   // high: the ESP32 leaves the board as it is
);
  localparam int unsigned ClockHz = 25_000_000;

  // The bitstream sets zeros: four cycles of reset, and again after the button.
  logic [2:0] reset_q;
  (* ASYNC_REG = "TRUE" *) logic [1:0] button_q;
  logic link_seen, irq;
  logic [23:0] beat_q;

  initial {reset_q, button_q} = '0;
  always @(posedge clk_25mhz) begin  // always_ff shares its registers with no initial block
    button_q <= {button_q[0], btn[0]};
    if (!button_q[1]) reset_q <= '0;
    else if (!reset_q[2]) reset_q <= reset_q + 1'b1;
    beat_q <= reset_q[2] ? beat_q + 1'b1 : '0;
  end

  tw_uart_shell #(
      .AxiDataBits (AxiDataBits),
      .MemoryBytes (MemoryBytes),
      .ClockHz     (ClockHz),
      .ClocksPerBit(ClockHz / Baud)
  ) u_shell (
      .aclk     (clk_25mhz),
      .aresetn  (reset_q[2]),
      .uart_rx  (ftdi_txd),
      .uart_tx  (ftdi_rxd),
      .link_seen(link_seen),
      .irq      (irq)
  );

  assign wifi_gpio0 = 1'b1;
  // Alive, the host was heard, a run ended, the line in both directions.
  assign led = {beat_q[23], 3'd0, !ftdi_txd, !ftdi_rxd, irq, link_seen};
endmodule
