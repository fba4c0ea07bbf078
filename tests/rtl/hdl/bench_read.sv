// SPDX-License-Identifier: Apache-2.0
// tw_read with flat request ports, requester 0 lowest.
module bench_read #(
    parameter int unsigned BeatBytes   = 8,  // bytes of an AXI beat
    parameter int unsigned Outstanding = 8   // bursts in flight
) (
    input  logic                   clk_i,
    input  logic                   rst_i,
    input  logic                   halt_i,
    input  logic [           39:0] mem_base_i,
    input  logic [            1:0] req_valid_i,
    output logic [            1:0] req_ready_o,
    input  logic [           79:0] req_addr_i,
    input  logic [           15:0] req_len_i,
    input  logic                   load_inside_i,
    input  tw_pkg::index_t         load_index_i,
    output logic [            1:0] beat_valid_o,
    output logic [BeatBytes*8-1:0] beat_data_o,
    output tw_pkg::index_t         load_index_o,
    output logic                   idle_o,
    output logic                   burst_o,
    output logic                   range_err_o,
    output logic [            1:0] resp_err_o,
    output logic [            1:0] last_err_o,
    output logic [           39:0] araddr_o,
    output logic [            7:0] arlen_o,
    output logic                   arvalid_o,
    input  logic                   arready_i,
    input  logic [BeatBytes*8-1:0] rdata_i,
    input  logic [            1:0] rresp_i,
    input  logic                   rlast_i,
    input  logic                   rvalid_i
);
  tw_read #(
      .BeatBytes  (BeatBytes),
      .Outstanding(Outstanding)
  ) u_dut (
      .*
  );
endmodule
