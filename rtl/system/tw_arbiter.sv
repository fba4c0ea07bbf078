// SPDX-License-Identifier: Apache-2.0
// Several cores on one AXI4 port to memory.
//
// Addresses are granted burst by burst (tw_grant). A burst's ID is its core's number and the core's
// own ID, which is 0; read data and write responses go back by it, so that memory may answer cores
// in any order. Write data follow the order of the addresses: a burst has the data channel from the
// offer of its address on to its last beat. Data do not wait until the port takes the address: by the
// rules of AXI it may wait for them before it does.
//
// Nothing here waits for anything but the port. Cores take data and responses at once, and bring
// the data of every write burst that they ask for, whatever else happens to them. So there is no
// deadlock: the oldest write burst always proceeds, and reads depend on no write.
//
// Between a core and the port lies no register: a core that is alone on it takes the cycles that it
// takes by itself.
module tw_arbiter #(
    parameter int unsigned Masters  = 2,            // cores on the port, 1 to 8
    parameter int unsigned DataBits = 64,           // width of the data bus
    parameter logic [Masters-1:0][2:0] Cores = '0   // number of each core in the system
) (
    input  logic                              clk_i,
    input  logic                              rst_i,
    // shares; registers of the host
    input  logic [Masters-1:0][          3:0] weight_i,
    input  logic [Masters-1:0][         15:0] read_budget_i,
    input  logic [Masters-1:0][         15:0] write_budget_i,
    input  logic                              refill_i,
    input  logic [                       7:0] read_limit_i,   // bursts in flight, 1 to 32
    input  logic [                       7:0] write_limit_i,
    // what happens to each core in this cycle
    output logic [Masters-1:0]                read_grant_o,
    output logic [Masters-1:0]                read_waited_o,
    output logic [Masters-1:0]                read_throttled_o,
    output logic [Masters-1:0]                write_grant_o,
    output logic [Masters-1:0]                write_waited_o,
    output logic [Masters-1:0]                write_throttled_o,
    // cores
    input  logic [Masters-1:0][         10:0] attributes_i,   // AxQOS, AxPROT, AxCACHE
    input  logic [Masters-1:0][         39:0] araddr_i,
    input  logic [Masters-1:0][          7:0] arlen_i,
    input  logic [Masters-1:0]                arvalid_i,
    output logic [Masters-1:0]                arready_o,
    output logic [Masters-1:0]                rvalid_o,       // data, response, last: of the port
    input  logic [Masters-1:0][         39:0] awaddr_i,
    input  logic [Masters-1:0][          7:0] awlen_i,
    input  logic [Masters-1:0]                awvalid_i,
    output logic [Masters-1:0]                awready_o,
    input  logic [Masters-1:0][ DataBits-1:0] wdata_i,
    input  logic [Masters-1:0][DataBits/8-1:0] wstrb_i,
    input  logic [Masters-1:0]                wlast_i,
    input  logic [Masters-1:0]                wvalid_i,
    output logic [Masters-1:0]                wready_o,
    output logic [Masters-1:0]                bvalid_o,       // response: of the port
    // memory
    output logic [                       3:0] port_arid_o,         // core, and 0
    output logic [                      39:0] port_araddr_o,
    output logic [                       7:0] port_arlen_o,
    output logic [                      10:0] port_arattributes_o,
    output logic                              port_arvalid_o,
    input  logic                              port_arready_i,
    input  logic [                       3:0] port_rid_i,
    input  logic                              port_rlast_i,
    input  logic                              port_rvalid_i,
    output logic [                       3:0] port_awid_o,
    output logic [                      39:0] port_awaddr_o,
    output logic [                       7:0] port_awlen_o,
    output logic [                      10:0] port_awattributes_o,
    output logic                              port_awvalid_o,
    input  logic                              port_awready_i,
    output logic [              DataBits-1:0] port_wdata_o,
    output logic [            DataBits/8-1:0] port_wstrb_o,
    output logic                              port_wlast_o,
    output logic                              port_wvalid_o,
    input  logic                              port_wready_i,
    input  logic [                       3:0] port_bid_i,
    input  logic                              port_bvalid_i
);
  localparam int unsigned InFlight = 32;  // bursts of a direction that can be told apart

  localparam int unsigned OwnerBits = Masters > 1 ? $clog2(Masters) : 1;

  logic [OwnerBits-1:0] reader, writer, sender;
  logic [5:0] reads_q, writes_q, order_count;
  logic [Masters-1:0] address_waited, data_waited;
  logic sending, stands_q, unused_full;

  // A limit that the host set to nothing or beyond what can be kept is the nearest that works.
  function automatic logic [5:0] limit_of(logic [7:0] limit);
    return limit == '0 ? 6'd1 : limit > 8'(InFlight) ? 6'(InFlight) : 6'(limit);
  endfunction

  // ---------------------------------------------------------------------------------------
  // Read
  tw_grant #(
      .Masters(Masters)
  ) u_reads (
      .clk_i,
      .rst_i,
      .weight_i,
      .budget_i   (read_budget_i),
      .refill_i,
      .request_i  (arvalid_i),
      .len_i      (arlen_i),
      .room_i     (reads_q < limit_of(read_limit_i)),
      .valid_o    (port_arvalid_o),
      .owner_o    (reader),
      .ready_i    (port_arready_i),
      .grant_o    (read_grant_o),
      .waited_o   (read_waited_o),
      .throttled_o(read_throttled_o)
  );
  assign arready_o      = read_grant_o;
  assign port_arid_o         = {Cores[reader], 1'b0};
  assign port_araddr_o       = araddr_i[reader];
  assign port_arlen_o        = arlen_i[reader];
  assign port_arattributes_o = attributes_i[reader];

  always_comb begin
    for (int unsigned m = 0; m < Masters; m++) begin
      rvalid_o[m] = port_rvalid_i && port_rid_i == {Cores[m], 1'b0};
      bvalid_o[m] = port_bvalid_i && port_bid_i == {Cores[m], 1'b0};
    end
  end

  // ---------------------------------------------------------------------------------------
  // Write
  tw_grant #(
      .Masters(Masters)
  ) u_writes (
      .clk_i,
      .rst_i,
      .weight_i,
      .budget_i   (write_budget_i),
      .refill_i,
      .request_i  (awvalid_i),
      .len_i      (awlen_i),
      .room_i     (writes_q < limit_of(write_limit_i)),
      .valid_o    (port_awvalid_o),
      .owner_o    (writer),
      .ready_i    (port_awready_i),
      .grant_o    (write_grant_o),
      .waited_o   (address_waited),
      .throttled_o(write_throttled_o)
  );
  assign awready_o      = write_grant_o;
  assign port_awid_o         = {Cores[writer], 1'b0};
  assign port_awaddr_o       = awaddr_i[writer];
  assign port_awlen_o        = awlen_i[writer];
  assign port_awattributes_o = attributes_i[writer];

  // Cores in the order of their write bursts: whose data come next.
  tw_fifo #(
      .Width(OwnerBits),
      .Depth(InFlight)
  ) u_order (
      .clk_i,
      .rst_i,
      .push_i (port_awvalid_o && !stands_q),
      .data_i (writer),
      .pop_i  (port_wvalid_o && port_wready_i && port_wlast_o),
      .data_o (sender),
      .valid_o(sending),
      .full_o (unused_full),
      .count_o(order_count)
  );
  assign port_wvalid_o = sending && wvalid_i[sender];
  assign port_wdata_o  = wdata_i[sender];
  assign port_wstrb_o  = wstrb_i[sender];
  assign port_wlast_o  = wlast_i[sender];
  always_comb begin
    wready_o = '0;
    wready_o[sender] = sending && port_wready_i;
    // A burst whose address stands keeps nobody waiting: the others wait for their addresses.
    data_waited = sending && !(stands_q && order_count == 6'd1) ? wvalid_i : '0;
    data_waited[sender] = 1'b0;
  end
  assign write_waited_o = address_waited | data_waited;

  // ---------------------------------------------------------------------------------------
  // In flight
  always_ff @(posedge clk_i) begin
    stands_q <= port_awvalid_o && !port_awready_i && !rst_i;  // the offer was not taken
    if (rst_i) begin
      reads_q  <= '0;
      writes_q <= '0;
    end else begin
      reads_q  <= reads_q + 6'(port_arvalid_o && port_arready_i) - 6'(port_rvalid_i && port_rlast_i);
      writes_q <= writes_q + 6'(port_awvalid_o && port_awready_i) - 6'(port_bvalid_i);
    end
  end
endmodule
