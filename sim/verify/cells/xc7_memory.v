// SPDX-License-Identifier: Apache-2.0
// Memories of the 7 series (behaviour: AMD UG953 and UG473), as far as netlists of this RTL use
// them: one clock, READ_FIRST, no output registers, no contents before the first write.

module RAM32M #(
    parameter [63:0] INIT_A = 0, INIT_B = 0, INIT_C = 0, INIT_D = 0,
    parameter IS_WCLK_INVERTED = 0
) (
    output [1:0] DOA, DOB, DOC, DOD,
    input [4:0] ADDRA, ADDRB, ADDRC, ADDRD,
    input [1:0] DIA, DIB, DIC, DID,
    input WCLK, WE
);
  reg [1:0] a[32], b[32], c[32], d[32];
  always @(posedge WCLK)
    if (WE) begin
      a[ADDRD] <= DIA;
      b[ADDRD] <= DIB;
      c[ADDRD] <= DIC;
      d[ADDRD] <= DID;
    end
  assign DOA = a[ADDRA];
  assign DOB = b[ADDRB];
  assign DOC = c[ADDRC];
  assign DOD = d[ADDRD];
endmodule

module RAM64M #(
    parameter [63:0] INIT_A = 0, INIT_B = 0, INIT_C = 0, INIT_D = 0,
    parameter IS_WCLK_INVERTED = 0
) (
    output DOA, DOB, DOC, DOD,
    input [5:0] ADDRA, ADDRB, ADDRC, ADDRD,
    input DIA, DIB, DIC, DID,
    input WCLK, WE
);
  reg [63:0] a, b, c, d;
  always @(posedge WCLK)
    if (WE) begin
      a[ADDRD] <= DIA;
      b[ADDRD] <= DIB;
      c[ADDRD] <= DIC;
      d[ADDRD] <= DID;
    end
  assign DOA = a[ADDRA];
  assign DOB = b[ADDRB];
  assign DOC = c[ADDRC];
  assign DOD = d[ADDRD];
endmodule

// Memories of one port: a look-up per bit, and a write at the address that is read.

module RAM64X1S #(
    parameter [63:0] INIT = 0,
    parameter IS_WCLK_INVERTED = 0
) (
    output O,
    input A0, A1, A2, A3, A4, A5, D, WCLK, WE
);
  reg [63:0] bits;
  wire [5:0] address;
  assign address = {A5, A4, A3, A2, A1, A0};
  always @(posedge WCLK) if (WE) bits[address] <= D;
  assign O = bits[address];
endmodule

module RAM128X1S #(
    parameter [127:0] INIT = 0,
    parameter IS_WCLK_INVERTED = 0
) (
    output O,
    input A0, A1, A2, A3, A4, A5, A6, D, WCLK, WE
);
  reg [127:0] bits;
  wire [6:0] address;
  assign address = {A6, A5, A4, A3, A2, A1, A0};
  always @(posedge WCLK) if (WE) bits[address] <= D;
  assign O = bits[address];
endmodule

module RAM256X1S #(
    parameter [255:0] INIT = 0,
    parameter IS_WCLK_INVERTED = 0
) (
    output O,
    input [7:0] A,
    input D, WCLK, WE
);
  reg [255:0] bits;
  always @(posedge WCLK) if (WE) bits[A] <= D;
  assign O = bits[A];
endmodule

