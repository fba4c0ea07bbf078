// SPDX-License-Identifier: Apache-2.0
// A program's memory in block RAM: an AXI4 slave for the accelerator, 32-bit words for the host.
//
// Bursts are INCR and as wide as the bus, one read and one write at a time; a beat can move in every
// cycle. The host's words go between bursts. A burst that begins outside the memory answers DECERR.
module tw_block_memory #(
    parameter int unsigned MemoryBytes = 131072,  // a power of two, at least 4096
    parameter int unsigned DataBits    = 64,      // of the AXI bus: 32 to 1024
    localparam int unsigned Lanes = DataBits / 8,
    localparam int unsigned LaneBits = $clog2(Lanes),
    localparam int unsigned AddressBits = $clog2(MemoryBytes),
    localparam int unsigned IndexBits = AddressBits - LaneBits
) (
    input  logic                   clk_i,
    input  logic                   rst_i,
    // words of the host
    input  logic                   host_valid_i,  // held, with the rest, until host_done_o
    input  logic                   host_write_i,
    input  logic [AddressBits-1:0] host_addr_i,   // in bytes
    input  logic [           31:0] host_wdata_i,
    output logic                   host_done_o,   // one cycle
    output logic [           31:0] host_rdata_o,  // with host_done_o
    // AXI4
    input  logic [           39:0] awaddr_i,
    input  logic                   awvalid_i,
    output logic                   awready_o,
    input  logic [   DataBits-1:0] wdata_i,
    input  logic [      Lanes-1:0] wstrb_i,
    input  logic                   wlast_i,
    input  logic                   wvalid_i,
    output logic                   wready_o,
    output logic [            1:0] bresp_o,
    output logic                   bvalid_o,
    input  logic                   bready_i,
    input  logic [           39:0] araddr_i,
    input  logic [            7:0] arlen_i,
    input  logic                   arvalid_i,
    output logic                   arready_o,
    output logic [   DataBits-1:0] rdata_o,
    output logic [            1:0] rresp_o,
    output logic                   rlast_o,
    output logic                   rvalid_o,
    input  logic                   rready_i
);
  typedef enum logic [1:0] {
    Idle,
    Host,   // the word of the host is done
    Burst,
    Answer  // writes alone: the response waits
  } state_e;

  state_e read_state_q, write_state_q;
  logic host_read, host_write, read, read_error_q, write_error_q;
  logic [IndexBits-1:0] host_index, read_index, read_index_q, write_index, write_index_q;
  logic [8:0] left_q;  // beats that were not read
  logic [Lanes-1:0] write;
  logic [DataBits-1:0] write_data;

  assign host_index = host_addr_i[AddressBits-1:LaneBits];
  assign host_read = host_valid_i && !host_write_i && read_state_q == Idle;
  assign host_write = host_valid_i && host_write_i && write_state_q == Idle;
  assign host_done_o = host_write_i ? write_state_q == Host : read_state_q == Host;

  // The lanes of the host's word.
  logic [Lanes-1:0] host_lanes;
  if (Lanes == 4) begin : gen_word
    assign host_lanes   = '1;
    assign host_rdata_o = rdata_o;
  end else begin : gen_words
    logic [LaneBits-3:0] word;
    assign word         = host_addr_i[LaneBits-1:2];
    assign host_lanes   = Lanes'(4'hF) << {word, 2'b00};
    assign host_rdata_o = rdata_o[32*word+:32];
  end

  // ---- reads
  assign arready_o  = read_state_q == Idle && !host_read;
  assign read       = host_read || (left_q != '0 && (!rvalid_o || rready_i));
  assign read_index = host_read ? host_index : read_index_q;
  assign rresp_o    = {2{read_error_q}};

  always_ff @(posedge clk_i) begin
    if (read || rready_i) begin
      rvalid_o <= read && !host_read;
      rlast_o  <= left_q == 9'd1;
    end
    if (read && !host_read) begin
      read_index_q <= read_index_q + 1'b1;
      left_q       <= left_q - 1'b1;
    end
    unique case (read_state_q)
      Idle:
      if (host_read) begin
        read_state_q <= Host;
      end else if (arvalid_i) begin
        read_state_q <= Burst;
        read_index_q <= araddr_i[AddressBits-1:LaneBits];
        read_error_q <= araddr_i[39:AddressBits] != '0;
        left_q       <= 9'(arlen_i) + 9'd1;
      end
      Host:    read_state_q <= Idle;
      Burst:   if (rvalid_o && rlast_o && rready_i) read_state_q <= Idle;
      default: read_state_q <= Idle;
    endcase
    if (rst_i) begin
      read_state_q <= Idle;
      rvalid_o     <= 1'b0;
      left_q       <= '0;
    end
  end

  // ---- writes
  assign awready_o   = write_state_q == Idle && !host_write;
  assign wready_o    = write_state_q == Burst;
  assign bvalid_o    = write_state_q == Answer;
  assign bresp_o     = {2{write_error_q}};
  assign write_index = host_write ? host_index : write_index_q;
  assign write_data  = host_write ? {DataBits / 32{host_wdata_i}} : wdata_i;
  always_comb begin
    write = '0;
    if (host_write) write = host_lanes;
    else if (wready_o && wvalid_i && !write_error_q) write = wstrb_i;
  end

  always_ff @(posedge clk_i) begin
    unique case (write_state_q)
      Idle:
      if (host_write) begin
        write_state_q <= Host;
      end else if (awvalid_i) begin
        write_state_q <= Burst;
        write_index_q <= awaddr_i[AddressBits-1:LaneBits];
        write_error_q <= awaddr_i[39:AddressBits] != '0;
      end
      Host:    write_state_q <= Idle;
      Burst:
      if (wvalid_i) begin
        write_index_q <= write_index_q + 1'b1;
        if (wlast_i) write_state_q <= Answer;
      end
      Answer:  if (bready_i) write_state_q <= Idle;
      default: write_state_q <= Idle;
    endcase
    if (rst_i) write_state_q <= Idle;
  end

  // ---- bytes
  for (genvar b = 0; b < Lanes; b++) begin : gen_lane
    // Nothing reads what is being written: a program waits for its stores.
    (* no_rw_check *) logic [7:0] mem[2**IndexBits];
    always_ff @(posedge clk_i) begin
      if (write[b]) mem[write_index] <= write_data[8*b+:8];
      if (read) rdata_o[8*b+:8] <= mem[read_index];
    end
  end

  logic unused;
  assign unused = ^{host_addr_i, awaddr_i[LaneBits-1:0], araddr_i[LaneBits-1:0]};
endmodule
