// SPDX-License-Identifier: Apache-2.0
// One lane of VECTOR: the second operand in stage 1, the operation on ACC in stage 2, and its
// saturation in stage 3. A shift, and a power of two, takes two stages more; a product is formed by
// the multiplier of requantisation (tw_requant) meanwhile.
module tw_lane #(
    parameter int unsigned Parts   = 1,  // of a tile
    parameter int unsigned RowUnit = 0,  // 1: operands in ACC, SUB, SQUARE, EXP2
    localparam int unsigned PartBits = Parts > 1 ? $clog2(Parts) : 1,
    localparam int unsigned MulBits = RowUnit != 0 ? tw_pkg::HeldBits : 16
) (
    input  logic                       clk_i,
    // stage 1
    input  logic                       valid1_i,
    input  logic        [PartBits-1:0] part1_i,
    input  logic                       hold_i,      // the operand is what was fetched
    input  logic                       uses_res_i,  // or an element of RES
    input  logic signed [         7:0] res_i,
    input  logic signed [        15:0] imm_i,       // or this
    // stage 2
    input  logic        [        31:0] acc_i,       // what was read of ACC
    input  logic                       first_i,     // the result in stage 3 is newer
    input  logic                       work_i,      // there is an operation
    input  logic                       shift_i,     // there is a shift, or a power of two
    input  logic        [         3:0] op_i,
    input  logic                       fetch_i,     // it is an operand to hold
    input  logic        [PartBits-1:0] part2_i,
    output logic        [        31:0] fresh_o,     // the newer one
    output logic        [         7:0] residual_o,  // the operand of requantisation
    output logic        [ MulBits-1:0] factor_o,    // and of a product
    // stage 3
    input  logic                       ends_i,      // there is a result
    output logic        [        31:0] result_o,
    // stage 5
    output logic        [        31:0] shifted_o
);
  localparam int unsigned OpdBits = RowUnit != 0 ? 32 : 16;

  logic signed [OpdBits-1:0] operand_q;
  logic signed [32:0] exact_q;
  logic [31:0] fresh;

  assign fresh   = first_i ? result_o : acc_i;
  assign fresh_o = fresh;

  if (RowUnit != 0) begin : gen_held
    // An operand of one part is in stage 2 when the next part needs it.
    logic signed [31:0] held_q[Parts];
    logic signed [31:0] held;
    assign held = (Parts == 1) && fetch_i ? fresh : held_q[part1_i];
    assign factor_o = (op_i == tw_pkg::VecSquare) ? fresh[MulBits-1:0] : operand_q[MulBits-1:0];
    always_ff @(posedge clk_i) begin
      if (fetch_i) held_q[part2_i] <= fresh;
      if (valid1_i) operand_q <= hold_i ? held : uses_res_i ? OpdBits'(res_i) : OpdBits'(imm_i);
    end
  end else begin : gen_near
    assign factor_o = operand_q;
    always_ff @(posedge clk_i) begin
      if (valid1_i) operand_q <= uses_res_i ? OpdBits'(res_i) : imm_i;
    end
    logic unused;
    assign unused = ^{part1_i, part2_i, hold_i, fetch_i};
  end
  assign residual_o = operand_q[7:0];

  // Stage 2: 33 bits hold every result. One adder forms sums and differences, whose sign compares.
  function automatic logic signed [32:0] compute(logic [3:0] op, logic signed [31:0] a,
                                                 logic signed [OpdBits-1:0] b);
    logic signed [32:0] addend, sum;
    logic add, less;
    add    = op == tw_pkg::VecAdd;
    addend = add ? 33'(b) : ~33'(b);
    sum    = 33'(a) + addend + $signed({32'd0, !add});
    less   = sum[32];
    if (add || (RowUnit != 0 && op == tw_pkg::VecSub)) compute = sum;
    else if ((op == tw_pkg::VecMin && less) || (op == tw_pkg::VecMax && !less)) compute = 33'(a);
    else compute = 33'(b);
  endfunction

  always_ff @(posedge clk_i) begin
    if (work_i) exact_q <= compute(op_i, fresh, operand_q);
  end

  // Stages 2 to 4 of shifts: what is shifted, by one or not; by eights; by twos. The power of the
  // fraction, 31 bits, is shifted right by 30 less the integer part.
  logic signed [31:0] source, source_q, eights_q, shifted_q;
  logic [4:0] amount;
  logic [3:0] twos_q;
  logic [1:0] rest_q;
  logic shift3_q, shift4_q;
  if (RowUnit != 0) begin : gen_power
    // It need not wait for the saturation: what saturates is a power that is too large, or 0.
    logic signed [32:0] exponent;
    logic [14:0] fraction;
    logic power, over;
    assign exponent = first_i ? exact_q : 33'($signed(acc_i));
    assign power = op_i == tw_pkg::VecExp2;
    assign over  = (|exponent[31:21]) || (&exponent[20:16]);
    assign fraction = tw_pkg::exp2_of(exponent[15-:tw_pkg::Exp2IndexBits]);
    always_comb begin
      source = fresh;
      amount = operand_q[OpdBits-1] ? 5'd0 : (|operand_q[OpdBits-2:5]) ? 5'd31 : operand_q[4:0];
      if (power) begin
        source = {1'b0, over ? tw_pkg::exp2_of('1) : fraction, 16'd0};
        amount = exponent[32] ? 5'd31 : over ? 5'd0 : 5'd30 - exponent[20:16];
      end
    end
    logic unused;
    assign unused = ^exponent[15-tw_pkg::Exp2IndexBits:0];
  end else begin : gen_no_power
    assign source = fresh;
    assign amount = operand_q[OpdBits-1] ? 5'd0 : (|operand_q[OpdBits-2:5]) ? 5'd31 : operand_q[4:0];
  end
  always_ff @(posedge clk_i) begin
    {shift4_q, shift3_q} <= {shift3_q, shift_i};
    if (shift_i) begin
      source_q <= source >>> amount[0];
      twos_q   <= amount[4:1];
    end
    if (shift3_q) begin
      eights_q <= source_q >>> {twos_q[3:2], 3'd0};
      rest_q   <= twos_q[1:0];
    end
    if (shift4_q) shifted_q <= eights_q >>> {rest_q, 1'b0};
  end
  assign shifted_o = shifted_q;

  // Stage 3, of a part that ends there; otherwise nothing uses it, and a simulator skips it.
  always_comb begin
    result_o = 'x;
    if (ends_i) result_o = exact_q[32] != exact_q[31] ? {exact_q[32], {31{!exact_q[32]}}} : exact_q[31:0];
  end
endmodule
