// SPDX-License-Identifier: Apache-2.0
// The sizes of a configuration, for models that serve every configuration with one build.
#ifndef TILEWRIGHT_SIM_HARNESS_GEOMETRY_H_
#define TILEWRIGHT_SIM_HARNESS_GEOMETRY_H_

#include <cstdint>

namespace tilewright {

// Plain C layout: mirrored by sim/verilator/library.py. The first kControlSizes words are the
// variables of sim/verilator/runtime/tw_geometry.sv, in its order.
struct Geometry {
  uint32_t inp_depth;  // tiles in each scratchpad
  uint32_t wgt_depth;
  uint32_t acc_depth;
  uint32_t out_depth;
  uint32_t uop_depth;
  uint32_t res_depth;
  uint32_t par_depth;
  uint32_t inp_shift;  // log2 of the bytes in a tile
  uint32_t wgt_shift;
  uint32_t acc_shift;
  uint32_t out_shift;
  uint32_t par_shift;
  uint32_t diag_shift;      // log2 of the bytes in a WGT tile's diagonal
  uint32_t acc_bank_shift;  // log2 of the tiles in an ACC bank
  uint32_t vector_parts;    // cycles of a tile in VECTOR
  uint32_t par_rows;        // reads of a PARAM tile
  uint32_t mac_pipeline;
  uint32_t burst_beats;
  uint32_t read_outstanding;
  uint32_t write_outstanding;
  uint32_t config_hash;
  uint32_t batch;  // sizes that shape data alone
  uint32_t block_in;
  uint32_t block_out;
};

constexpr uint32_t kControlSizes = 21;
static_assert(sizeof(Geometry) == (kControlSizes + 3) * sizeof(uint32_t));

}  // namespace tilewright

#endif  // TILEWRIGHT_SIM_HARNESS_GEOMETRY_H_
