// SPDX-License-Identifier: Apache-2.0
// From the AXI3 port of a Zynq's processors to AXI4-Lite: a burst becomes an access a beat, one read
// and one write at a time. Bursts of a processor increment by words.
module tw_axi3_lite (
    input  logic        clk_i,
    input  logic        rst_i,
    // AXI3 of the processors
    input  logic [11:0] s_awid_i,
    input  logic [11:0] s_awaddr_i,
    input  logic        s_awvalid_i,
    output logic        s_awready_o,
    input  logic [31:0] s_wdata_i,
    input  logic [ 3:0] s_wstrb_i,
    input  logic        s_wlast_i,
    input  logic        s_wvalid_i,
    output logic        s_wready_o,
    output logic [11:0] s_bid_o,
    output logic [ 1:0] s_bresp_o,
    output logic        s_bvalid_o,
    input  logic        s_bready_i,
    input  logic [11:0] s_arid_i,
    input  logic [11:0] s_araddr_i,
    input  logic [ 3:0] s_arlen_i,
    input  logic        s_arvalid_i,
    output logic        s_arready_o,
    output logic [11:0] s_rid_o,
    output logic [31:0] s_rdata_o,
    output logic [ 1:0] s_rresp_o,
    output logic        s_rlast_o,
    output logic        s_rvalid_o,
    input  logic        s_rready_i,
    // AXI4-Lite
    output logic [11:0] awaddr_o,
    output logic        awvalid_o,
    input  logic        awready_i,
    output logic [31:0] wdata_o,
    output logic [ 3:0] wstrb_o,
    output logic        wvalid_o,
    input  logic        wready_i,
    input  logic [ 1:0] bresp_i,
    input  logic        bvalid_i,
    output logic        bready_o,
    output logic [11:0] araddr_o,
    output logic        arvalid_o,
    input  logic        arready_i,
    input  logic [31:0] rdata_i,
    input  logic [ 1:0] rresp_i,
    input  logic        rvalid_i,
    output logic        rready_o
);
  // ---- writes
  typedef enum logic [1:0] {
    WriteIdle,
    WriteBeat,    // takes a beat of the burst
    WriteAccess,  // waits for the response of its access
    WriteAnswer
  } write_e;
  write_e write_q;
  logic last_q;

  assign s_awready_o = write_q == WriteIdle;
  assign s_wready_o  = write_q == WriteBeat;
  assign bready_o    = write_q == WriteAccess;
  assign s_bvalid_o  = write_q == WriteAnswer;

  always_ff @(posedge clk_i) begin
    if (awready_i) awvalid_o <= 1'b0;
    if (wready_i) wvalid_o <= 1'b0;
    unique case (write_q)
      WriteIdle:
      if (s_awvalid_i) begin
        {s_bid_o, awaddr_o, s_bresp_o} <= {s_awid_i, s_awaddr_i, 2'b00};
        write_q <= WriteBeat;
      end
      WriteBeat:
      if (s_wvalid_i) begin
        {wdata_o, wstrb_o, last_q} <= {s_wdata_i, s_wstrb_i, s_wlast_i};
        {awvalid_o, wvalid_o} <= '1;
        write_q <= WriteAccess;
      end
      WriteAccess:
      if (bvalid_i) begin
        s_bresp_o <= s_bresp_o | bresp_i;
        awaddr_o  <= awaddr_o + 12'd4;
        write_q   <= last_q ? WriteAnswer : WriteBeat;
      end
      WriteAnswer: if (s_bready_i) write_q <= WriteIdle;
      default: write_q <= WriteIdle;
    endcase
    if (rst_i) begin
      write_q <= WriteIdle;
      {awvalid_o, wvalid_o} <= '0;
    end
  end

  // ---- reads
  typedef enum logic [1:0] {
    ReadIdle,
    ReadAccess,  // waits for a word
    ReadBeat     // gives it
  } read_e;
  read_e read_q;
  logic [3:0] left_q;

  assign s_arready_o = read_q == ReadIdle;
  assign rready_o    = read_q == ReadAccess;
  assign s_rvalid_o  = read_q == ReadBeat;
  assign s_rlast_o   = left_q == '0;

  always_ff @(posedge clk_i) begin
    if (arready_i) arvalid_o <= 1'b0;
    unique case (read_q)
      ReadIdle:
      if (s_arvalid_i) begin
        {s_rid_o, araddr_o, left_q} <= {s_arid_i, s_araddr_i, s_arlen_i};
        arvalid_o <= 1'b1;
        read_q <= ReadAccess;
      end
      ReadAccess:
      if (rvalid_i) begin
        {s_rdata_o, s_rresp_o} <= {rdata_i, rresp_i};
        read_q <= ReadBeat;
      end
      ReadBeat:
      if (s_rready_i) begin
        left_q    <= left_q - 1'b1;
        araddr_o  <= araddr_o + 12'd4;
        arvalid_o <= !s_rlast_o;
        read_q    <= s_rlast_o ? ReadIdle : ReadAccess;
      end
      default: read_q <= ReadIdle;
    endcase
    if (rst_i) begin
      read_q <= ReadIdle;
      arvalid_o <= 1'b0;
    end
  end
endmodule
