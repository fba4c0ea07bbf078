// SPDX-License-Identifier: Apache-2.0
// Logic cells of ECP5 as expressions, for `techmap` (behaviour: Lattice FPGA-DS-02012).

module LUT4 (output Z, input A, B, C, D);
  parameter [15:0] INIT = 0;
  \$lut #(.WIDTH(4), .LUT(INIT)) _TECHMAP_REPLACE_ (.A({D, C, B, A}), .Y(Z));
endmodule
module PFUMX (output Z, input ALUT, BLUT, C0);
  assign Z = C0 ? ALUT : BLUT;
endmodule
module L6MUX21 (output Z, input D0, D1, SD);
  assign Z = SD ? D1 : D0;
endmodule
// Two LUTs with a carry each: the LUT propagates it, its first quarter generates it.
module CCU2C (input CIN, A0, B0, C0, D0, A1, B1, C1, D1, output S0, S1, COUT);
  parameter [15:0] INIT0 = 0;
  parameter [15:0] INIT1 = 0;
  parameter INJECT1_0 = "YES";
  parameter INJECT1_1 = "YES";
  wire propagate0, propagate1, generate0, generate1, between;
  \$lut #(.WIDTH(4), .LUT(INIT0)) full0 (.A({D0, C0, B0, A0}), .Y(propagate0));
  \$lut #(.WIDTH(4), .LUT(INIT1)) full1 (.A({D1, C1, B1, A1}), .Y(propagate1));
  \$lut #(.WIDTH(2), .LUT(INIT0[3:0])) part0 (.A({B0, A0}), .Y(generate0));
  \$lut #(.WIDTH(2), .LUT(INIT1[3:0])) part1 (.A({B1, A1}), .Y(generate1));
  assign S0 = propagate0 ^ (INJECT1_0 == "YES" ? 1'b0 : CIN);
  assign between = propagate0 ? CIN : (INJECT1_0 == "YES" ? 1'b0 : generate0);
  assign S1 = propagate1 ^ (INJECT1_1 == "YES" ? 1'b0 : between);
  assign COUT = propagate1 ? between : (INJECT1_1 == "YES" ? 1'b0 : generate1);
endmodule
module TRELLIS_FF (input CLK, LSR, CE, DI, output reg Q);
  parameter GSR = "ENABLED";
  parameter CEMUX = "1";
  parameter CLKMUX = "CLK";
  parameter LSRMUX = "LSR";
  parameter SRMODE = "LSR_OVER_CE";
  parameter REGSET = "RESET";
  wire enable;
  assign enable = CEMUX == "CE" ? CE : 1'b1;
  always @(posedge CLK)
    if (LSR) Q <= REGSET == "SET";
    else if (enable) Q <= DI;
endmodule
