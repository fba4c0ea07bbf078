// SPDX-License-Identifier: Apache-2.0
// Logic cells of the 7 series as expressions, for `techmap` (behaviour: AMD UG953).

module LUT1 (output O, input I0);
  parameter [1:0] INIT = 0;
  \$lut #(.WIDTH(1), .LUT(INIT)) _TECHMAP_REPLACE_ (.A(I0), .Y(O));
endmodule
module LUT2 (output O, input I0, I1);
  parameter [3:0] INIT = 0;
  \$lut #(.WIDTH(2), .LUT(INIT)) _TECHMAP_REPLACE_ (.A({I1, I0}), .Y(O));
endmodule
module LUT3 (output O, input I0, I1, I2);
  parameter [7:0] INIT = 0;
  \$lut #(.WIDTH(3), .LUT(INIT)) _TECHMAP_REPLACE_ (.A({I2, I1, I0}), .Y(O));
endmodule
module LUT4 (output O, input I0, I1, I2, I3);
  parameter [15:0] INIT = 0;
  \$lut #(.WIDTH(4), .LUT(INIT)) _TECHMAP_REPLACE_ (.A({I3, I2, I1, I0}), .Y(O));
endmodule
module LUT5 (output O, input I0, I1, I2, I3, I4);
  parameter [31:0] INIT = 0;
  \$lut #(.WIDTH(5), .LUT(INIT)) _TECHMAP_REPLACE_ (.A({I4, I3, I2, I1, I0}), .Y(O));
endmodule
module LUT6 (output O, input I0, I1, I2, I3, I4, I5);
  parameter [63:0] INIT = 0;
  \$lut #(.WIDTH(6), .LUT(INIT)) _TECHMAP_REPLACE_ (.A({I5, I4, I3, I2, I1, I0}), .Y(O));
endmodule
module INV (output O, input I);
  assign O = ~I;
endmodule
module BUFG (output O, input I);
  assign O = I;
endmodule
module MUXF7 (output O, input I0, I1, S);
  assign O = S ? I1 : I0;
endmodule
module MUXF8 (output O, input I0, I1, S);
  assign O = S ? I1 : I0;
endmodule
module CARRY4 (output [3:0] CO, O, input CI, CYINIT, input [3:0] DI, S);
  // Bit by bit: a vector that feeds itself is a loop for a simulator.
  wire into;
  assign into = CI | CYINIT;
  assign O = S ^ {CO[2], CO[1], CO[0], into};
  assign CO[0] = S[0] ? into : DI[0];
  assign CO[1] = S[1] ? CO[0] : DI[1];
  assign CO[2] = S[2] ? CO[1] : DI[2];
  assign CO[3] = S[3] ? CO[2] : DI[3];
endmodule
module FDRE (output reg Q, input C, CE, D, R);
  parameter INIT = 0;
  always @(posedge C)
    if (R) Q <= 0;
    else if (CE) Q <= D;
endmodule
module FDSE (output reg Q, input C, CE, D, S);
  parameter INIT = 0;
  always @(posedge C)
    if (S) Q <= 1;
    else if (CE) Q <= D;
endmodule
module SRL16E (output Q, input A0, A1, A2, A3, CE, CLK, D);
  parameter [15:0] INIT = 0;
  parameter IS_CLK_INVERTED = 0;
  reg [15:0] line;
  always @(posedge CLK) if (CE) line <= {line[14:0], D};
  assign Q = line[{A3, A2, A1, A0}];
endmodule
module SRLC32E (output Q, Q31, input [4:0] A, input CE, CLK, D);
  parameter [31:0] INIT = 0;
  parameter IS_CLK_INVERTED = 0;
  reg [31:0] line;
  always @(posedge CLK) if (CE) line <= {line[30:0], D};
  assign Q = line[A];
  assign Q31 = line[31];
endmodule
