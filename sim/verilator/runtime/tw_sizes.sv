// SPDX-License-Identifier: Apache-2.0
// rtl/core/tw_sizes.sv for simulations that serve every configuration with one build: the sizes are
// variables, which the harness gives once, before the first cycle.
module tw_sizes #(
    parameter tw_pkg::sizes_t Elaborated = '0  // the largest of any configuration; not read
) (
    output tw_pkg::sizes_t sizes_o
);
  import "DPI-C" function int unsigned tilewright_geometry(input int unsigned index);

  tw_pkg::sizes_t given;
  initial begin
    for (int unsigned index = 0; index < $bits(tw_pkg::sizes_t) / 32; index++)
      given = {given[$bits(tw_pkg::sizes_t)-33:0], tilewright_geometry(index)};  // highest first
  end
  assign sizes_o = given;

  logic unused;
  assign unused = ^Elaborated;
endmodule
