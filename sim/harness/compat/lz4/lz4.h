// SPDX-License-Identifier: Apache-2.0
// The part of the LZ4 interface that Verilator's FST writer uses, for machines without the LZ4
// development files. It writes valid LZ4 blocks that hold literals only: files open everywhere but
// are larger. Never on the include path when the system's own lz4.h is usable.
#ifndef TILEWRIGHT_SIM_HARNESS_COMPAT_LZ4_H_
#define TILEWRIGHT_SIM_HARNESS_COMPAT_LZ4_H_

#include <cstring>

// Bytes that a block of `size` literals can need: token, length bytes, literals.
inline int LZ4_compressBound(int size) { return size < 0 ? 0 : size + size / 255 + 16; }

// One sequence without a match: the token's high nibble is the literal count, 15 meaning that bytes
// of 255 and a last smaller one add to it. Returns the bytes written, 0 if they do not fit.
inline int LZ4_compress_default(const char* source, char* target, int size, int capacity) {
  if (size < 0 || capacity < LZ4_compressBound(size)) return 0;
  char* out = target;
  if (size < 15) {
    *out++ = static_cast<char>(size << 4);
  } else {
    *out++ = static_cast<char>(0xf0);
    int rest = size - 15;
    for (; rest >= 255; rest -= 255) *out++ = static_cast<char>(0xff);
    *out++ = static_cast<char>(rest);
  }
  if (size > 0) std::memcpy(out, source, static_cast<size_t>(size));
  return static_cast<int>(out - target) + size;
}

#endif  // TILEWRIGHT_SIM_HARNESS_COMPAT_LZ4_H_
