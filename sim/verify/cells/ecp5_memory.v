// SPDX-License-Identifier: Apache-2.0
// Memories and the multiplier of ECP5 (behaviour: Lattice FPGA-TN-02204 and FPGA-TN-02205), as far
// as netlists of this RTL use them: one clock, no output registers; only block RAM has contents at
// the start.

module TRELLIS_DPR16X4 #(
    parameter INITVAL = 0, WCKMUX = "WCK", WREMUX = "WRE"
) (
    input [3:0] DI, RAD, WAD,
    input WCK, WRE,
    output [3:0] DO
);
  reg [3:0] mem[16];
  always @(posedge WCK) if (WRE) mem[WAD] <= DI;
  assign DO = mem[RAD];
endmodule

module MULT18X18D #(
    parameter REG_OUTPUT_CLK = "NONE", REG_PIPELINE_CLK = "NONE",
    parameter REG_INPUTA_CLK = "NONE", REG_INPUTB_CLK = "NONE"
) (
    input A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12, A13, A14, A15, A16, A17, B0,
    B1, B2, B3, B4, B5, B6, B7, B8, B9, B10, B11, B12, B13, B14, B15, B16, B17, C0, C1, C2, C3,
    C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, C14, C15, C16, C17,
    input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
    output P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10, P11, P12, P13, P14, P15, P16, P17, P18,
    P19, P20, P21, P22, P23, P24, P25, P26, P27, P28, P29, P30, P31, P32, P33, P34, P35
);
  wire [17:0] a, b;
  assign a = {A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0};
  assign b = {B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0};
  assign {P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19,
      P18, P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0} =
      36'($signed({SIGNEDA & a[17], a}) * $signed({SIGNEDB & b[17], b}));
  initial
    if (REG_OUTPUT_CLK != "NONE" || REG_PIPELINE_CLK != "NONE" || REG_INPUTA_CLK != "NONE" ||
        REG_INPUTB_CLK != "NONE")
      $fatal(1, "MULT18X18D: no register has a model");
endmodule

