// SPDX-License-Identifier: Apache-2.0
// rtl/tw_geometry.sv for simulations that serve every configuration with one build: the sizes are
// variables, which the harness gives once, before the first cycle (geometry.h has their order).
package tw_geometry;
  import "DPI-C" function int unsigned tilewright_geometry(input int unsigned index);

  int unsigned inp_depth_value = tilewright_geometry(0);
  int unsigned wgt_depth_value = tilewright_geometry(1);
  int unsigned acc_depth_value = tilewright_geometry(2);
  int unsigned out_depth_value = tilewright_geometry(3);
  int unsigned uop_depth_value = tilewright_geometry(4);
  int unsigned res_depth_value = tilewright_geometry(5);
  int unsigned par_depth_value = tilewright_geometry(6);
  int unsigned inp_shift_value = tilewright_geometry(7);
  int unsigned wgt_shift_value = tilewright_geometry(8);
  int unsigned acc_shift_value = tilewright_geometry(9);
  int unsigned out_shift_value = tilewright_geometry(10);
  int unsigned par_shift_value = tilewright_geometry(11);
  int unsigned diag_shift_value = tilewright_geometry(12);
  int unsigned acc_bank_shift_value = tilewright_geometry(13);
  int unsigned vector_parts_value = tilewright_geometry(14);
  int unsigned par_rows_value = tilewright_geometry(15);
  int unsigned mac_pipeline_value = tilewright_geometry(16);
  int unsigned burst_beats_value = tilewright_geometry(17);
  int unsigned read_outstanding_value = tilewright_geometry(18);
  int unsigned write_outstanding_value = tilewright_geometry(19);
  int unsigned config_hash_value = tilewright_geometry(20);

  // The parameter of hardware, which every function is given, is what the variables replace.
  /* verilator lint_off UNUSEDSIGNAL */
  function automatic int unsigned inp_depth(int unsigned fixed);
    return inp_depth_value;
  endfunction
  function automatic int unsigned wgt_depth(int unsigned fixed);
    return wgt_depth_value;
  endfunction
  function automatic int unsigned acc_depth(int unsigned fixed);
    return acc_depth_value;
  endfunction
  function automatic int unsigned out_depth(int unsigned fixed);
    return out_depth_value;
  endfunction
  function automatic int unsigned uop_depth(int unsigned fixed);
    return uop_depth_value;
  endfunction
  function automatic int unsigned res_depth(int unsigned fixed);
    return res_depth_value;
  endfunction
  function automatic int unsigned par_depth(int unsigned fixed);
    return par_depth_value;
  endfunction
  function automatic int unsigned inp_shift(int unsigned fixed);
    return inp_shift_value;
  endfunction
  function automatic int unsigned wgt_shift(int unsigned fixed);
    return wgt_shift_value;
  endfunction
  function automatic int unsigned acc_shift(int unsigned fixed);
    return acc_shift_value;
  endfunction
  function automatic int unsigned out_shift(int unsigned fixed);
    return out_shift_value;
  endfunction
  function automatic int unsigned par_shift(int unsigned fixed);
    return par_shift_value;
  endfunction
  function automatic int unsigned diag_shift(int unsigned fixed);
    return diag_shift_value;
  endfunction
  function automatic int unsigned acc_bank_shift(int unsigned fixed);
    return acc_bank_shift_value;
  endfunction
  function automatic int unsigned vector_parts(int unsigned fixed);
    return vector_parts_value;
  endfunction
  function automatic int unsigned par_rows(int unsigned fixed);
    return par_rows_value;
  endfunction
  function automatic int unsigned mac_pipeline(int unsigned fixed);
    return mac_pipeline_value;
  endfunction
  function automatic int unsigned burst_beats(int unsigned fixed);
    return burst_beats_value;
  endfunction
  function automatic int unsigned read_outstanding(int unsigned fixed);
    return read_outstanding_value;
  endfunction
  function automatic int unsigned write_outstanding(int unsigned fixed);
    return write_outstanding_value;
  endfunction
  function automatic int unsigned config_hash(int unsigned fixed);
    return config_hash_value;
  endfunction
endpackage
