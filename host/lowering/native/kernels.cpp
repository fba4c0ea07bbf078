// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#include <algorithm>

#include "host/machine/generated/instructions.h"

namespace tilewright::lowering {
namespace {

constexpr int64_t kIterationsMax = (int64_t{1} << isa::gemm::kIterOuter.bits) - 1;
constexpr Axis kOnce{1, 0, 0, 0};

// Joins an axis with the one inside it when they are one affine loop together.
bool Join(Axis& inside, const Axis& axis) {
  const int64_t trips = inside.trips * axis.trips;
  const bool affine = axis.acc == inside.trips * inside.acc &&
                      axis.inp == inside.trips * inside.inp &&
                      axis.wgt == inside.trips * inside.wgt;
  if (!affine || trips > kIterationsMax) return false;
  inside.trips = trips;
  return true;
}

}  // namespace

int64_t Kernel::Length() const {
  int64_t length = products;
  for (int i = 0; i < outputs; ++i) length *= axes[i].trips;
  return length;
}

bool Kernel::operator==(const Kernel& other) const {
  return outputs == other.outputs && count == other.count && products == other.products &&
         std::equal(axes, axes + count, other.axes);
}

Gemm GemmLoops(const GemmShape& s) {
  const int64_t loaded_columns =
      (s.columns - 1) * s.column_step + (s.kernel_w - 1) * s.dilation_w + 1;
  const int64_t loaded_rows = (s.rows - 1) * s.row_step + (s.kernel_h - 1) * s.dilation_h + 1;
  const int64_t line = loaded_columns * s.interleave;
  const int64_t plane = loaded_rows * line;
  const int64_t taps = s.kernel_h * s.kernel_w;
  const int64_t planes = BlocksOf(s.inp_blocks, s.interleave);
  const int64_t per_out = s.inp_per_out / s.interleave;
  const Axis axes[] = {
      {s.columns, 1, s.column_step * s.interleave, 0},
      {s.rows, s.columns, s.row_step * line, 0},
      {s.batches, s.rows * s.columns, planes * plane, 0},
      {s.blocks_out, s.batches * s.rows * s.columns, per_out * plane, s.blocks_in * taps},
  };
  Axis merged[4];
  int count = 0;
  for (const Axis& axis : axes) {
    if (axis.trips <= 1 || (count > 0 && Join(merged[count - 1], axis))) continue;
    merged[count++] = axis;
  }

  // The two longest axes, the first pair of equals: what is left needs the fewest micro-ops.
  int inner = -1, outer = -1;
  if (count == 1) inner = 0;
  int64_t most = 0;
  for (int i = 0; i < count; ++i) {
    for (int j = i + 1; j < count; ++j) {
      if (merged[i].trips * merged[j].trips > most) {
        most = merged[i].trips * merged[j].trips;
        inner = i;
        outer = j;
      }
    }
  }

  Gemm gemm{outer < 0 ? kOnce : merged[outer], inner < 0 ? kOnce : merged[inner], {}};
  Kernel& kernel = gemm.kernel;
  for (int i = count - 1; i >= 0; --i) {
    if (i != inner && i != outer) kernel.axes[kernel.count++] = merged[i];
  }
  kernel.outputs = kernel.count;
  const Axis reduction[] = {
      {BlocksOf(s.blocks_in, s.interleave), 0, plane, s.interleave * taps},
      {std::min(s.blocks_in, s.interleave), 0, 1, taps},
      {s.kernel_h, 0, s.dilation_h * line, s.kernel_w},
      {s.kernel_w, 0, s.dilation_w * s.interleave, 1},
  };
  for (const Axis& axis : reduction) {
    if (axis.trips > 1) kernel.axes[kernel.count++] = axis;
  }
  kernel.products = s.blocks_in * taps;
  return gemm;
}

void AppendMicroOps(const Kernel& kernel, std::vector<uint64_t>& uops) {
  const size_t begin = uops.size();
  uops.resize(begin + static_cast<size_t>(kernel.Length()));
  uint64_t* const base = uops.data() + begin;
  base[0] = 0;
  size_t filled = 1;
  // From the innermost axis outwards: each repeats what is there, one step further. Fields never
  // carry into each other, so a step of all operands is one addition.
  for (int i = kernel.count - 1; i >= -1; --i) {
    if (i + 1 == kernel.outputs) base[0] |= uint64_t{1} << isa::uop::kFirst.low;
    if (i < 0) break;
    const Axis& axis = kernel.axes[i];
    const uint64_t step = static_cast<uint64_t>(axis.inp) << isa::uop::kInp.low |
                          static_cast<uint64_t>(axis.wgt) << isa::uop::kWgt.low |
                          static_cast<uint64_t>(axis.acc) << isa::uop::kAcc.low;
    const auto products = static_cast<size_t>(kernel.products);
    const size_t whole = filled * static_cast<size_t>(axis.trips);
    const size_t end = i < kernel.outputs ? whole : std::min(whole, products);
    for (int64_t trip = 1; trip < axis.trips; ++trip) {
      const uint64_t offset = static_cast<uint64_t>(trip) * step;
      const size_t begin_at = static_cast<size_t>(trip) * filled;
      const size_t size = std::min(filled, end - begin_at);
      for (size_t k = 0; k < size; ++k) base[begin_at + k] = base[k] + offset;
    }
    filled = end;
  }
}

}  // namespace tilewright::lowering