module DP16KD #(
    parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18,
    parameter REGMODE_A = "NOREG", REGMODE_B = "NOREG",
    parameter WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL",
    parameter RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC", GSR = "AUTO",
    parameter CLKAMUX = "CLKA", CLKBMUX = "CLKB",
    parameter CSDECODE_A = "0b000", CSDECODE_B = "0b000",
    parameter
        INITVAL_00 = 0, INITVAL_01 = 0, INITVAL_02 = 0, INITVAL_03 = 0, INITVAL_04 = 0,
        INITVAL_05 = 0, INITVAL_06 = 0, INITVAL_07 = 0, INITVAL_08 = 0, INITVAL_09 = 0,
        INITVAL_0A = 0, INITVAL_0B = 0, INITVAL_0C = 0, INITVAL_0D = 0, INITVAL_0E = 0,
        INITVAL_0F = 0, INITVAL_10 = 0, INITVAL_11 = 0, INITVAL_12 = 0, INITVAL_13 = 0,
        INITVAL_14 = 0, INITVAL_15 = 0, INITVAL_16 = 0, INITVAL_17 = 0, INITVAL_18 = 0,
        INITVAL_19 = 0, INITVAL_1A = 0, INITVAL_1B = 0, INITVAL_1C = 0, INITVAL_1D = 0,
        INITVAL_1E = 0, INITVAL_1F = 0, INITVAL_20 = 0, INITVAL_21 = 0, INITVAL_22 = 0,
        INITVAL_23 = 0, INITVAL_24 = 0, INITVAL_25 = 0, INITVAL_26 = 0, INITVAL_27 = 0,
        INITVAL_28 = 0, INITVAL_29 = 0, INITVAL_2A = 0, INITVAL_2B = 0, INITVAL_2C = 0,
        INITVAL_2D = 0, INITVAL_2E = 0, INITVAL_2F = 0, INITVAL_30 = 0, INITVAL_31 = 0,
        INITVAL_32 = 0, INITVAL_33 = 0, INITVAL_34 = 0, INITVAL_35 = 0, INITVAL_36 = 0,
        INITVAL_37 = 0, INITVAL_38 = 0, INITVAL_39 = 0, INITVAL_3A = 0, INITVAL_3B = 0,
        INITVAL_3C = 0, INITVAL_3D = 0, INITVAL_3E = 0, INITVAL_3F = 0
) (
    input CLKA, CLKB, CEA, CEB, OCEA, OCEB, WEA, WEB, RSTA, RSTB,
    input CSA0, CSA1, CSA2, CSB0, CSB1, CSB2,
    input ADA0, ADA1, ADA2, ADA3, ADA4, ADA5, ADA6, ADA7, ADA8, ADA9, ADA10, ADA11, ADA12,
    ADA13, ADB0, ADB1, ADB2, ADB3, ADB4, ADB5, ADB6, ADB7, ADB8, ADB9, ADB10, ADB11, ADB12,
    ADB13, DIA0, DIA1, DIA2, DIA3, DIA4, DIA5, DIA6, DIA7, DIA8, DIA9, DIA10, DIA11, DIA12,
    DIA13, DIA14, DIA15, DIA16, DIA17, DIB0, DIB1, DIB2, DIB3, DIB4, DIB5, DIB6, DIB7, DIB8,
    DIB9, DIB10, DIB11, DIB12, DIB13, DIB14, DIB15, DIB16, DIB17,
    output DOA0, DOA1, DOA2, DOA3, DOA4, DOA5, DOA6, DOA7, DOA8, DOA9, DOA10, DOA11, DOA12,
    DOA13, DOA14, DOA15, DOA16, DOA17, DOB0, DOB1, DOB2, DOB3, DOB4, DOB5, DOB6, DOB7, DOB8,
    DOB9, DOB10, DOB11, DOB12, DOB13, DOB14, DOB15, DOB16, DOB17
);
  // With 36 bits, A writes and B reads both halves of the data together.
  localparam WideA = DATA_WIDTH_A == 36;
  localparam WideB = DATA_WIDTH_B == 36;
  wire [13:0] addr_a, addr_b;
  assign addr_a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2,
      ADA1, ADA0};
  assign addr_b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2,
      ADB1, ADB0};
  wire [35:0] in_a, in_b;
  assign in_a[17:0] = {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8,
      DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0};
  assign in_b[17:0] = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8,
      DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0};
  assign in_a[35:18] = in_b[17:0];
  assign in_b[35:18] = 0;

  // From 18 bits on, the low address bits enable the bytes of a write.
  function automatic [7:0] bytes(integer width, [3:0] low);
    return width == 36 ? 8'(low) : width == 18 ? 8'(low[1:0]) : 8'd1;
  endfunction

  wire [63:0] do_a, do_b;
  wire [7:0] dop_a, dop_b;
  wire [35:0] out_a, out_b;
  for (genvar i = 0; i < 4; i++) begin : gen_byte
    assign out_a[9*i+:9] = {dop_a[i], do_a[8*i+:8]};
    assign out_b[9*i+:9] = {dop_b[i], do_b[8*i+:8]};
  end
  function automatic [31:0] data(input [35:0] value, integer width);
    return width < 9 ? 32'(value) : {value[34:27], value[25:18], value[16:9], value[7:0]};
  endfunction
  assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6,
      DOA5, DOA4, DOA3, DOA2, DOA1, DOA0} = WideB ? out_b[17:0] : out_a[17:0];
  assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6,
      DOB5, DOB4, DOB3, DOB2, DOB1, DOB0} = WideB ? out_b[35:18] : out_b[17:0];

  // Words of 18 bits, two bytes of nine, lie 20 bits apart.
  localparam [64*320-1:0] Initial = {
      320'(INITVAL_3F), 320'(INITVAL_3E), 320'(INITVAL_3D), 320'(INITVAL_3C),
      320'(INITVAL_3B), 320'(INITVAL_3A), 320'(INITVAL_39), 320'(INITVAL_38),
      320'(INITVAL_37), 320'(INITVAL_36), 320'(INITVAL_35), 320'(INITVAL_34),
      320'(INITVAL_33), 320'(INITVAL_32), 320'(INITVAL_31), 320'(INITVAL_30),
      320'(INITVAL_2F), 320'(INITVAL_2E), 320'(INITVAL_2D), 320'(INITVAL_2C),
      320'(INITVAL_2B), 320'(INITVAL_2A), 320'(INITVAL_29), 320'(INITVAL_28),
      320'(INITVAL_27), 320'(INITVAL_26), 320'(INITVAL_25), 320'(INITVAL_24),
      320'(INITVAL_23), 320'(INITVAL_22), 320'(INITVAL_21), 320'(INITVAL_20),
      320'(INITVAL_1F), 320'(INITVAL_1E), 320'(INITVAL_1D), 320'(INITVAL_1C),
      320'(INITVAL_1B), 320'(INITVAL_1A), 320'(INITVAL_19), 320'(INITVAL_18),
      320'(INITVAL_17), 320'(INITVAL_16), 320'(INITVAL_15), 320'(INITVAL_14),
      320'(INITVAL_13), 320'(INITVAL_12), 320'(INITVAL_11), 320'(INITVAL_10),
      320'(INITVAL_0F), 320'(INITVAL_0E), 320'(INITVAL_0D), 320'(INITVAL_0C),
      320'(INITVAL_0B), 320'(INITVAL_0A), 320'(INITVAL_09), 320'(INITVAL_08),
      320'(INITVAL_07), 320'(INITVAL_06), 320'(INITVAL_05), 320'(INITVAL_04),
      320'(INITVAL_03), 320'(INITVAL_02), 320'(INITVAL_01), 320'(INITVAL_00)
  };
  function automatic [2048*9-1:0] contents();
    for (integer word = 0; word < 1024; word++) contents[18*word+:18] = Initial[20*word+:18];
  endfunction

  tw_block_ram #(
      .Bytes(2048),
      .Contents(contents()),
      .ReadA(WideA ? 0 : DATA_WIDTH_A),
      .WriteA(DATA_WIDTH_A),
      .ReadB(DATA_WIDTH_B),
      .WriteB(WideB || WideA ? 0 : DATA_WIDTH_B)
  ) u_ram (
      .clk(CLKA),
      .read_a(CEA && (!WEA || WRITEMODE_A == "READBEFOREWRITE")),
      .read_b(CEB && (!WEB || WRITEMODE_B == "READBEFOREWRITE")),
      .write_a(bytes(DATA_WIDTH_A, addr_a[3:0]) & {8{CEA && WEA}}),
      .write_b(bytes(DATA_WIDTH_B, addr_b[3:0]) & {8{CEB && WEB}}),
      .addr_a(addr_a),
      .addr_b(addr_b),
      .di_a(64'(data(in_a, DATA_WIDTH_A))),
      .di_b(64'(data(in_b, DATA_WIDTH_B))),
      .dip_a({4'd0, in_a[35], in_a[26], in_a[17], in_a[8]}),
      .dip_b({4'd0, in_b[35], in_b[26], in_b[17], in_b[8]}),
      .do_a(do_a),
      .do_b(do_b),
      .dop_a(dop_a),
      .dop_b(dop_b)
  );
  initial begin
    if (REGMODE_A != "NOREG" || REGMODE_B != "NOREG")
      $fatal(1, "DP16KD: no output register has a model");
    if (WRITEMODE_A == "WRITETHROUGH" || WRITEMODE_B == "WRITETHROUGH")
      $fatal(1, "DP16KD: WRITETHROUGH has no model");
    if (CLKAMUX != "CLKA" || CLKBMUX != "CLKB") $fatal(1, "DP16KD: one rising edge has a model");
  end
  always @(posedge CLKA) if (RSTA || RSTB) $fatal(1, "DP16KD: no reset has a model");
endmodule
