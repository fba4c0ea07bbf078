// SPDX-License-Identifier: Apache-2.0
// Performance counters: what each unit did in every cycle of a run, and totals.
module tw_counters #(
    parameter int unsigned BeatBytes = 8  // bytes of an AXI beat
) (
    input  logic                 clk_i,
    input  logic                 clear_i,     // zero all counters
    input  logic                 running_i,   // a program runs
    input  logic                 snapshot_i,  // copy to the readable registers
    input  tw_pkg::wait_e        state_i     [4],  // by unit
    input  logic          [ 3:0] retire_i,    // by unit
    input  logic                 mac_i,
    input  logic                 vector_i,
    input  logic                 read_beat_i,
    input  logic          [$clog2(BeatBytes):0] write_bytes_i,  // strobes of an accepted beat
    input  logic                 read_burst_i,
    input  logic                 write_burst_i,
    input  logic          [$clog2(tw_pkg::NumCounters)-1:0] index_i,
    output logic          [63:0] value_o      // counter index_i of the snapshot
);
  localparam int unsigned UnitStates = 6;  // busy, three tokens, memory, idle
  localparam int unsigned AddBits = $clog2(BeatBytes) + 1;

  logic [tw_pkg::NumCounters-1:0][AddBits-1:0] add;
  logic [tw_pkg::NumCounters-1:0][63:0] count_q, shadow_q;

  // Position of a unit's state among its six counters; the unit's own token is left out.
  function automatic int unsigned slot_of(int unsigned unit, tw_pkg::wait_e state);
    int unsigned token;
    token = 32'(state) - 32'(tw_pkg::WaitTokenLoad);
    unique case (state)
      tw_pkg::WaitBusy: return 0;
      tw_pkg::WaitMemory: return 4;
      tw_pkg::WaitTokenLoad, tw_pkg::WaitTokenGemm, tw_pkg::WaitTokenVector,
      tw_pkg::WaitTokenStore:
      return 1 + ((token > unit) ? token - 1 : token);
      default: return 5;
    endcase
  endfunction

  always_comb begin
    add = '0;
    add[tw_pkg::CntCycles] = AddBits'(1);
    for (int unsigned u = 0; u < 4; u++) begin
      for (int unsigned s = 0; s < UnitStates; s++) begin
        add[tw_pkg::CntLoadBusy+u*UnitStates+s] = AddBits'(slot_of(u, state_i[u]) == s);
      end
      add[tw_pkg::CntLoadInstructions+u] = AddBits'(retire_i[u]);
    end
    add[tw_pkg::CntMacsTiles] = AddBits'(mac_i);
    add[tw_pkg::CntVectorTiles] = AddBits'(vector_i);
    add[tw_pkg::CntBytesRead] = read_beat_i ? AddBits'(BeatBytes) : '0;
    add[tw_pkg::CntBytesWritten] = write_bytes_i;
    add[tw_pkg::CntReadBursts] = AddBits'(read_burst_i);
    add[tw_pkg::CntWriteBursts] = AddBits'(write_burst_i);
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned c = 0; c < tw_pkg::NumCounters; c++) begin
      if (clear_i) count_q[c] <= '0;
      else if (running_i && add[c] != '0) count_q[c] <= count_q[c] + 64'(add[c]);
    end
    if (snapshot_i) shadow_q <= count_q;
  end
  assign value_o = 32'(index_i) < tw_pkg::NumCounters ? shadow_q[index_i] : '0;
endmodule
