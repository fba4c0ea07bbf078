// SPDX-License-Identifier: Apache-2.0
// The sizes that a module's control compares with: those that it was elaborated with. A simulation
// that serves every configuration with one build replaces this module by one that asks the harness
// (sim/verilator/runtime/tw_sizes.sv); nothing else of the control differs.
module tw_sizes #(
    parameter tw_pkg::sizes_t Elaborated = '0  // of the module; those that it does not read are 0
) (
    output tw_pkg::sizes_t sizes_o
);
  assign sizes_o = Elaborated;
endmodule
