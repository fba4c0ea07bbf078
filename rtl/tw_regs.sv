// SPDX-License-Identifier: Apache-2.0
// AXI4-Lite registers: identity, control, status, addresses and counters.
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
    output logic [39:0] insn_base_o,
    output logic [31:0] insn_count_o,
    output logic [39:0] mem_base_o,
    output logic [39:0] mem_size_o,
    output logic [31:0] watchdog_o,
    output logic        snapshot_o,     // one cycle
    // status
    input  logic [ 3:0] status_i,       // busy, done, error, resetting from bit 0
    input  logic [31:0] error_i,
    input  logic [31:0] error_insn_i,
    input  logic [31:0] wait_state_i,
    input  logic [ 1:0] event_i,        // one cycle: done, error
    output logic        irq_o,          // level
    // counters, as snapshot
    output logic [$clog2(tw_pkg::NumCounters)-1:0] counter_index_o,
    input  logic [63:0] counter_i
);
  logic write, read;
  logic [31:0] mask, count_q, watchdog_q;
  logic [63:0] insn_base_q, mem_base_q, mem_size_q;
  logic [1:0] irq_enable_q, irq_status_q;
  logic bvalid_q, rvalid_q;
  logic [31:0] rdata_q, value;
  logic [11:0] counter_offset, write_word, read_word;

  // Registers are words: the two low address bits do not select anything.
  assign write_word = {awaddr_i[11:2], 2'b00};
  assign read_word  = {araddr_i[11:2], 2'b00};

  // A write is taken when address and data are both there and the response can be held.
  assign write = awvalid_i && wvalid_i && (!bvalid_q || bready_i);
  assign awready_o = write;
  assign wready_o = write;
  assign bvalid_o = bvalid_q;
  assign read = arvalid_i && (!rvalid_q || rready_i);
  assign arready_o = read;
  assign rvalid_o = rvalid_q;
  assign rdata_o = rdata_q;
  assign mask = {{8{wstrb_i[3]}}, {8{wstrb_i[2]}}, {8{wstrb_i[1]}}, {8{wstrb_i[0]}}};

  function automatic logic [31:0] merge(logic [31:0] old, logic [31:0] data, logic [31:0] bits);
    return (old & ~bits) | (data & bits);
  endfunction

  assign start_o = write && write_word == tw_pkg::RegCtrl && wdata_i[0] && wstrb_i[0];
  assign soft_reset_o = write && write_word == tw_pkg::RegCtrl && wdata_i[1] && wstrb_i[0];
  assign snapshot_o = write && write_word == tw_pkg::RegSnapshot;
  // Page-aligned fields ignore their low bits.
  assign insn_base_o = {insn_base_q[39:12], 12'd0};
  assign mem_base_o = {mem_base_q[39:12], 12'd0};
  assign mem_size_o = {mem_size_q[39:12], 12'd0};
  assign insn_count_o = count_q;
  assign watchdog_o = watchdog_q;
  assign irq_o = |(irq_status_q & irq_enable_q);

  always_ff @(posedge clk_i) begin
    if (write) begin
      unique case (write_word)
        tw_pkg::RegIrqEnable: irq_enable_q <= 2'(merge(32'(irq_enable_q), wdata_i, mask));
        tw_pkg::RegInsnBaseLo: insn_base_q[31:0] <= merge(insn_base_q[31:0], wdata_i, mask);
        tw_pkg::RegInsnBaseHi: insn_base_q[63:32] <= merge(insn_base_q[63:32], wdata_i, mask);
        tw_pkg::RegInsnCount: count_q <= merge(count_q, wdata_i, mask);
        tw_pkg::RegMemBaseLo: mem_base_q[31:0] <= merge(mem_base_q[31:0], wdata_i, mask);
        tw_pkg::RegMemBaseHi: mem_base_q[63:32] <= merge(mem_base_q[63:32], wdata_i, mask);
        tw_pkg::RegMemSizeLo: mem_size_q[31:0] <= merge(mem_size_q[31:0], wdata_i, mask);
        tw_pkg::RegMemSizeHi: mem_size_q[63:32] <= merge(mem_size_q[63:32], wdata_i, mask);
        tw_pkg::RegWatchdog: watchdog_q <= merge(watchdog_q, wdata_i, mask);
        default: ;
      endcase
    end
    irq_status_q <= (irq_status_q &
                     ~((write && write_word == tw_pkg::RegIrqStatus) ? 2'(wdata_i & mask) : 2'd0)) |
                    event_i;
    if (rst_i) begin
      irq_enable_q <= '0;
      irq_status_q <= '0;
      insn_base_q  <= '0;
      count_q      <= '0;
      mem_base_q   <= '0;
      mem_size_q   <= '0;
      watchdog_q   <= '0;
      bvalid_q     <= 1'b0;
      rvalid_q     <= 1'b0;
    end else begin
      if (write) bvalid_q <= 1'b1;
      else if (bready_i) bvalid_q <= 1'b0;
      if (read) rvalid_q <= 1'b1;
      else if (rready_i) rvalid_q <= 1'b0;
    end
    if (read) rdata_q <= value;
  end

  assign counter_offset = read_word - tw_pkg::RegCounters;
  assign counter_index_o = $clog2(tw_pkg::NumCounters)'(counter_offset >> 3);

  always_comb begin
    unique case (read_word)
      tw_pkg::RegId: value = tw_pkg::DeviceId;
      tw_pkg::RegIsa: value = tw_pkg::IsaVersion;
      tw_pkg::RegConfigHash: value = tw_geometry::config_hash(ConfigHash);
      tw_pkg::RegStatus: value = 32'(status_i);
      tw_pkg::RegError: value = error_i;
      tw_pkg::RegErrorInsn: value = error_insn_i;
      tw_pkg::RegWaitState: value = wait_state_i;
      tw_pkg::RegIrqEnable: value = 32'(irq_enable_q);
      tw_pkg::RegIrqStatus: value = 32'(irq_status_q);
      tw_pkg::RegInsnBaseLo: value = insn_base_q[31:0];
      tw_pkg::RegInsnBaseHi: value = insn_base_q[63:32];
      tw_pkg::RegInsnCount: value = count_q;
      tw_pkg::RegMemBaseLo: value = mem_base_q[31:0];
      tw_pkg::RegMemBaseHi: value = mem_base_q[63:32];
      tw_pkg::RegMemSizeLo: value = mem_size_q[31:0];
      tw_pkg::RegMemSizeHi: value = mem_size_q[63:32];
      tw_pkg::RegWatchdog: value = watchdog_q;
      default: begin
        value = '0;
        if (read_word >= tw_pkg::RegCounters && 32'(counter_offset >> 3) < tw_pkg::NumCounters)
          value = read_word[2] ? counter_i[63:32] : counter_i[31:0];
      end
    endcase
  end

  logic unused;
  assign unused = ^{awaddr_i[1:0], araddr_i[1:0], insn_base_q, mem_base_q, mem_size_q, counter_offset};
endmodule
