// SPDX-License-Identifier: Apache-2.0
// The C ABI of native lowering: what sim/twin/library.py binds with ctypes.
//
// Functions that can fail return a negative number then, and tw_lowering_error tells why. No C++
// exception leaves these functions.
#ifndef TILEWRIGHT_HOST_LOWERING_NATIVE_CAPI_H_
#define TILEWRIGHT_HOST_LOWERING_NATIVE_CAPI_H_

#include <cstdint>

#include "lowering.h"

#define TW_API extern "C" __attribute__((visibility("default")))

struct tw_lowering;

// A lowered layer; pointers are valid until the next call on the handle.
struct tw_lowered {
  const uint8_t* instructions;
  const uint64_t* uops;
  int64_t instruction_count;
  int64_t uop_count;
  int64_t region_offset[tilewright::lowering::kRegions];
  int64_t region_size[tilewright::lowering::kRegions];
  int64_t memory_bytes;
  int64_t macs_tiles;
  int64_t bytes_read;
  int64_t bytes_written;
};

// What is left of a lowered layer in a batch; all 0 but the rule when it is not legal.
struct tw_lowered_totals {
  int64_t rule;
  int64_t instruction_count;
  int64_t uop_count;
  int64_t macs_tiles;
  int64_t bytes_read;
  int64_t bytes_written;
};

// Version of this interface; a caller must refuse a library with another.
TW_API uint32_t tw_lowering_version();

// Null when memory is short.
TW_API tw_lowering* tw_lowering_create();
TW_API void tw_lowering_destroy(tw_lowering* handle);
TW_API const char* tw_lowering_error(const tw_lowering* handle);

// For the other parts of the library: what a handle lowers with.
tilewright::lowering::Lowerer& tw_lowerer(tw_lowering* handle);

// Lowers one schedule; returns the rule that it breaks, or 0 and the result.
TW_API int32_t tw_lower(tw_lowering* handle, const tilewright::lowering::Hardware* hardware,
                        const tilewright::lowering::Layer* layer,
                        const tilewright::lowering::Schedule* schedule,
                        const tilewright::lowering::Clip* clip, tw_lowered* lowered);

// Writes the rule that each schedule breaks, 0 for a legal one.
TW_API int32_t tw_lowering_check(tw_lowering* handle,
                                 const tilewright::lowering::Hardware* hardware,
                                 const tilewright::lowering::Layer* layer,
                                 const tilewright::lowering::Schedule* schedules, int64_t count,
                                 int32_t* rules);

// Lowers each schedule and keeps the totals only.
TW_API int32_t tw_lower_batch(tw_lowering* handle, const tilewright::lowering::Hardware* hardware,
                              const tilewright::lowering::Layer* layer,
                              const tilewright::lowering::Schedule* schedules, int64_t count,
                              const tilewright::lowering::Clip* clip, tw_lowered_totals* totals);

#endif  // TILEWRIGHT_HOST_LOWERING_NATIVE_CAPI_H_