module RAMB18E1 #(
    parameter RAM_MODE = "TDP", WRITE_MODE_A = "WRITE_FIRST", WRITE_MODE_B = "WRITE_FIRST",
    parameter READ_WIDTH_A = 0, READ_WIDTH_B = 0, WRITE_WIDTH_A = 0, WRITE_WIDTH_B = 0,
    parameter DOA_REG = 0, DOB_REG = 0, INIT_A = 0, INIT_B = 0, SRVAL_A = 0, SRVAL_B = 0,
    parameter
        INIT_00 = 0, INIT_01 = 0, INIT_02 = 0, INIT_03 = 0, INIT_04 = 0, INIT_05 = 0, INIT_06 =
        0, INIT_07 = 0, INIT_08 = 0, INIT_09 = 0, INIT_0A = 0, INIT_0B = 0, INIT_0C = 0, INIT_0D
        = 0, INIT_0E = 0, INIT_0F = 0, INIT_10 = 0, INIT_11 = 0, INIT_12 = 0, INIT_13 = 0,
        INIT_14 = 0, INIT_15 = 0, INIT_16 = 0, INIT_17 = 0, INIT_18 = 0, INIT_19 = 0, INIT_1A =
        0, INIT_1B = 0, INIT_1C = 0, INIT_1D = 0, INIT_1E = 0, INIT_1F = 0, INIT_20 = 0, INIT_21
        = 0, INIT_22 = 0, INIT_23 = 0, INIT_24 = 0, INIT_25 = 0, INIT_26 = 0, INIT_27 = 0,
        INIT_28 = 0, INIT_29 = 0, INIT_2A = 0, INIT_2B = 0, INIT_2C = 0, INIT_2D = 0, INIT_2E =
        0, INIT_2F = 0, INIT_30 = 0, INIT_31 = 0, INIT_32 = 0, INIT_33 = 0, INIT_34 = 0, INIT_35
        = 0, INIT_36 = 0, INIT_37 = 0, INIT_38 = 0, INIT_39 = 0, INIT_3A = 0, INIT_3B = 0,
        INIT_3C = 0, INIT_3D = 0, INIT_3E = 0, INIT_3F = 0, INITP_00 = 0, INITP_01 = 0, INITP_02
        = 0, INITP_03 = 0, INITP_04 = 0, INITP_05 = 0, INITP_06 = 0, INITP_07 = 0
) (
    output [15:0] DOADO, DOBDO,
    output [1:0] DOPADOP, DOPBDOP,
    input [15:0] DIADI, DIBDI,
    input [1:0] DIPADIP, DIPBDIP,
    input [13:0] ADDRARDADDR, ADDRBWRADDR,
    input CLKARDCLK, CLKBWRCLK, ENARDEN, ENBWREN,
    input REGCEAREGCE, REGCEB, RSTRAMARSTRAM, RSTRAMB, RSTREGARSTREG, RSTREGB,
    input [1:0] WEA,
    input [3:0] WEBWE
);
  // As a simple dual port, A reads and B writes both halves of the data together.
  localparam Simple = RAM_MODE == "SDP";
  wire [63:0] do_a, do_b;
  wire [7:0] dop_a, dop_b;
  assign DOADO = do_a[15:0];
  assign DOPADOP = dop_a[1:0];
  assign DOBDO = Simple ? do_a[31:16] : do_b[15:0];
  assign DOPBDOP = Simple ? dop_a[3:2] : dop_b[1:0];
  tw_block_ram #(
      .Bytes(2048),
      .ReadA(READ_WIDTH_A),
      .WriteA(Simple ? 0 : WRITE_WIDTH_A),
      .ReadB(Simple ? 0 : READ_WIDTH_B),
      .WriteB(WRITE_WIDTH_B)
  ) u_ram (
      .clk(CLKARDCLK),
      .read_a(ENARDEN),
      .read_b(ENBWREN),
      .write_a(8'(WEA) & {8{ENARDEN}}),
      .write_b(8'(WEBWE) & {8{ENBWREN}}),
      .addr_a(ADDRARDADDR[13:0]),
      .addr_b(ADDRBWRADDR[13:0]),
      .di_a(64'(DIADI)),
      .di_b(Simple ? 64'({DIBDI, DIADI}) : 64'(DIBDI)),
      .dip_a(8'(DIPADIP)),
      .dip_b(Simple ? 8'({DIPBDIP, DIPADIP}) : 8'(DIPBDIP)),
      .do_a(do_a),
      .do_b(do_b),
      .dop_a(dop_a),
      .dop_b(dop_b)
  );
  initial begin
    if ((WRITE_WIDTH_A != 0 && WRITE_MODE_A != "READ_FIRST") ||
        (WRITE_WIDTH_B != 0 && WRITE_MODE_B != "READ_FIRST"))
      $fatal(1, "RAMB18E1: only READ_FIRST has a model");
    if (DOA_REG != 0 || DOB_REG != 0) $fatal(1, "RAMB18E1: no output register has a model");
    if (Simple && ((READ_WIDTH_A != 0 && READ_WIDTH_A != 36) || WRITE_WIDTH_B != 36))
      $fatal(1, "RAMB18E1: a simple dual port has a model for its full width only");
  end
  always @(posedge CLKARDCLK)
    if (RSTRAMARSTRAM || RSTRAMB) $fatal(1, "RAMB18E1: no reset has a model");
endmodule

module RAMB36E1 #(
    parameter RAM_MODE = "TDP", WRITE_MODE_A = "WRITE_FIRST", WRITE_MODE_B = "WRITE_FIRST",
    parameter READ_WIDTH_A = 0, READ_WIDTH_B = 0, WRITE_WIDTH_A = 0, WRITE_WIDTH_B = 0,
    parameter DOA_REG = 0, DOB_REG = 0, INIT_A = 0, INIT_B = 0, SRVAL_A = 0, SRVAL_B = 0,
    parameter RAM_EXTENSION_A = "NONE", RAM_EXTENSION_B = "NONE",
    parameter
        INIT_00 = 0, INIT_01 = 0, INIT_02 = 0, INIT_03 = 0, INIT_04 = 0, INIT_05 = 0, INIT_06 =
        0, INIT_07 = 0, INIT_08 = 0, INIT_09 = 0, INIT_0A = 0, INIT_0B = 0, INIT_0C = 0, INIT_0D
        = 0, INIT_0E = 0, INIT_0F = 0, INIT_10 = 0, INIT_11 = 0, INIT_12 = 0, INIT_13 = 0,
        INIT_14 = 0, INIT_15 = 0, INIT_16 = 0, INIT_17 = 0, INIT_18 = 0, INIT_19 = 0, INIT_1A =
        0, INIT_1B = 0, INIT_1C = 0, INIT_1D = 0, INIT_1E = 0, INIT_1F = 0, INIT_20 = 0, INIT_21
        = 0, INIT_22 = 0, INIT_23 = 0, INIT_24 = 0, INIT_25 = 0, INIT_26 = 0, INIT_27 = 0,
        INIT_28 = 0, INIT_29 = 0, INIT_2A = 0, INIT_2B = 0, INIT_2C = 0, INIT_2D = 0, INIT_2E =
        0, INIT_2F = 0, INIT_30 = 0, INIT_31 = 0, INIT_32 = 0, INIT_33 = 0, INIT_34 = 0, INIT_35
        = 0, INIT_36 = 0, INIT_37 = 0, INIT_38 = 0, INIT_39 = 0, INIT_3A = 0, INIT_3B = 0,
        INIT_3C = 0, INIT_3D = 0, INIT_3E = 0, INIT_3F = 0, INIT_40 = 0, INIT_41 = 0, INIT_42 =
        0, INIT_43 = 0, INIT_44 = 0, INIT_45 = 0, INIT_46 = 0, INIT_47 = 0, INIT_48 = 0, INIT_49
        = 0, INIT_4A = 0, INIT_4B = 0, INIT_4C = 0, INIT_4D = 0, INIT_4E = 0, INIT_4F = 0,
        INIT_50 = 0, INIT_51 = 0, INIT_52 = 0, INIT_53 = 0, INIT_54 = 0, INIT_55 = 0, INIT_56 =
        0, INIT_57 = 0, INIT_58 = 0, INIT_59 = 0, INIT_5A = 0, INIT_5B = 0, INIT_5C = 0, INIT_5D
        = 0, INIT_5E = 0, INIT_5F = 0, INIT_60 = 0, INIT_61 = 0, INIT_62 = 0, INIT_63 = 0,
        INIT_64 = 0, INIT_65 = 0, INIT_66 = 0, INIT_67 = 0, INIT_68 = 0, INIT_69 = 0, INIT_6A =
        0, INIT_6B = 0, INIT_6C = 0, INIT_6D = 0, INIT_6E = 0, INIT_6F = 0, INIT_70 = 0, INIT_71
        = 0, INIT_72 = 0, INIT_73 = 0, INIT_74 = 0, INIT_75 = 0, INIT_76 = 0, INIT_77 = 0,
        INIT_78 = 0, INIT_79 = 0, INIT_7A = 0, INIT_7B = 0, INIT_7C = 0, INIT_7D = 0, INIT_7E =
        0, INIT_7F = 0, INITP_00 = 0, INITP_01 = 0, INITP_02 = 0, INITP_03 = 0, INITP_04 = 0,
        INITP_05 = 0, INITP_06 = 0, INITP_07 = 0, INITP_08 = 0, INITP_09 = 0, INITP_0A = 0,
        INITP_0B = 0, INITP_0C = 0, INITP_0D = 0, INITP_0E = 0, INITP_0F = 0
) (
    output [31:0] DOADO, DOBDO,
    output [3:0] DOPADOP, DOPBDOP,
    input [31:0] DIADI, DIBDI,
    input [3:0] DIPADIP, DIPBDIP,
    input [15:0] ADDRARDADDR, ADDRBWRADDR,
    input CLKARDCLK, CLKBWRCLK, ENARDEN, ENBWREN,
    input REGCEAREGCE, REGCEB, RSTRAMARSTRAM, RSTRAMB, RSTREGARSTREG, RSTREGB,
    input [3:0] WEA,
    input [7:0] WEBWE
);
  // As a simple dual port, A reads and B writes both halves of the data together.
  localparam Simple = RAM_MODE == "SDP";
  wire [63:0] do_a, do_b;
  wire [7:0] dop_a, dop_b;
  assign DOADO = do_a[31:0];
  assign DOPADOP = dop_a[3:0];
  assign DOBDO = Simple ? do_a[63:32] : do_b[31:0];
  assign DOPBDOP = Simple ? dop_a[7:4] : dop_b[3:0];
  tw_block_ram #(
      .Bytes(4096),
      .ReadA(READ_WIDTH_A),
      .WriteA(Simple ? 0 : WRITE_WIDTH_A),
      .ReadB(Simple ? 0 : READ_WIDTH_B),
      .WriteB(WRITE_WIDTH_B)
  ) u_ram (
      .clk(CLKARDCLK),
      .read_a(ENARDEN),
      .read_b(ENBWREN),
      .write_a(8'(WEA) & {8{ENARDEN}}),
      .write_b(8'(WEBWE) & {8{ENBWREN}}),
      .addr_a(ADDRARDADDR[14:0]),
      .addr_b(ADDRBWRADDR[14:0]),
      .di_a(64'(DIADI)),
      .di_b(Simple ? 64'({DIBDI, DIADI}) : 64'(DIBDI)),
      .dip_a(8'(DIPADIP)),
      .dip_b(Simple ? 8'({DIPBDIP, DIPADIP}) : 8'(DIPBDIP)),
      .do_a(do_a),
      .do_b(do_b),
      .dop_a(dop_a),
      .dop_b(dop_b)
  );
  initial begin
    if ((WRITE_WIDTH_A != 0 && WRITE_MODE_A != "READ_FIRST") ||
        (WRITE_WIDTH_B != 0 && WRITE_MODE_B != "READ_FIRST"))
      $fatal(1, "RAMB36E1: only READ_FIRST has a model");
    if (DOA_REG != 0 || DOB_REG != 0) $fatal(1, "RAMB36E1: no output register has a model");
    if (Simple && ((READ_WIDTH_A != 0 && READ_WIDTH_A != 72) || WRITE_WIDTH_B != 72))
      $fatal(1, "RAMB36E1: a simple dual port has a model for its full width only");
    if (RAM_EXTENSION_A != "NONE") $fatal(1, "RAMB36E1: no cascade has a model");
  end
  always @(posedge CLKARDCLK)
    if (RSTRAMARSTRAM || RSTRAMB) $fatal(1, "RAMB36E1: no reset has a model");
endmodule
