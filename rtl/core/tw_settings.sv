// SPDX-License-Identifier: Apache-2.0
// What a run works with: the registers as they are when its start is accepted, and whether they
// make sense. A write during a run is for the next one.
module tw_settings #(
    parameter int unsigned AddressBits = 40  // of the memory port, 32 to 40
) (
    input  logic        clk_i,
    input  logic        accept_i,      // a start is accepted
    input  tw_pkg::settings_t settings_i,  // registers
    // of the run
    output logic [39:0] insn_base_o,
    output logic [31:0] insn_count_o,
    output logic [39:0] mem_base_o,
    output logic [39:0] mem_size_o,
    output logic [31:0] watchdog_o,
    output logic [10:0] attributes_o,
    output logic        refuse_o       // they are wrong; valid two cycles after accept_i
);
  localparam int unsigned PageBits = 12;  // bases and sizes are whole pages of 4 KiB

  logic [39:PageBits] insn_base_q, mem_base_q, mem_size_q;
  logic [40:PageBits] mem_end;
  logic [40:5] insn_end;  // in instructions
  logic refuse_q;

  // Offsets are below MEM_SIZE, which is below 2^39: an offset plus a stride cannot wrap, and the
  // sum with MEM_BASE cannot if it does not for the last byte.
  assign mem_end  = {1'b0, mem_base_q} + {1'b0, mem_size_q};
  assign insn_end = {1'b0, insn_base_q, 7'd0} + 36'(insn_count_o);

  always_ff @(posedge clk_i) begin
    if (accept_i) begin
      insn_base_q  <= settings_i.insn_base[39:PageBits];
      insn_count_o <= settings_i.insn_count;
      mem_base_q   <= settings_i.mem_base[39:PageBits];
      mem_size_q   <= {1'b0, settings_i.mem_size[38:PageBits]};
      watchdog_o   <= settings_i.watchdog;
      attributes_o <= settings_i.attributes;
    end
    refuse_q <= mem_end > 29'(1) << (AddressBits - PageBits) || insn_end > {1'b0, mem_size_q, 7'd0};
  end

  assign insn_base_o = {insn_base_q, PageBits'(0)};
  assign mem_base_o  = {mem_base_q, PageBits'(0)};
  assign mem_size_o  = {mem_size_q, PageBits'(0)};
  assign refuse_o    = refuse_q;

  logic unused;
  assign unused = ^{settings_i.insn_base[PageBits-1:0], settings_i.mem_base[PageBits-1:0],
                    settings_i.mem_size[PageBits-1:0]};
endmodule
