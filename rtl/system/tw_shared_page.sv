// SPDX-License-Identifier: Apache-2.0
// The page that cores share: who they are, a start for several at once, the time, and each one's
// share of its memory port.
//
// Registers are written as whole words. A read of a LO register keeps what belongs above it in
// TIME_HI or in the HI register beside it, so that both words are of one moment.
module tw_shared_page #(
    parameter int unsigned Cores            = 2,    // 1 to 8
    parameter int unsigned Ports            = 1,    // memory ports
    parameter int unsigned QueueDepth       = 8,    // descriptors
    parameter logic [31:0] ConfigHash       = '0,   // SystemConfig.config_hash
    parameter logic [Cores-1:0][31:0] Hashes       = '0,  // HwConfig.config_hash of each core
    parameter logic [Cores-1:0][ 3:0] PortOf       = '0,  // memory port of each core
    // after a reset
    parameter logic [15:0] Window           = 16'd1024,
    parameter logic [ 7:0] PortReads        = 8'd16,
    parameter logic [ 7:0] PortWrites       = 8'd16,
    parameter logic [Cores-1:0][ 3:0] Weights      = '1,
    parameter logic [Cores-1:0][15:0] ReadBudgets  = '0,
    parameter logic [Cores-1:0][15:0] WriteBudgets = '0,
    parameter logic [47:0] CountsFrom       = '0  // time and counters; else only in tests
) (
    input  logic                   clk_i,
    input  logic                   rst_i,
    // page
    input  logic                   write_i,
    input  logic [           11:0] write_addr_i,
    input  logic [           31:0] write_data_i,
    input  logic                   read_i,
    input  logic [           11:0] read_addr_i,
    output logic [           31:0] read_data_o,      // in the next cycle
    // cores
    output logic [Cores-1:0]       start_o,          // one cycle
    output logic [Cores-1:0]       enable_o,         // of queues
    input  logic [Cores-1:0]       irq_i,
    output logic                   irq_o,
    output logic [           47:0] now_o,            // cycles since the reset
    // memory ports
    output logic                   refill_o,         // one cycle: a window begins
    output logic [            7:0] read_limit_o,
    output logic [            7:0] write_limit_o,
    output logic [Cores-1:0][ 3:0] weight_o,
    output logic [Cores-1:0][15:0] read_budget_o,
    output logic [Cores-1:0][15:0] write_budget_o,
    // what happens to each core in this cycle
    input  logic [Cores-1:0]       read_grant_i,
    input  logic [Cores-1:0][ 7:0] read_len_i,       // beats minus 1
    input  logic [Cores-1:0]       read_waited_i,
    input  logic [Cores-1:0]       read_throttled_i,
    input  logic [Cores-1:0]       write_grant_i,
    input  logic [Cores-1:0][ 7:0] write_len_i,
    input  logic [Cores-1:0]       write_waited_i,
    input  logic [Cores-1:0]       write_throttled_i
);
  localparam int unsigned Counters = tw_system_pkg::NumShareCounters;
  localparam int unsigned CountBits = 48;

  logic [31:0] rdata_q, value;
  logic [CountBits-33:0] high_q, high;
  logic keeps_high;
  logic [47:0] now_q;
  logic [15:0] window_q, elapsed_q;
  logic [7:0] read_limit_q, write_limit_q;
  logic [Cores-1:0] enable_q, start_q;
  logic refill_q, irq_q;
  logic [Cores-1:0][3:0] weight_q;
  logic [Cores-1:0][15:0] read_budget_q, write_budget_q;
  logic [Cores-1:0][Counters-1:0][CountBits-1:0] counts;
  logic [11:0] share, entry;
  logic [2:0] share_core, entry_core, written_core;
  logic [5:0] written_offset;
  logic [11:0] written;

  assign start_o        = start_q;
  assign enable_o       = enable_q;
  assign irq_o          = irq_q;
  assign now_o          = now_q;
  assign refill_o       = refill_q;
  assign read_limit_o   = read_limit_q;
  assign write_limit_o  = write_limit_q;
  assign weight_o       = weight_q;
  assign read_budget_o  = read_budget_q;
  assign write_budget_o = write_budget_q;
  assign read_data_o    = rdata_q;

  // ---------------------------------------------------------------------------------------
  // Counters. What happened in a cycle is counted in the next.
  for (genvar c = 0; c < int'(Cores); c++) begin : gen_core
    logic [Counters-1:0][8:0] step_q;
    logic [Counters-1:0][CountBits-1:0] count_q;
    always_ff @(posedge clk_i) begin
      step_q[tw_system_pkg::CntReadBeats]      <= read_grant_i[c] ? {1'b0, read_len_i[c]} + 9'd1 : '0;
      step_q[tw_system_pkg::CntReadWaited]     <= 9'(read_waited_i[c]);
      step_q[tw_system_pkg::CntReadThrottled]  <= 9'(read_throttled_i[c]);
      step_q[tw_system_pkg::CntWriteBeats]     <= write_grant_i[c] ? {1'b0, write_len_i[c]} + 9'd1 : '0;
      step_q[tw_system_pkg::CntWriteWaited]    <= 9'(write_waited_i[c]);
      step_q[tw_system_pkg::CntWriteThrottled] <= 9'(write_throttled_i[c]);
      for (int unsigned n = 0; n < Counters; n++) begin
        if (rst_i) count_q[n] <= CountsFrom;
        else if (step_q[n] != '0) count_q[n] <= count_q[n] + CountBits'(step_q[n]);
      end
      if (rst_i) step_q <= '0;
    end
    assign counts[c] = count_q;
  end

  // ---------------------------------------------------------------------------------------
  // Registers
  assign written        = write_addr_i - tw_system_pkg::ShareBase;
  assign written_core   = written[8:6];
  assign written_offset = written[5:0];

  always_ff @(posedge clk_i) begin
    start_q <= '0;
    if (write_i) begin
      unique case (write_addr_i)
        tw_system_pkg::RegStart: start_q <= write_data_i[Cores-1:0];
        tw_system_pkg::RegQueueEnable: enable_q <= write_data_i[Cores-1:0];
        tw_system_pkg::RegWindow: if (write_data_i[15:0] != '0) window_q <= write_data_i[15:0];
        tw_system_pkg::RegPortLimits: {write_limit_q, read_limit_q} <= write_data_i[15:0];
        default: ;
      endcase
    end
    for (int unsigned c = 0; c < Cores; c++) begin
      if (write_i && written < 12'(Cores * tw_system_pkg::ShareStep) && written_core == 3'(c)) begin
        unique case (12'(written_offset))
          tw_system_pkg::ShareWeight: weight_q[c] <= write_data_i[3:0];
          tw_system_pkg::ShareReadBudget: read_budget_q[c] <= write_data_i[15:0];
          tw_system_pkg::ShareWriteBudget: write_budget_q[c] <= write_data_i[15:0];
          default: ;
        endcase
      end
    end
    now_q     <= now_q + 1'b1;
    refill_q  <= elapsed_q == '0;
    elapsed_q <= elapsed_q + 1'b1 >= window_q ? '0 : elapsed_q + 1'b1;
    irq_q     <= irq_i != '0;
    if (read_i) begin
      rdata_q <= value;
      if (keeps_high) high_q <= high;
    end
    if (rst_i) begin
      start_q        <= '0;
      enable_q       <= '0;
      window_q       <= Window;
      elapsed_q      <= '0;
      refill_q       <= 1'b0;
      read_limit_q   <= PortReads;
      write_limit_q  <= PortWrites;
      weight_q       <= Weights;
      read_budget_q  <= ReadBudgets;
      write_budget_q <= WriteBudgets;
      now_q          <= CountsFrom;
      irq_q          <= 1'b0;
    end
  end

  // ---------------------------------------------------------------------------------------
  // Reads
  logic [2:0] counter;
  assign entry      = read_addr_i - tw_system_pkg::CoreTable;
  assign entry_core = entry[6:4];
  assign share      = read_addr_i - tw_system_pkg::ShareBase;
  assign share_core = share[8:6];
  assign counter    = 3'((share[5:0] - 6'(tw_system_pkg::ShareCounters)) >> 3);

  always_comb begin
    value = '0;
    high = now_q[47:32];
    keeps_high = read_addr_i == tw_system_pkg::RegTimeLo;
    unique case (read_addr_i)
      tw_system_pkg::RegId: value = tw_system_pkg::SystemId;
      tw_system_pkg::RegVersion: value = tw_system_pkg::SystemVersion;
      tw_system_pkg::RegConfigHash: value = ConfigHash;
      tw_system_pkg::RegShape: value = {8'd0, 8'(QueueDepth), 8'(Ports), 8'(Cores)};
      tw_system_pkg::RegQueueEnable: value = 32'(enable_q);
      tw_system_pkg::RegIrqPending: value = 32'(irq_i);
      tw_system_pkg::RegTimeLo: value = now_q[31:0];
      tw_system_pkg::RegTimeHi: value = 32'(high_q);
      tw_system_pkg::RegWindow: value = 32'(window_q);
      tw_system_pkg::RegPortLimits: value = {16'd0, write_limit_q, read_limit_q};
      default: ;
    endcase
    for (int unsigned c = 0; c < Cores; c++) begin
      if (entry < 12'(Cores * tw_system_pkg::CoreTableStep) && entry_core == 3'(c)) begin
        if (12'(entry[3:0]) == tw_system_pkg::CoreHash) value = Hashes[c];
        if (12'(entry[3:0]) == tw_system_pkg::CorePort) value = 32'(PortOf[c]);
      end
      if (share < 12'(Cores * tw_system_pkg::ShareStep) && share_core == 3'(c)) begin
        unique case (12'(share[5:0]))
          tw_system_pkg::ShareWeight: value = 32'(weight_q[c]);
          tw_system_pkg::ShareReadBudget: value = 32'(read_budget_q[c]);
          tw_system_pkg::ShareWriteBudget: value = 32'(write_budget_q[c]);
          default:
          if (12'(share[5:0]) >= tw_system_pkg::ShareCounters && 32'(counter) < Counters) begin
            keeps_high = !share[2];
            high = counts[c][counter][47:32];
            value = share[2] ? 32'(high_q) : counts[c][counter][31:0];
          end
        endcase
      end
    end
  end

  logic unused;
  assign unused = ^write_data_i[31:16];
endmodule
