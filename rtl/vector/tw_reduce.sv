// SPDX-License-Identifier: Apache-2.0
// Reduction of VECTOR: the maximum or the sum of a row over its tiles and over the channels of each.
//
// A part of a tile has whole rows, or a piece of one. One part a cycle is issued, to be reduced or
// put. Results of VECTOR come in stage 3. Their lanes are reduced in a tree of three stages after a
// register, four values to one in each, and join the total of their row in stage 8. A part that is
// put comes after the last tile of its row: it takes the total in its stage 7, and is written to ACC
// in stage 10, the same value in every lane of a row. Results of long operations come two stages
// later, and so do all stages of their instruction.
module tw_reduce #(
    parameter int unsigned Batch    = 1,
    parameter int unsigned BlockOut = 16,
    parameter int unsigned Lanes    = 16,  // elements a cycle, divides Batch * BlockOut
    parameter int unsigned AccDepth = 2048,  // tiles
    localparam int unsigned AccAddrBits = $clog2(AccDepth),
    localparam int unsigned Parts = Batch * BlockOut / Lanes,
    localparam int unsigned PartBits = Parts > 1 ? $clog2(Parts) : 1
) (
    input  logic                    clk_i,
    input  logic                    rst_i,
    // stable while parts of an instruction pass
    input  logic                    maximum_i,  // else the sum
    input  logic                    log_i,      // its logarithm
    input  logic                    late_i,     // long operations
    input  logic [             5:0] lanes_i,    // channels of the last tile that count; 0: all
    // stage 0
    input  logic                    work_i,     // a part to reduce is issued
    input  logic                    put_i,      // a part to write
    input  logic                    first_i,    // of the first tile
    input  logic                    last_i,     // of the last tile
    input  logic [    PartBits-1:0] part_i,
    input  logic [ AccAddrBits-1:0] tile_i,     // to write
    // stage 3
    input  logic [    Lanes*32-1:0] data_i,
    // stage 10
    output logic                    write_o,
    output logic [ AccAddrBits-1:0] tile_o,
    output logic [    PartBits-1:0] part_o,
    output logic [    Lanes*32-1:0] data_o
);
  localparam int unsigned Result = 3;  // stage in which results come
  localparam int unsigned Leaf = 4;    // of the registers before the tree
  localparam int unsigned Tree = 7;    // of the register behind it
  localparam int unsigned Total = 7;   // in which a put part takes its total
  localparam int unsigned Write = 10;
  localparam int unsigned RowsInPart = Lanes > BlockOut ? Lanes / BlockOut : 1;
  localparam int unsigned Width = Lanes / RowsInPart;        // lanes of a row in a part
  localparam int unsigned PartsOfRow = BlockOut / Width;
  localparam int unsigned SumBits = tw_pkg::SumBits;

  typedef logic signed [37:0] tree_t;
  typedef logic signed [SumBits-1:0] sum_t;
  function automatic tree_t both(logic maximum, tree_t a, tree_t b);
    return maximum ? (a > b ? a : b) : a + b;
  endfunction

  // Row of a part, less its first one, and whether the part begins it.
  function automatic logic [31:0] row_of(logic [PartBits-1:0] part);
    return Parts == 1 ? '0 : 32'(part) * RowsInPart / PartsOfRow;
  endfunction
  function automatic logic [31:0] piece_of(logic [PartBits-1:0] part);
    return PartsOfRow == 1 ? '0 : 32'(part) % PartsOfRow;
  endfunction

  typedef struct packed {
    logic work, put, first, last;  // first: piece of a row
    logic [PartBits-1:0] part;
    logic [AccAddrBits-1:0] tile;
  } issued_t;
  issued_t now, before_q, issued_q, issued;
  assign now = '{
      work: work_i,
      put: put_i,
      first: first_i && piece_of(part_i) == '0,
      last: last_i,
      part: part_i,
      tile: tile_i
  };
  assign issued = late_i ? issued_q : now;

  logic [Tree:1] valid_q, first_q;
  logic [Result:1] last_q;
  logic [Write:1] put_q;
  logic [Write:1][PartBits-1:0] part_q;
  logic [Write:1][AccAddrBits-1:0] tile_q;
  always_ff @(posedge clk_i) begin
    {issued_q, before_q} <= {before_q, now};
    if (rst_i) begin
      {before_q.work, before_q.put, issued_q.work, issued_q.put} <= '0;
    end
    valid_q <= rst_i ? '0 : {valid_q[Tree-1:1], issued.work};
    first_q <= {first_q[Tree-1:1], issued.first};
    last_q  <= {last_q[Result-1:1], issued.last};
    put_q   <= rst_i ? '0 : {put_q[Write-1:1], issued.put};
    part_q  <= {part_q[Write-1:1], issued.part};
    tile_q  <= {tile_q[Write-1:1], issued.tile};
  end
  assign write_o = put_q[Write];
  assign tile_o = tile_q[Write];
  assign part_o = part_q[Write];

  for (genvar r = 0; r < RowsInPart; r++) begin : gen_row
    // Leaves: lanes that do not count are the least value, or 0.
    logic [Width-1:0][31:0] leaf_q;
    for (genvar l = 0; l < Width; l++) begin : gen_leaf
      logic counts;
      assign counts = !last_q[Result] || (lanes_i == '0) ||
                      (piece_of(part_q[Result]) * Width + l < 32'(lanes_i));
      always_ff @(posedge clk_i) begin
        if (valid_q[Result]) leaf_q[l] <= counts ? data_i[(r*Width+l)*32+:32] : {maximum_i, 31'd0};
      end
    end

    // Three stages of the tree; one that has nothing left to reduce passes its value.
    localparam int unsigned Fours = (Width + 3) / 4;
    localparam int unsigned Sixteens = (Fours + 3) / 4;
    logic signed [Fours-1:0][33:0] four_q;
    logic signed [Sixteens-1:0][35:0] sixteen_q;
    tree_t tree_q;
    for (genvar n = 0; n < Fours; n++) begin : gen_four
      tree_t value;
      always_comb begin
        value = tree_t'($signed(leaf_q[4*n]));
        if (Width >= 2) value = both(maximum_i, value, tree_t'($signed(leaf_q[4*n+(Width>1?1:0)])));
        if (Width >= 4)
          value = both(maximum_i, value,
                       both(maximum_i, tree_t'($signed(leaf_q[4*n+(Width>3?2:0)])),
                            tree_t'($signed(leaf_q[4*n+(Width>3?3:0)]))));
      end
      always_ff @(posedge clk_i) if (valid_q[Leaf]) four_q[n] <= value[33:0];
    end
    for (genvar n = 0; n < Sixteens; n++) begin : gen_sixteen
      tree_t value;
      always_comb begin
        value = tree_t'($signed(four_q[4*n]));
        if (Fours >= 2) value = both(maximum_i, value, tree_t'($signed(four_q[4*n+(Fours>1?1:0)])));
        if (Fours >= 4)
          value = both(maximum_i, value,
                       both(maximum_i, tree_t'($signed(four_q[4*n+(Fours>3?2:0)])),
                            tree_t'($signed(four_q[4*n+(Fours>3?3:0)]))));
      end
      always_ff @(posedge clk_i) if (valid_q[Leaf+1]) sixteen_q[n] <= value[35:0];
    end
    tree_t whole;
    always_comb begin
      whole = tree_t'($signed(sixteen_q[0]));
      if (Sixteens >= 2)
        whole = both(maximum_i, whole, tree_t'($signed(sixteen_q[Sixteens>1?1:0])));
      if (Sixteens >= 4)
        whole = both(maximum_i, whole,
                     both(maximum_i, tree_t'($signed(sixteen_q[Sixteens>3?2:0])),
                          tree_t'($signed(sixteen_q[Sixteens>3?3:0]))));
    end
    always_ff @(posedge clk_i) if (valid_q[Leaf+2]) tree_q <= whole;

    // Totals: every RowsInPart-th row of the tile.
    localparam int unsigned Rows = Batch / RowsInPart;
    localparam int unsigned RowBits = Rows > 1 ? $clog2(Rows) : 1;
    sum_t total_q[Rows];
    sum_t total, wide, put;
    logic [RowBits-1:0] row, put_row;
    assign row = RowBits'(row_of(part_q[Tree]) / RowsInPart);
    assign put_row = RowBits'(row_of(part_q[Total]) / RowsInPart);
    assign total = total_q[row];
    assign wide = sum_t'(tree_q);
    assign put = total_q[put_row];
    always_ff @(posedge clk_i) begin
      if (valid_q[Tree]) begin
        if (first_q[Tree]) total_q[row] <= wide;
        else if (maximum_i) total_q[row] <= wide > total ? wide : total;
        else total_q[row] <= total + wide;
      end
    end

    logic [31:0] result;
    tw_log2 u_log2 (
        .clk_i,
        .log_i,
        .value_i (put),
        .result_o(result)
    );
    assign data_o[r*Width*32+:Width*32] = {Width{result}};
  end
endmodule
