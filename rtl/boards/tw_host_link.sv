// SPDX-License-Identifier: Apache-2.0
// Frames of bytes from a host to accesses of 32-bit words.
//
// A request is an operation ('W' or 'R'), a byte address of four bytes, the number of words less
// one, for 'W' the words, and the CRC-16 (polynomial 0x1021, from 0xFFFF) of all that. The answer is
// the words of an 'R', a status byte (0: done, 1: an access was refused) and the CRC-16 of request
// and answer, without that in the request. A request whose CRC is wrong does nothing: its answer is
// status 2, without words. Numbers begin with their lowest byte. Bytes that begin no request are
// skipped, so that a frame's length of zeros brings both sides together again.
// host/runtime/shell_link.py is the other side.
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
    Data,    // takes the words of the host
    CheckLow,
    CheckHigh,
    Fetch,   // of a word that was taken
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
  logic [7:0] last_q, index_q;  // words
  logic [31:0] word_q, word;
  logic error_q, damaged_q, take, give, last;
  logic [15:0] crc_q;
  logic [31:0] words[256];  // of the host, until their CRC is known

  assign rx_ready_o = state_q inside {Idle, Address, Count, Data, CheckLow, CheckHigh};
  assign tx_valid_o = state_q inside {Words, Status, CrcLow, CrcHigh};
  assign take = rx_ready_o && rx_valid_i;
  assign give = tx_valid_o && tx_ready_i;
  assign valid_o = state_q == Access;
  assign wdata_o = word_q;
  assign last = index_q == last_q;
  assign word = {rx_data_i, word_q[31:8]};

  always_comb begin
    unique case (state_q)
      Words:   tx_data_o = word_q[7:0];
      Status:  tx_data_o = {6'd0, damaged_q, error_q};
      CrcLow:  tx_data_o = crc_q[7:0];
      default: tx_data_o = crc_q[15:8];
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (take && state_q inside {Idle, Address, Count, Data})
      crc_q <= crc_of(state_q == Idle ? 16'hFFFF : crc_q, rx_data_i);
    if (give && state_q inside {Words, Status}) crc_q <= crc_of(crc_q, tx_data_o);
    if (take || give) byte_q <= byte_q + 1'b1;
    unique case (state_q)
      Idle:
      if (take) begin
        byte_q    <= '0;
        index_q   <= '0;
        write_o   <= rx_data_i == OpWrite;
        error_q   <= 1'b0;
        damaged_q <= 1'b0;
        if (rx_data_i inside {OpWrite, OpRead}) state_q <= Address;
      end
      Address:
      if (take) begin
        addr_o <= {rx_data_i, addr_o[31:8]};
        if (byte_q == 2'd3) state_q <= Count;
      end
      Count:
      if (take) begin
        last_q  <= rx_data_i;
        byte_q  <= '0;
        state_q <= write_o ? Data : CheckLow;
      end
      Data:
      if (take) begin
        word_q <= word;
        if (byte_q == 2'd3) begin
          index_q <= last ? '0 : index_q + 1'b1;
          if (last) state_q <= CheckLow;
        end
      end
      CheckLow:
      if (take) begin
        damaged_q <= rx_data_i != crc_q[7:0];
        state_q   <= CheckHigh;
      end
      CheckHigh:
      if (take) begin
        byte_q    <= '0;
        damaged_q <= damaged_q || rx_data_i != crc_q[15:8];
        if (damaged_q || rx_data_i != crc_q[15:8]) state_q <= Status;
        else state_q <= write_o ? Fetch : Access;
      end
      Fetch: begin
        word_q  <= words[index_q];
        state_q <= Access;
      end
      Access:
      if (done_i) begin
        error_q <= error_q || error_i;
        if (write_o) begin
          addr_o  <= addr_o + 32'd4;
          index_q <= index_q + 1'b1;
          state_q <= last ? Status : Fetch;
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
          index_q <= index_q + 1'b1;
          state_q <= last ? Status : Access;
        end
      end
      Status:  if (give) state_q <= CrcLow;
      CrcLow:  if (give) state_q <= CrcHigh;
      CrcHigh: if (give) state_q <= Idle;
      default: state_q <= Idle;
    endcase
    if (rst_i) state_q <= Idle;
  end

  always_ff @(posedge clk_i) if (take && state_q == Data && byte_q == 2'd3) words[index_q] <= word;
endmodule
