// SPDX-License-Identifier: Apache-2.0
// What each unit must know of an instruction before it takes it: which tokens and ACC banks it needs,
// and whether its fields are legal. All of it is settled on the way into the queues, so that a unit
// decides from registers; an instruction is wrong for its own unit alone.
module tw_predecode #(
    parameter int unsigned    BeatBytes = 8,  // bytes of an AXI beat
    parameter tw_pkg::sizes_t Sizes     = '0
) (
    input  logic             [tw_pkg::InsnBits-1:0] insn_i,
    output tw_pkg::needs_t [ 3:0]                   needs_o  // by unit
);
  localparam int unsigned BeatShift = $clog2(BeatBytes);

  tw_pkg::sizes_t sizes;
  tw_sizes #(
      .Elaborated(Sizes)
  ) u_sizes (
      .sizes_o(sizes)
  );

  // Rows start at a tile (when it is smaller than a beat) or at a beat.
  function automatic logic within_tile(logic [BeatShift-1:0] offset, logic [3:0] tile_shift);
    within_tile = 1'b0;
    for (int unsigned b = 0; b < BeatShift; b++) begin
      if (b < 32'(tile_shift) && offset[b]) within_tile = 1'b1;
    end
  endfunction

  function automatic tw_pkg::needs_t needs(tw_pkg::unit_e unit, logic legal, logic unaligned,
                                           logic [3:0] pop, logic [3:0] push, logic [3:0] banks);
    logic right;
    right = legal && !pop[unit] && !push[unit];
    return '{pop: right ? pop : '0, banks: banks, illegal: !right, unaligned: right && unaligned};
  endfunction

  // ---------------------------------------------------------------------------------------
  // LOAD
  tw_pkg::load_t load;
  logic has_int4, pads, loadable, load_legal, to_acc, moves;
  logic [3:0] tile_shift;  // log2 of the bytes of what it counts as a tile in DRAM
  assign load = tw_pkg::load_t'(insn_i);
  assign has_int4 = sizes.int4_weights != '0;
  always_comb begin
    unique case (load.memory)
      tw_pkg::MemInp: tile_shift = 4'(sizes.inp_shift);
      tw_pkg::MemWgt: tile_shift = 4'(sizes.wgt_shift) - 4'(load.int4 && has_int4);
      tw_pkg::MemAcc: tile_shift = 4'(sizes.acc_shift);
      tw_pkg::MemParam: tile_shift = 4'(sizes.par_shift);
      tw_pkg::MemRes: tile_shift = 4'(sizes.out_shift);
      tw_pkg::MemTable: tile_shift = 4'(BeatShift);
      default: tile_shift = 4'd3;
    endcase
    if (load.diagonal) tile_shift = 4'(sizes.diag_shift);
  end
  assign pads = |{load.pad_left, load.pad_right, load.pad_top, load.pad_bottom};
  assign loadable = (load.memory <= tw_pkg::MemRes) ||
                    ((load.memory == tw_pkg::MemTable) && (sizes.table_depth != '0));
  assign load_legal = loadable && (load.z_size != '0) &&
                      (|{load.x_size, load.pad_left, load.pad_right}) &&
                      (|{load.y_size, load.pad_top, load.pad_bottom}) &&
                      !(pads && load.memory == tw_pkg::MemParam) &&
                      !((load.diagonal || load.int4) && load.memory != tw_pkg::MemWgt) &&
                      !(load.int4 && (load.diagonal || !has_int4));
  assign to_acc = load.memory == tw_pkg::MemAcc;
  assign moves = load.x_size != '0 && load.y_size != '0;
  assign needs_o[tw_pkg::UnitLoad] = needs(
      tw_pkg::UnitLoad, load_legal, moves && within_tile(load.dram_offset[BeatShift-1:0], tile_shift),
      load.pop, load.push, to_acc ? load.acc_banks : '0
  );

  // ---------------------------------------------------------------------------------------
  // GEMM
  tw_pkg::gemm_t gemm;
  assign gemm = tw_pkg::gemm_t'(insn_i);
  assign needs_o[tw_pkg::UnitGemm] = needs(
      tw_pkg::UnitGemm,
      (gemm.uop_count != '0) && (gemm.iter_outer != '0) && (gemm.iter_inner != '0), 1'b0,
      gemm.pop, gemm.push, gemm.acc_banks
  );

  // ---------------------------------------------------------------------------------------
  // VECTOR
  tw_pkg::vector_t vector;
  logic signed [7:0] low, high;
  logic requant, operation, vector_legal;
  assign vector = tw_pkg::vector_t'(insn_i);
  assign {high, low} = vector.imm;
  assign requant = vector.op == tw_pkg::VecRequant;
  assign operation = sizes.row_unit == '0 ?
      vector.op <= tw_pkg::VecRequant && !vector.hold && vector.reduce == '0 && vector.lanes == '0 :
      vector.op <= tw_pkg::VecExp2 && !(requant && (vector.hold || vector.reduce != '0)) &&
      !(vector.hold && vector.operand == tw_pkg::OperandRes) &&
      !(vector.reduce == '0 && vector.lanes != '0);
  assign vector_legal = operation && (vector.iter_outer != '0) && (vector.iter_inner != '0) &&
                        (!requant || low <= high) &&
                        (!vector.lookup || (requant && sizes.table_depth != '0));
  assign needs_o[tw_pkg::UnitVector] = needs(
      tw_pkg::UnitVector, vector_legal, 1'b0, vector.pop, vector.push, vector.acc_banks
  );

  // ---------------------------------------------------------------------------------------
  // STORE
  tw_pkg::store_t store;
  assign store = tw_pkg::store_t'(insn_i);
  assign needs_o[tw_pkg::UnitStore] = needs(
      tw_pkg::UnitStore, (store.x_size != '0) && (store.y_size != '0) && (store.z_size != '0),
      within_tile(store.dram_offset[BeatShift-1:0], 4'(sizes.out_shift)), store.pop, store.push, '0
  );

  logic unused;
  assign unused = ^{load, gemm, vector, store};
endmodule
