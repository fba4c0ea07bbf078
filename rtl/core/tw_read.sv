// SPDX-License-Identifier: Apache-2.0
// AXI4 read engine: two requesters, fixed priority per burst, data in order, several bursts in
// flight. RREADY is always 1: a requester asks only for data that it can take. Beats are taken into a
// register first. Fetch asks only inside the memory (tw_core refuses other settings).
module tw_read #(
    parameter int unsigned BeatBytes   = 8,  // bytes of an AXI beat
    parameter int unsigned Outstanding = 8   // bursts in flight, 1 to 16
) (
    input  logic                   clk_i,
    input  logic                   rst_i,
    input  logic                   halt_i,      // accept no more requests
    input  logic [           39:0] mem_base_i,  // physical address of offset 0
    // requests; index 0 (fetch) goes before index 1 (load)
    input  logic [            1:0] req_valid_i,
    output logic [            1:0] req_ready_o,
    input  logic [      1:0][39:0] req_addr_i,  // offset, aligned to a beat
    input  logic [      1:0][ 7:0] req_len_i,   // beats minus 1
    input  logic                   load_inside_i,  // request 1 is within the memory
    input  tw_pkg::index_t         load_index_i,  // instruction that request 1 belongs to
    // data
    output logic [            1:0] beat_valid_o,
    output logic [BeatBytes*8-1:0] beat_data_o,
    output tw_pkg::index_t         load_index_o,  // instruction that a beat for 1 belongs to
    // status
    output logic                   idle_o,      // nothing in flight
    output logic                   burst_o,     // a burst was accepted by the bus
    output logic                   range_err_o, // request 1 outside the memory
    output logic [            1:0] resp_err_o,  // SLVERR or DECERR, by requester
    output logic [            1:0] last_err_o,  // RLAST too early, or missing, by requester
    // AXI4 read channels
    output logic [           39:0] araddr_o,
    output logic [            7:0] arlen_o,
    output logic                   arvalid_o,
    input  logic                   arready_i,
    input  logic [BeatBytes*8-1:0] rdata_i,
    input  logic [            1:0] rresp_i,
    input  logic                   rlast_i,
    input  logic                   rvalid_i
);
  localparam tw_pkg::sizes_t Elaborated = '{read_outstanding: Outstanding, default: '0};
  tw_pkg::sizes_t sizes;
  tw_sizes #(
      .Elaborated(Elaborated)
  ) u_sizes (
      .sizes_o(sizes)
  );

  logic [39:0] addr_q;
  logic [7:0] len_q;
  logic valid_q;
  logic [4:0] in_flight_q;
  logic unused_valid, unused_full;
  logic [4:0] unused_count;
  logic pick, free, wanted, grant, accept, retire, expected, beat;
  logic [BeatBytes*8-1:0] rdata_q;
  logic rvalid_q, rlast_q, rfail_q;
  logic [7:0] owner_len, beats_q;  // beats of the oldest burst minus 1, and those that came
  logic over_q, over_d;            // they all came, but RLAST did not
  // Whether the data of each burst in flight are LOAD's, the oldest at 0. The place behind the
  // youngest is written in every cycle.
  logic [16:0] loads_q, loads_d;
  logic load_next;                 // those of the oldest in the next cycle
  logic [1:0] asked_q;             // the beat in the register is one of them, by requester

  assign pick      = !req_valid_i[0];  // requester that is served
  assign wanted    = |req_valid_i && !halt_i;
  assign free      = (!valid_q || arready_i) &&
                    (in_flight_q < 5'(sizes.read_outstanding));
  // A request outside the memory is taken and dropped: its error halts the requester.
  assign grant     = wanted && free;
  assign accept    = grant && !(pick && !load_inside_i);
  // RLAST alone ends a burst: whatever its length, nothing more of it comes. One that is missing
  // holds the bus busy until it comes; the beats until then are nobody's, as no one has room for
  // them.
  // What nobody asked for is not taken into the register.
  assign expected  = in_flight_q != 5'(retire);
  assign beat      = rvalid_q;
  assign retire    = beat && rlast_q;
  assign over_d    = beat ? !rlast_q && (over_q || beats_q == owner_len) : over_q;

  always_comb begin
    req_ready_o = '0;
    req_ready_o[pick] = grant;
    beat_valid_o = asked_q;
    resp_err_o = asked_q & {2{rfail_q}};
    last_err_o = asked_q & {2{rlast_q != (beats_q == owner_len)}};
    // A beat that comes in the cycle of its request is not expected.
    load_next = retire ? loads_q[1] : loads_q[0];
    loads_d = retire ? loads_q >> 1 : loads_q;
    loads_d[in_flight_q-5'(retire)] = pick;
  end

  assign range_err_o = wanted && pick && !load_inside_i;
  assign beat_data_o = rdata_q;
  assign idle_o      = in_flight_q == '0;
  assign burst_o     = valid_q && arready_i;
  assign araddr_o    = addr_q;
  assign arlen_o     = len_q;
  assign arvalid_o   = valid_q;

  // How much data each burst in flight gets, and for which instruction.
  tw_fifo #(
      .Width(8 + $bits(tw_pkg::index_t)),
      .Depth(16)
  ) u_owner (
      .clk_i,
      .rst_i,
      .push_i (accept),
      .data_i ({req_len_i[pick], load_index_i}),
      .pop_i  (retire),
      .data_o ({owner_len, load_index_o}),
      .valid_o(unused_valid),
      .full_o (unused_full),
      .count_o(unused_count)
  );

  always_ff @(posedge clk_i) begin
    rvalid_q <= rvalid_i && expected && !rst_i;
    asked_q  <= {2{rvalid_i && expected && !over_d && !rst_i}} & {load_next, !load_next};
    loads_q  <= loads_d;
    if (rvalid_i) {rdata_q, rlast_q, rfail_q} <= {rdata_i, rlast_i, rresp_i[1]};
    if (accept) begin
      addr_q <= mem_base_i + req_addr_i[pick];
      len_q  <= req_len_i[pick];
    end
    if (rst_i) begin
      valid_q     <= 1'b0;
      in_flight_q <= '0;
      beats_q     <= '0;
      over_q      <= 1'b0;
    end else begin
      if (beat) begin
        beats_q <= rlast_q ? '0 : beats_q + 1'b1;
      end
      over_q <= over_d;
      if (accept) valid_q <= 1'b1;
      else if (arready_i) valid_q <= 1'b0;
      if (accept && !retire) in_flight_q <= in_flight_q + 1'b1;
      else if (retire && !accept) in_flight_q <= in_flight_q - 1'b1;
    end
  end

  logic unused;
  assign unused = rresp_i[0];
endmodule
