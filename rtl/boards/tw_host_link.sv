// SPDX-License-Identifier: Apache-2.0
// Frames of bytes from a host to accesses of 32-bit words.
//
// A request is an operation ('W' or 'R'), a byte address of four bytes, the number of words less
// one, and for 'W' the words. The answer is the words of an 'R', a status byte (0: done, 1: an access
// was refused) and the CRC-16 (polynomial 0x1021, from 0xFFFF) of request and answer. Numbers begin
// with their lowest byte. Bytes that begin no request are skipped, so that a frame's length of
// zeros brings both sides together again. host/runtime/uart_link.py is the other side.
module tw_host_link (
    input  logic        clk_i,
    input  logic        rst_i,
    // bytes of the host
    input  logic        rx_valid_i,
    input  logic [ 7:0] rx_data_i,
    output logic        rx_ready_o,
    output logic        tx_valid_o,
    output logic [ 7:0] tx_data_o,
    input  logic        tx_ready_i,
    // accesses: held until done
    output logic        valid_o,
    output logic        write_o,
    output logic [31:0] addr_o,
    output logic [31:0] wdata_o,
    input  logic        done_i,   // one cycle
    input  logic        error_i,  // with done_i
    input  logic [31:0] rdata_i   // with done_i
);
  localparam logic [7:0] OpWrite = "W";
  localparam logic [7:0] OpRead = "R";

  typedef enum logic [3:0] {
    Idle,    // skips what begins no request
    Address,
    Count,
    Data,    // takes a word of the host
    Access,  // waits for an access
    Words,   // sends a word that was read
    Status,
    CrcLow,
    CrcHigh
  } state_e;

  function automatic logic [15:0] crc_of(logic [15:0] crc, logic [7:0] data);
    crc_of = crc ^ {data, 8'd0};
    for (int unsigned b = 0; b < 8; b++)
      crc_of = {crc_of[14:0], 1'b0} ^ (crc_of[15] ? 16'h1021 : 16'h0000);
  endfunction

  state_e state_q;
  logic [1:0] byte_q;
  logic [7:0] left_q;
  logic [31:0] word_q;
  logic error_q, take, give;
  logic [15:0] crc_q;

  assign rx_ready_o = state_q inside {Idle, Address, Count, Data};
  assign tx_valid_o = state_q inside {Words, Status, CrcLow, CrcHigh};
  assign take = rx_ready_o && rx_valid_i;
  assign give = tx_valid_o && tx_ready_i;
  assign valid_o = state_q == Access;
  assign wdata_o = word_q;

  always_comb begin
    unique case (state_q)
      Words:   tx_data_o = word_q[7:0];
      Status:  tx_data_o = {7'd0, error_q};
      CrcLow:  tx_data_o = crc_q[7:0];
      default: tx_data_o = crc_q[15:8];
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (take) crc_q <= crc_of(state_q == Idle ? 16'hFFFF : crc_q, rx_data_i);
    if (give && state_q inside {Words, Status}) crc_q <= crc_of(crc_q, tx_data_o);
    if (take || give) byte_q <= byte_q + 1'b1;
    unique case (state_q)
      Idle:
      if (take) begin
        byte_q  <= '0;
        write_o <= rx_data_i == OpWrite;
        error_q <= 1'b0;
        if (rx_data_i inside {OpWrite, OpRead}) state_q <= Address;
      end
      Address:
      if (take) begin
        addr_o <= {rx_data_i, addr_o[31:8]};
        if (byte_q == 2'd3) state_q <= Count;
      end
      Count:
      if (take) begin
        left_q  <= rx_data_i;
        byte_q  <= '0;
        state_q <= write_o ? Data : Access;
      end
      Data:
      if (take) begin
        word_q <= {rx_data_i, word_q[31:8]};
        if (byte_q == 2'd3) state_q <= Access;
      end
      Access:
      if (done_i) begin
        byte_q  <= '0;
        error_q <= error_q || error_i;
        if (write_o) begin
          addr_o  <= addr_o + 32'd4;
          left_q  <= left_q - 1'b1;
          state_q <= left_q == '0 ? Status : Data;
        end else begin
          word_q  <= rdata_i;
          state_q <= Words;
        end
      end
      Words:
      if (give) begin
        word_q <= {8'd0, word_q[31:8]};
        if (byte_q == 2'd3) begin
          addr_o  <= addr_o + 32'd4;
          left_q  <= left_q - 1'b1;
          state_q <= left_q == '0 ? Status : Access;
        end
      end
      Status:  if (give) state_q <= CrcLow;
      CrcLow:  if (give) state_q <= CrcHigh;
      CrcHigh: if (give) state_q <= Idle;
      default: state_q <= Idle;
    endcase
    if (rst_i) state_q <= Idle;
  end
endmodule
