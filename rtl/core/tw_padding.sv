// SPDX-License-Identifier: Apache-2.0
// Walks the padding tiles of a LOAD: rows above and below, columns left and right of the data.
module tw_padding (
    input  logic        clk_i,
    input  logic        rst_i,
    input  logic        start_i,      // load a region; the fields below are held until done_o
    input  logic [19:0] base_i,       // first tile of the padded region
    input  logic [16:0] width_i,      // tiles in a padded row
    input  logic [16:0] height_i,     // padded rows in a plane
    input  logic [15:0] x_size_i,     // data tiles in a row
    input  logic [15:0] y_size_i,     // data rows in a plane
    input  logic [15:0] z_size_i,     // planes, at least 1
    input  logic [ 5:0] pad_left_i,
    input  logic [ 5:0] pad_right_i,
    input  logic [ 5:0] pad_top_i,
    output logic        valid_o,      // a padding tile is offered
    input  logic        ready_i,      // and written
    output logic [19:0] addr_o,
    output logic        step_o,       // a row is over, whether it had padding or not
    output logic        done_o
);
  typedef enum logic [1:0] {
    Idle,   // nothing to do
    Row,    // choose the run at the start of a row
    Left,   // write the left columns, or a whole padding row
    Right   // write the right columns
  } state_e;

  state_e state_q, state_d;
  logic [19:0] addr_q, addr_d;
  logic [16:0] run_q, run_d;  // tiles left in the run
  logic [16:0] row_q, row_d;
  logic [15:0] plane_q, plane_d;
  logic none_q;          // no data tile in a row
  logic [16:0] below_q;  // first row below the data
  logic full_row, last_row, row_end;
  // Of the row: it is a padding row; it ends a plane; it ends the last one. Registers since Row.
  logic full_q, last_row_q, last_q;

  assign full_row = (row_q < 17'(pad_top_i)) || (row_q >= below_q) || none_q;
  assign last_row = row_q + 17'd1 >= height_i;
  assign valid_o = ((state_q == Left) || (state_q == Right)) && (run_q != '0);
  assign addr_o = addr_q;
  assign step_o = row_end;
  assign done_o = state_q == Idle;

  always_comb begin
    state_d = state_q;
    addr_d  = addr_q;
    run_d   = run_q;
    row_d   = row_q;
    plane_d = plane_q;
    row_end = 1'b0;
    unique case (state_q)
      Idle: ;
      Row: begin
        run_d   = full_row ? width_i : 17'(pad_left_i);
        state_d = Left;
      end
      Left: begin
        if (run_q != '0) begin
          if (ready_i) begin
            addr_d = addr_q + 1'b1;
            run_d  = run_q - 1'b1;
          end
        end else if (full_q) begin
          row_end = 1'b1;
        end else begin
          addr_d  = addr_q + 20'(x_size_i);
          run_d   = 17'(pad_right_i);
          state_d = Right;
        end
      end
      Right: begin
        if (run_q != '0) begin
          if (ready_i) begin
            addr_d = addr_q + 1'b1;
            run_d  = run_q - 1'b1;
          end
        end else begin
          row_end = 1'b1;
        end
      end
      default: state_d = Idle;
    endcase
    if (row_end) begin
      state_d = Row;
      row_d   = last_row_q ? '0 : row_q + 1'b1;
      if (last_row_q) plane_d = plane_q + 1'b1;
      if (last_q) state_d = Idle;
    end
    if (start_i) begin
      state_d = Row;
      addr_d  = base_i;
      row_d   = '0;
      plane_d = '0;
    end
  end

  always_ff @(posedge clk_i) begin
    addr_q  <= addr_d;
    run_q   <= run_d;
    row_q   <= row_d;
    plane_q <= plane_d;
    none_q  <= x_size_i == '0;
    below_q <= 17'(pad_top_i) + 17'(y_size_i);
    if (state_q == Row) begin
      full_q     <= full_row;
      last_row_q <= last_row;
      last_q     <= last_row && (plane_q + 16'd1 >= z_size_i);
    end
    if (rst_i) state_q <= Idle;
    else state_q <= state_d;
  end
endmodule
