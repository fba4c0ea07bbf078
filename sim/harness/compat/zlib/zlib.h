// SPDX-License-Identifier: Apache-2.0
// The part of the zlib interface that Verilator's FST writer uses, for machines without the zlib
// development files. It writes valid zlib streams (RFC 1950) of stored blocks (RFC 1951, 3.2.4):
// files open everywhere but are larger. Never on the include path when the system's own is usable.
#ifndef TILEWRIGHT_SIM_HARNESS_COMPAT_ZLIB_H_
#define TILEWRIGHT_SIM_HARNESS_COMPAT_ZLIB_H_

#include <cstdint>
#include <cstring>

using Bytef = unsigned char;
using uLong = unsigned long;
using uLongf = unsigned long;

constexpr int Z_OK = 0;
constexpr int Z_BUF_ERROR = -5;

// Two header bytes, five bytes for each stored block of up to 65535 bytes, four of checksum.
inline uLong compressBound(uLong size) { return size + 5 * (size / 65535 + 1) + 6; }

inline int compress2(Bytef* target, uLongf* target_size, const Bytef* source, uLong size,
                     int /*level*/) {
  if (*target_size < compressBound(size)) return Z_BUF_ERROR;
  Bytef* out = target;
  *out++ = 0x78;
  *out++ = 0x01;
  uLong position = 0;
  do {
    const uLong rest = size - position;
    const uLong length = rest < 65535 ? rest : 65535;
    *out++ = position + length == size ? 1 : 0;
    *out++ = static_cast<Bytef>(length & 0xff);
    *out++ = static_cast<Bytef>(length >> 8);
    *out++ = static_cast<Bytef>(~length & 0xff);
    *out++ = static_cast<Bytef>((~length >> 8) & 0xff);
    if (length > 0) std::memcpy(out, source + position, length);
    out += length;
    position += length;
  } while (position < size);
  uint32_t a = 1;
  uint32_t b = 0;
  for (uLong i = 0; i < size; ++i) {
    a = (a + source[i]) % 65521;
    b = (b + a) % 65521;
  }
  const uint32_t checksum = b << 16 | a;
  for (int shift = 24; shift >= 0; shift -= 8) *out++ = static_cast<Bytef>(checksum >> shift);
  *target_size = static_cast<uLongf>(out - target);
  return Z_OK;
}

#endif  // TILEWRIGHT_SIM_HARNESS_COMPAT_ZLIB_H_
