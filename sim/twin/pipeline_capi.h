// SPDX-License-Identifier: Apache-2.0
// The C ABI of the cycle model: what sim/twin/device.py calls.
//
// Functions that can fail return a negative number then, and tw_pipeline_error tells why. No C++
// exception leaves these functions.
#ifndef TILEWRIGHT_SIM_TWIN_PIPELINE_CAPI_H_
#define TILEWRIGHT_SIM_TWIN_PIPELINE_CAPI_H_

#include <cstdint>

#include "host/lowering/native/capi.h"
#include "pipeline.h"

struct tw_pipeline;

// A schedule lowered and run.
struct tw_trial {
  int64_t rule;     // that lowering names, 0: legal
  int64_t refusal;  // of the run, 0: it finished
  int64_t instruction_count;
  tilewright::twin::Counters counters;  // of a finished run, else 0
};

// Version of this interface; a caller must refuse a library with another.
TW_API uint32_t tw_pipeline_version();

// Null when the memory is refused or short of memory; the reason is copied to `error`.
TW_API tw_pipeline* tw_pipeline_create(const tilewright::twin::Hardware* hardware,
                                       const tilewright::MemoryTiming* memory, char* error,
                                       int64_t error_bytes);
TW_API void tw_pipeline_destroy(tw_pipeline* handle);
TW_API const char* tw_pipeline_error(const tw_pipeline* handle);

// Runs a program. Returns its refusal, with the instruction in `*where`, or 0 and the counters.
// `events`, if not null, gets when each of the `count` instructions is taken and retired.
TW_API int32_t tw_pipeline_run(tw_pipeline* handle, const uint8_t* instructions, int64_t count,
                               int64_t max_cycles, tilewright::twin::Counters* counters,
                               int64_t* where, tilewright::twin::Event* events);

// Lowers and runs each schedule.
TW_API int32_t tw_pipeline_batch(tw_pipeline* handle, tw_lowering* lowering,
                                 const tilewright::lowering::Hardware* hardware,
                                 const tilewright::lowering::Layer* layer,
                                 const tilewright::lowering::Schedule* schedules, int64_t count,
                                 const tilewright::lowering::Clip* clip, int64_t max_cycles,
                                 tw_trial* trials);

#endif  // TILEWRIGHT_SIM_TWIN_PIPELINE_CAPI_H_
