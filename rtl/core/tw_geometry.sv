// SPDX-License-Identifier: Apache-2.0
// The sizes that shape control, as its modules read them. In hardware each is the module's own
// parameter. A simulation that serves every configuration with one build replaces this file by
// sim/verilator/runtime/tw_geometry.sv, in which they are variables; nothing else of the control differs.
package tw_geometry;
  // Tiles (UOP: micro-operations) in each scratchpad.
  function automatic int unsigned inp_depth(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned wgt_depth(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned acc_depth(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned out_depth(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned uop_depth(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned res_depth(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned par_depth(int unsigned fixed); return fixed; endfunction
  // log2 of the bytes in a tile and in a WGT tile's diagonal, and of the tiles in an ACC bank.
  function automatic int unsigned inp_shift(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned wgt_shift(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned acc_shift(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned out_shift(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned par_shift(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned diag_shift(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned acc_bank_shift(int unsigned fixed); return fixed; endfunction
  // Cycles of a tile in VECTOR, reads of a PARAM tile, cycles of the MAC array.
  function automatic int unsigned vector_parts(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned par_rows(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned mac_pipeline(int unsigned fixed); return fixed; endfunction
  // Bus: longest burst, bursts in flight.
  function automatic int unsigned burst_beats(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned read_outstanding(int unsigned fixed); return fixed; endfunction
  function automatic int unsigned write_outstanding(int unsigned fixed); return fixed; endfunction
  // What the CONFIG_HASH register reads.
  function automatic int unsigned config_hash(int unsigned fixed); return fixed; endfunction
endpackage
