// SPDX-License-Identifier: Apache-2.0
// tw_counters with a flat state port, unit 0 lowest.
module bench_counters #(
    parameter int unsigned BeatBytes = 8,  // bytes of an AXI beat
    parameter int unsigned CountBits = 48  // of a counter
) (
    input  logic                       clk_i,
    input  logic                       clear_i,
    input  logic                       running_i,
    input  logic                       snapshot_i,
    input  logic [               15:0] state_i,
    input  logic [                3:0] retire_i,
    input  logic                       mac_i,
    input  logic                       vector_i,
    input  logic                       read_beat_i,
    input  logic [$clog2(BeatBytes):0] write_bytes_i,
    input  logic                       read_burst_i,
    input  logic                       write_burst_i,
    input  logic [                5:0] index_i,
    output logic [               63:0] value_o
);
  tw_pkg::wait_e state[4];
  for (genvar u = 0; u < 4; u++) begin : gen_state
    assign state[u] = tw_pkg::wait_e'(state_i[u*4+:4]);
  end
  tw_counters #(
      .BeatBytes(BeatBytes),
      .CountBits(CountBits)
  ) u_dut (
      .state_i(state),
      .*
  );
endmodule
