// SPDX-License-Identifier: Apache-2.0
// Shapes of LOAD and STORE, as host/lowering/transfers.py: strided rows, joined where contiguous.
#ifndef TILEWRIGHT_HOST_LOWERING_NATIVE_TRANSFERS_H_
#define TILEWRIGHT_HOST_LOWERING_NATIVE_TRANSFERS_H_

#include <cstdint>

#include "host/machine/generated/instructions.h"

namespace tilewright::lowering {

constexpr int64_t LargestOf(isa::BitField field) { return (int64_t{1} << field.bits) - 1; }

constexpr int64_t kRowMax = LargestOf(isa::load::kXSize);       // tiles, rows, planes
constexpr int64_t kStrideMax = LargestOf(isa::load::kYStride);  // tiles
constexpr int64_t kPadMax = LargestOf(isa::load::kPadLeft);     // on one side

// One tile along one image axis; host/lowering/geometry.py Span.
struct Span {
  int64_t out;
  int64_t count;
  int64_t loaded;
  int64_t pad_low;
  int64_t pad_high;
  int64_t source;
  int64_t size;
};

// A strided region: sizes in tiles, rows and planes; strides in tiles.
struct Box {
  int64_t x_size;
  int64_t y_size;
  int64_t z_size;
  int64_t y_stride;
  int64_t z_stride;

  int64_t Tiles() const { return x_size * y_size * z_size; }
};

// The region with as long rows as contiguity in DRAM and the field widths allow.
inline Box JoinedBox(int64_t x, int64_t y, int64_t z, int64_t y_stride, int64_t z_stride) {
  for (int axis = 0; axis < 2; ++axis) {
    if ((y == 1 || y_stride == x) && x * y <= kRowMax) {
      x *= y;
      y = z;
      y_stride = z_stride;
      z = 1;
      z_stride = 0;
    }
  }
  return {x, y, z, y > 1 ? y_stride : 0, z > 1 ? z_stride : 0};
}

// A region with padding on four sides.
struct PaddedBox {
  Box box;
  int64_t pad_left;
  int64_t pad_right;
  int64_t pad_top;
  int64_t pad_bottom;
};

// The LOAD of an input tile; `stride` and `plane` are tiles from row to row and plane to plane,
// `interleave` the tiles of a pixel.
inline PaddedBox InputBox(const Span& row, const Span& column, int64_t planes, int64_t stride,
                          int64_t plane, int64_t interleave) {
  const int64_t size = column.size * interleave;
  const int64_t left = column.pad_low * interleave, right = column.pad_high * interleave;
  PaddedBox padded{{}, left, right, row.pad_low, row.pad_high};
  if (row.size == 0 || size == 0) {
    padded.box = {size, row.size, planes, 0, 0};
    return padded;
  }
  const bool sides = left != 0 || right != 0;
  if (!sides && row.pad_low == 0 && row.pad_high == 0) {
    padded.box = JoinedBox(size, row.size, planes, stride, plane);
    return padded;
  }
  if (!sides) {
    // Padding above and below a plane that is one row is padding before and after that row.
    const int64_t before = row.pad_low * size, after = row.pad_high * size;
    const Box joined = JoinedBox(size, row.size, 1, stride, 0);
    if (joined.y_size == 1 && before <= kPadMax && after <= kPadMax) {
      return {{joined.x_size, planes, 1, planes > 1 ? plane : 0, 0}, before, after, 0, 0};
    }
  }
  padded.box = {size, row.size, planes, row.size > 1 ? stride : 0, planes > 1 ? plane : 0};
  return padded;
}

}  // namespace tilewright::lowering

#endif  // TILEWRIGHT_HOST_LOWERING_NATIVE_TRANSFERS_H_
