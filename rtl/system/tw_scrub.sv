// SPDX-License-Identifier: Apache-2.0
// Memory of the program that zeroes the scratchpads of a core: its instructions, and zeros.
//
// It stands in for the DRAM while the program runs, so that no host and no tenant can change what
// a scrub does, and a scrub takes no bandwidth. One burst after another, a beat a cycle.
module tw_scrub #(
    parameter int unsigned  BeatBytes = 8,        // bytes of an AXI beat
    parameter int unsigned  Instructions = 8,     // that there is room for, a power of two
    parameter logic [39:0]  InsnBase  = 40'd4096, // of the program; zeros are elsewhere
    parameter logic [Instructions*256-1:0] Program = '0
) (
    input  logic                   clk_i,
    input  logic                   rst_i,
    input  logic [           39:0] araddr_i,
    input  logic [            7:0] arlen_i,
    input  logic                   arvalid_i,
    output logic                   arready_o,
    output logic [BeatBytes*8-1:0] rdata_o,
    output logic                   rlast_o,
    output logic                   rvalid_o
);
  localparam int unsigned BeatShift = $clog2(BeatBytes);
  localparam int unsigned Bytes = Instructions * 32;  // of the program
  localparam int unsigned Beats = Bytes / BeatBytes;

  logic busy_q, program_q;
  logic [$clog2(Beats)-1:0] beat_q;
  logic [7:0] left_q;

  assign arready_o = !busy_q;
  assign rvalid_o  = busy_q;
  assign rlast_o   = left_q == '0;
  assign rdata_o   = program_q ? Program[32'(beat_q)*BeatBytes*8+:BeatBytes*8] : '0;

  always_ff @(posedge clk_i) begin
    if (!busy_q) begin
      program_q <= araddr_i >= InsnBase;
      beat_q    <= araddr_i[$clog2(Bytes)-1:BeatShift];
      left_q    <= arlen_i;
    end else begin
      beat_q <= beat_q + 1'b1;
      left_q <= left_q - 1'b1;
    end
    if (rst_i) busy_q <= 1'b0;
    else busy_q <= busy_q ? !rlast_o : arvalid_i;
  end

  logic unused;
  assign unused = ^araddr_i[BeatShift-1:0];
endmodule
