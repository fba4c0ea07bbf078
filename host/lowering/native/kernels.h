// SPDX-License-Identifier: Apache-2.0
// GEMM kernels, as host/lowering/kernels.py: which loops the hardware runs, which are micro-ops.
#ifndef TILEWRIGHT_HOST_LOWERING_NATIVE_KERNELS_H_
#define TILEWRIGHT_HOST_LOWERING_NATIVE_KERNELS_H_

#include <cstdint>
#include <vector>

namespace tilewright::lowering {

inline int64_t BlocksOf(int64_t count, int64_t block) { return (count + block - 1) / block; }

// A loop: its trip count and the step of each operand, in tiles.
struct Axis {
  int64_t trips;
  int64_t acc;
  int64_t inp;
  int64_t wgt;

  bool operator==(const Axis& other) const {
    return trips == other.trips && acc == other.acc && inp == other.inp && wgt == other.wgt;
  }
};

// A micro-op sequence: output axes (outermost first), then reduction axes, of which the last stored
// block of the input may be cut short.
struct Kernel {
  static constexpr int kMaxAxes = 6;
  Axis axes[kMaxAxes];
  int outputs = 0;  // how many of them are output axes
  int count = 0;
  int64_t products = 0;  // micro-ops of a reduction

  // Micro-ops.
  int64_t Length() const;
  bool operator==(const Kernel& other) const;
};

// A GEMM instruction's loops and kernel for one shape of tile.
struct Gemm {
  Axis outer;
  Axis inner;
  Kernel kernel;
};

// Arguments of gemm_loops, which documents them.
struct GemmShape {
  int64_t blocks_out;
  int64_t blocks_in;
  int64_t batches;
  int64_t rows;
  int64_t columns;
  int64_t kernel_h;
  int64_t kernel_w;
  int64_t row_step;
  int64_t column_step;
  int64_t dilation_h;
  int64_t dilation_w;
  int64_t inp_blocks;
  int64_t inp_per_out;
  int64_t interleave;
};

// Splits one tile's loops into two hardware loops and a kernel with the fewest micro-ops.
Gemm GemmLoops(const GemmShape& shape);

// Appends a kernel's micro-ops as they lie in DRAM.
void AppendMicroOps(const Kernel& kernel, std::vector<uint64_t>& uops);

}  // namespace tilewright::lowering

#endif  // TILEWRIGHT_HOST_LOWERING_NATIVE_KERNELS_H_
