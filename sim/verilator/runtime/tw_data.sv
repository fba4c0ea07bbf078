// SPDX-License-Identifier: Apache-2.0
// Watches the control of an accelerator without a data path, and tells the harness what its
// scratchpads and arithmetic would do (see harness/data_path.h): at most one call a cycle and unit.
module tw_data #(
    parameter int unsigned BeatBytes = 8  // bytes of an AXI beat
) (
    input logic                   clk_i,
    input logic                   rst_i,
    // LOAD: a beat or a tile of padding is placed
    input logic [            7:0] load_memories_i,
    input tw_pkg::spad_write_t    load_at_i,
    input logic [BeatBytes*8-1:0] load_data_i,
    // GEMM: operands of a product are read
    input logic                   gemm_i,
    input logic [           20:0] gemm_inp_i,
    input logic [           20:0] gemm_wgt_i,
    input logic [           20:0] gemm_acc_i,
    input logic                   gemm_fresh_i,
    // VECTOR: a row of parameters is read; a part is issued
    input logic                   param_i,
    input logic [           15:0] param_tile_i,
    input logic [            7:0] param_row_i,
    input logic                   vector_i,
    input logic [            3:0] vector_op_i,
    input logic [           19:0] vector_dst_i,
    input logic [           19:0] vector_src_i,
    input logic [           19:0] vector_opd_i,
    input logic                   vector_uses_opd_i,
    input logic signed [    15:0] vector_imm_i,
    input logic [            7:0] vector_part_i,
    input logic                   vector_lookup_i,
    input logic [            1:0] vector_slot_i,
    input logic                   vector_hold_i,
    input logic [            1:0] vector_reduce_i,
    input logic                   vector_first_i,
    input logic [            5:0] vector_lanes_i,
    // STORE: a beat is read
    input logic                   out_i,
    input logic [           19:0] out_tile_i,
    input logic [            9:0] out_slice_i,
    input logic [            4:0] out_lane_i
);
  import "DPI-C" function chandle tilewright_data();
  import "DPI-C" function void tilewright_load(
    input chandle data,
    input int unsigned memories,
    input int unsigned tile,
    input int unsigned slice,
    input int unsigned lane,
    input int unsigned count,
    input bit pad,
    input bit diagonal,
    input int unsigned phase,
    input bit int4,
    input int unsigned scale,
    input bit [BeatBytes*8-1:0] beat
  );
  import "DPI-C" function void tilewright_gemm(
    input chandle data,
    input int unsigned inp,
    input int unsigned wgt,
    input int unsigned acc,
    input bit fresh
  );
  import "DPI-C" function void tilewright_param(
    input chandle data,
    input int unsigned tile,
    input int unsigned row
  );
  import "DPI-C" function void tilewright_vector(
    input chandle data,
    input int unsigned operation,
    input int unsigned destination,
    input int unsigned source,
    input int unsigned operand,
    input bit has_operand,
    input int immediate,
    input int unsigned part,
    input bit lookup,
    input int unsigned slot,
    input bit hold,
    input int unsigned reduce,
    input bit first,
    input int unsigned lanes
  );
  import "DPI-C" function void tilewright_out(
    input chandle data,
    input int unsigned tile,
    input int unsigned slice,
    input int unsigned lane
  );
  import "DPI-C" function void tilewright_clear(input chandle data);

  chandle data;
  initial data = tilewright_data();

  // Reads come before the write of a beat, as in the RTL's memories.
  always @(posedge clk_i) begin
    if (gemm_i)
      tilewright_gemm(data, 32'(gemm_inp_i), 32'(gemm_wgt_i), 32'(gemm_acc_i), gemm_fresh_i);
    if (out_i) tilewright_out(data, 32'(out_tile_i), 32'(out_slice_i), 32'(out_lane_i));
    if (param_i) tilewright_param(data, 32'(param_tile_i), 32'(param_row_i));
    if (vector_i)
      tilewright_vector(data, 32'(vector_op_i), 32'(vector_dst_i), 32'(vector_src_i),
                        32'(vector_opd_i), vector_uses_opd_i, 32'(vector_imm_i),
                        32'(vector_part_i), vector_lookup_i, 32'(vector_slot_i), vector_hold_i,
                        32'(vector_reduce_i), vector_first_i, 32'(vector_lanes_i));
    if (load_memories_i != '0)
      tilewright_load(data, 32'(load_memories_i), 32'(load_at_i.tile), 32'(load_at_i.slice),
                      32'(load_at_i.lane), 32'(load_at_i.count), load_at_i.pad, load_at_i.diagonal,
                      32'(load_at_i.phase), load_at_i.int4, 32'(load_at_i.scale), load_data_i);
    if (rst_i) tilewright_clear(data);
  end
endmodule

bind tw_core tw_data #(
    .BeatBytes(BeatBytes)
) u_data (
    .clk_i,
    .rst_i            (unit_rst),
    .load_memories_i  (write_mem),
    .load_at_i        (write_at),
    .load_data_i      (write_data),
    .gemm_i           (u_gemm.go2),
    .gemm_inp_i       (u_gemm.inp2_q),
    .gemm_wgt_i       (u_gemm.wgt2_q),
    .gemm_acc_i       (u_gemm.acc2_q),
    .gemm_fresh_i     (u_gemm.fresh2_q),
    .param_i          (par_read),
    .param_tile_i     (u_vector.param_q),
    .param_row_i      (8'(u_vector.row_q)),
    .vector_i         (u_vector.go),
    .vector_op_i      (u_vector.cur_q.op),
    .vector_dst_i     (u_vector.dst),
    .vector_src_i     (u_vector.acc_read),
    .vector_opd_i     (u_vector.opd_q),
    .vector_uses_opd_i(u_vector.uses_opd),
    .vector_imm_i     (u_vector.cur_q.imm),
    .vector_part_i    (8'(u_vector.part_q)),
    .vector_lookup_i  (u_vector.cur_q.lookup),
    .vector_slot_i    (u_vector.slot_q),
    .vector_hold_i    (u_vector.cur_q.hold),
    .vector_reduce_i  (u_vector.cur_q.reduce),
    .vector_first_i   (u_vector.inner_q == '0),
    .vector_lanes_i   (u_vector.inner_last_q ? u_vector.cur_q.lanes : '0),
    .out_i            (out_read),
    .out_tile_i       (u_store.addr),
    .out_slice_i      (out_slice),
    .out_lane_i       (out_lane)
);
