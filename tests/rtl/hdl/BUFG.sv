// SPDX-License-Identifier: Apache-2.0
// A clock buffer of the Zynq.
module BUFG (
    input  logic I,
    output logic O
);
  assign O = I;
endmodule
