// SPDX-License-Identifier: Apache-2.0
// AXI4-Lite registers: identity, control, status, addresses and counters.
//
// No input reaches an output or another register within a cycle: a channel is ready while no response
// waits. Address and data of a write are taken into registers; it is done when both are there, and
// answered in the next cycle.
module tw_regs #(
    parameter logic [31:0] ConfigHash = 32'd0  // what the CONFIG_HASH register reads
) (
    input  logic        clk_i,
    input  logic        rst_i,
    // AXI4-Lite
    input  logic [11:0] awaddr_i,
    input  logic        awvalid_i,
    output logic        awready_o,
    input  logic [31:0] wdata_i,
    input  logic [ 3:0] wstrb_i,
    input  logic        wvalid_i,
    output logic        wready_o,
    output logic        bvalid_o,
    input  logic        bready_i,
    input  logic [11:0] araddr_i,
    input  logic        arvalid_i,
    output logic        arready_o,
    output logic [31:0] rdata_o,
    output logic        rvalid_o,
    input  logic        rready_i,
    // control
    output logic        start_o,        // one cycle
    output logic        soft_reset_o,   // one cycle
    output tw_pkg::settings_t settings_o,
    output logic        snapshot_o,     // one cycle
    // status
    input  tw_pkg::status_t status_i,
    input  logic [ 1:0] event_i,        // one cycle: done, error
    output logic        irq_o,          // level, one cycle after its cause
    // counters, as snapshot
    output logic [$clog2(tw_pkg::NumCounters)-1:0] counter_index_o,
    input  logic [63:0] counter_i
);
  localparam int unsigned PageBits = 12;  // of 4 KiB

  localparam tw_pkg::sizes_t Elaborated = '{config_hash: ConfigHash, default: '0};
  tw_pkg::sizes_t sizes;
  tw_sizes #(
      .Elaborated(Elaborated)
  ) u_sizes (
      .sizes_o(sizes)
  );

  logic write, read;
  logic [31:0] wdata_q, count_q, watchdog_q;
  logic [3:0] wstrb_q;
  logic [39:0] insn_base_q, mem_base_q;
  logic [38:0] mem_size_q;
  logic [3:0] cache_q, qos_q;
  logic [2:0] prot_q;
  logic [1:0] irq_enable_q, irq_status_q;
  logic irq_q, awheld_q, wheld_q, bvalid_q, rvalid_q;
  logic [31:0] rdata_q, value;
  logic [11:2] awaddr_q;  // registers are words
  logic [11:0] counter_offset, write_word, read_word;

  assign awready_o = !awheld_q && !bvalid_q;
  assign wready_o = !wheld_q && !bvalid_q;
  assign arready_o = !rvalid_q;
  assign bvalid_o = bvalid_q;
  assign rvalid_o = rvalid_q;
  assign rdata_o = rdata_q;
  assign write_word = {awaddr_q, 2'b00};
  assign write = awheld_q && wheld_q;
  assign read_word = {araddr_i[11:2], 2'b00};
  assign read = arvalid_i && !rvalid_q;

  assign start_o = write && write_word == tw_pkg::RegCtrl && wdata_q[0] && wstrb_q[0];
  assign soft_reset_o = write && write_word == tw_pkg::RegCtrl && wdata_q[1] && wstrb_q[0];
  assign snapshot_o = write && write_word == tw_pkg::RegSnapshot;
  assign settings_o = '{
      insn_base: insn_base_q,
      insn_count: count_q,
      mem_base: mem_base_q,
      mem_size: mem_size_q,
      watchdog: watchdog_q,
      attributes: {qos_q, prot_q, cache_q}
  };
  assign irq_o = irq_q;

  always_ff @(posedge clk_i) begin
    if (awready_o) awaddr_q <= awaddr_i[11:2];
    if (wready_o) {wstrb_q, wdata_q} <= {wstrb_i, wdata_i};
    for (int unsigned b = 0; b < 4; b++) begin
      if (write && wstrb_q[b]) begin
        unique case (write_word)
          tw_pkg::RegIrqEnable: if (b == 0) irq_enable_q <= wdata_q[1:0];
          tw_pkg::RegInsnBaseLo: insn_base_q[b*8+:8] <= wdata_q[b*8+:8];
          tw_pkg::RegInsnBaseHi: if (b == 0) insn_base_q[39:32] <= wdata_q[7:0];
          tw_pkg::RegInsnCount: count_q[b*8+:8] <= wdata_q[b*8+:8];
          tw_pkg::RegMemBaseLo: mem_base_q[b*8+:8] <= wdata_q[b*8+:8];
          tw_pkg::RegMemBaseHi: if (b == 0) mem_base_q[39:32] <= wdata_q[7:0];
          tw_pkg::RegMemSizeLo: mem_size_q[b*8+:8] <= wdata_q[b*8+:8];
          tw_pkg::RegMemSizeHi: if (b == 0) mem_size_q[38:32] <= wdata_q[6:0];
          tw_pkg::RegWatchdog: watchdog_q[b*8+:8] <= wdata_q[b*8+:8];
          tw_pkg::RegAxiAttributes: begin
            if (b == 0) {prot_q, cache_q} <= wdata_q[6:0];
            if (b == 1) qos_q <= wdata_q[11:8];
          end
          default: ;
        endcase
      end
    end
    // Bases and sizes are whole pages.
    insn_base_q[PageBits-1:0] <= '0;
    mem_base_q[PageBits-1:0]  <= '0;
    mem_size_q[PageBits-1:0]  <= '0;
    // An event in the cycle of its own acknowledgement stays.
    irq_status_q <= (irq_status_q &
                     ~((write && write_word == tw_pkg::RegIrqStatus) ? wdata_q[1:0] & {2{wstrb_q[0]}} : 2'd0)) |
                    event_i;
    irq_q <= |(irq_status_q & irq_enable_q);
    if (read) rdata_q <= value;
    if (rst_i) begin
      irq_enable_q <= '0;
      irq_status_q <= '0;
      irq_q        <= 1'b0;
      insn_base_q  <= '0;
      count_q      <= '0;
      mem_base_q   <= '0;
      mem_size_q   <= '0;
      watchdog_q   <= '0;
      {qos_q, prot_q, cache_q} <= {tw_pkg::AxiAttributesReset[11:8], tw_pkg::AxiAttributesReset[6:0]};
      awheld_q     <= 1'b0;
      wheld_q      <= 1'b0;
      bvalid_q     <= 1'b0;
      rvalid_q     <= 1'b0;
    end else begin
      awheld_q <= (awheld_q || (awvalid_i && awready_o)) && !write;
      wheld_q  <= (wheld_q || (wvalid_i && wready_o)) && !write;
      bvalid_q <= bvalid_q ? !bready_i : write;
      rvalid_q <= rvalid_q ? !rready_i : read;
    end
  end

  assign counter_offset = read_word - tw_pkg::RegCounters;
  assign counter_index_o = $clog2(tw_pkg::NumCounters)'(counter_offset >> 3);

  always_comb begin
    unique case (read_word)
      tw_pkg::RegId: value = tw_pkg::DeviceId;
      tw_pkg::RegIsa: value = tw_pkg::IsaVersion;
      tw_pkg::RegConfigHash: value = sizes.config_hash;
      tw_pkg::RegStatus: value = {
        28'd0, status_i.resetting, status_i.failed, status_i.done, status_i.busy
      };
      tw_pkg::RegError: value = {20'd0, status_i.error_unit, status_i.error};
      tw_pkg::RegErrorInsn: value = status_i.error_index;
      tw_pkg::RegWaitState: value = {16'd0, status_i.waits};
      tw_pkg::RegIrqEnable: value = 32'(irq_enable_q);
      tw_pkg::RegIrqStatus: value = 32'(irq_status_q);
      tw_pkg::RegInsnBaseLo: value = insn_base_q[31:0];
      tw_pkg::RegInsnBaseHi: value = 32'(insn_base_q[39:32]);
      tw_pkg::RegInsnCount: value = count_q;
      tw_pkg::RegMemBaseLo: value = mem_base_q[31:0];
      tw_pkg::RegMemBaseHi: value = 32'(mem_base_q[39:32]);
      tw_pkg::RegMemSizeLo: value = mem_size_q[31:0];
      tw_pkg::RegMemSizeHi: value = 32'(mem_size_q[38:32]);
      tw_pkg::RegWatchdog: value = watchdog_q;
      tw_pkg::RegAxiAttributes: value = 32'({qos_q, 1'b0, prot_q, cache_q});
      default: begin
        value = '0;
        if (read_word >= tw_pkg::RegCounters && 32'(counter_offset >> 3) < tw_pkg::NumCounters)
          value = read_word[2] ? counter_i[63:32] : counter_i[31:0];
      end
    endcase
  end

  logic unused;
  assign unused = ^{awaddr_i[1:0], araddr_i[1:0], counter_offset};
endmodule
