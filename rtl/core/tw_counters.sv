// SPDX-License-Identifier: Apache-2.0
// Performance counters: what each unit did in every cycle of a run, and totals.
// All inputs but the index are registered first, the clear and the snapshot with them: what
// happened in a cycle is counted one cycle later, and a snapshot can be read after two.
module tw_counters #(
    parameter int unsigned BeatBytes = 8,  // bytes of an AXI beat
    parameter int unsigned CountBits = 40  // of a counter, 33 to 64; it wraps (three hours at 100 MHz)
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
    output logic          [63:0] value_o      // counter index_i of the snapshot, zero-extended
);
  localparam int unsigned UnitStates = 6;  // busy, three tokens, memory, idle
  localparam int unsigned AddBits = $clog2(BeatBytes) + 1;

  logic [tw_pkg::NumCounters-1:0][CountBits-1:0] count, shadow_q;

  logic clear_q, running_q, snapshot_q, mac_q, vector_q, read_beat_q, read_burst_q, write_burst_q;
  tw_pkg::wait_e state_q[4];
  logic [3:0] retire_q;
  logic [AddBits-1:0] write_bytes_q;
  always_ff @(posedge clk_i) begin
    clear_q       <= clear_i;
    running_q     <= running_i;
    snapshot_q    <= snapshot_i;
    state_q       <= state_i;
    retire_q      <= retire_i;
    mac_q         <= mac_i;
    vector_q      <= vector_i;
    read_beat_q   <= read_beat_i;
    write_bytes_q <= write_bytes_i;
    read_burst_q  <= read_burst_i;
    write_burst_q <= write_burst_i;
  end

  // The state that one of a unit's six counters counts; a unit does not wait for its own token.
  function automatic tw_pkg::wait_e state_of(int unsigned unit, int unsigned slot);
    unique case (slot)
      0: return tw_pkg::WaitBusy;
      4: return tw_pkg::WaitMemory;
      5: return tw_pkg::WaitIdle;
      default:
      return tw_pkg::wait_e'(32'(tw_pkg::WaitTokenLoad) + (slot > unit ? slot : slot - 1));
    endcase
  endfunction

  // What a total grows by in a cycle.
  function automatic logic [AddBits-1:0] total_step(int unsigned counter);
    unique case (counter)
      tw_pkg::CntCycles: return AddBits'(1);
      tw_pkg::CntMacsTiles: return AddBits'(mac_q);
      tw_pkg::CntVectorTiles: return AddBits'(vector_q);
      tw_pkg::CntBytesRead: return read_beat_q ? AddBits'(BeatBytes) : '0;
      tw_pkg::CntBytesWritten: return write_bytes_q;
      tw_pkg::CntReadBursts: return AddBits'(read_burst_q);
      tw_pkg::CntWriteBursts: return AddBits'(write_burst_q);
      default: return '0;
    endcase
  endfunction

  for (genvar c = 0; c < int'(tw_pkg::NumCounters); c++) begin : gen_counter
    localparam int unsigned State = c - tw_pkg::CntLoadBusy;  // by unit, then by state
    localparam int unsigned Retired = c - tw_pkg::CntLoadInstructions;  // by unit
    logic [AddBits-1:0] step;
    logic [CountBits-1:0] count_q;
    if (State < 4 * UnitStates) begin : gen_state
      assign step = AddBits'(state_q[State/UnitStates] ==
                             state_of(State / UnitStates, State % UnitStates));
    end else if (Retired < 4) begin : gen_retired
      assign step = AddBits'(retire_q[Retired]);
    end else begin : gen_total
      assign step = total_step(c);
    end
    always_ff @(posedge clk_i) begin
      if (clear_q) count_q <= '0;
      else if (running_q && step != '0) count_q <= count_q + CountBits'(step);
    end
    assign count[c] = count_q;
  end

  always_ff @(posedge clk_i) begin
    if (snapshot_q) shadow_q <= count;
  end
  assign value_o = 32'(index_i) < tw_pkg::NumCounters ? 64'(shadow_q[index_i]) : '0;
endmodule
