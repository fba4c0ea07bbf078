// SPDX-License-Identifier: Apache-2.0
// The C ABI of the twin, of one core and of a system: what sim/twin/library.py binds.
//
// Functions that can fail return a negative number then, and tw_twin_error tells why. No C++
// exception leaves these functions.
#ifndef TILEWRIGHT_SIM_TWIN_TWIN_CAPI_H_
#define TILEWRIGHT_SIM_TWIN_TWIN_CAPI_H_

#include <cstdint>

#include "host/lowering/native/capi.h"
#include "sim/twin/core/pipeline.h"
#include "sim/twin/system/system.h"

struct tw_twin;
struct tw_pipeline;  // one core, a tw_twin
struct tw_system;    // several, a tw_twin

// Version of this interface; a caller must refuse a library with another.
TW_API uint32_t tw_twin_version();
TW_API void tw_twin_destroy(tw_twin* handle);
TW_API const char* tw_twin_error(const tw_twin* handle);

// A schedule lowered and run.
struct tw_trial {
  int64_t rule;     // that lowering names, 0: legal
  int64_t refusal;  // of the run, 0: it finished
  int64_t instruction_count;
  tilewright::twin::Counters counters;  // of a finished run, else 0
};

// Null when the memory is refused or short of memory; the reason is copied to `error`.
TW_API tw_pipeline* tw_pipeline_create(const tilewright::twin::Hardware* hardware,
                                       const tilewright::MemoryTiming* memory, char* error,
                                       int64_t error_bytes);

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

// How far a system went.
struct tw_progress {
  uint64_t cycle;
  uint32_t core, instruction;  // of what is refused
  uint32_t interrupts;         // whether the system does, in that cycle
  uint32_t reserved;
};

// The same of a system. What the host does is seen from the cycle on to which it has advanced.
TW_API tw_system* tw_system_create(const tilewright::twin::SystemShape* shape,
                                   const tilewright::twin::SystemCore* cores,
                                   const tilewright::MemoryTiming* memory, char* error,
                                   int64_t error_bytes);

TW_API void tw_system_reset(tw_system* handle);
TW_API void tw_system_reset_dram(tw_system* handle);

// Goes on to a cycle, or to the interrupt if that comes first. Returns a refusal, or 0.
TW_API int32_t tw_system_advance(tw_system* handle, uint64_t end, int32_t to_interrupt,
                                 tw_progress* progress);

// The queue of a core.
TW_API int32_t tw_system_push(tw_system* handle, uint32_t core, uint64_t tag, int32_t scrub,
                              const uint8_t* instructions, int64_t count);
TW_API void tw_system_enable(tw_system* handle, uint32_t cores);
// Cores that had a completion in a cycle, not long ago: bit i is core i.
TW_API uint32_t tw_system_pending(tw_system* handle, uint64_t cycle);
// Completions that the host sees in a cycle; the oldest of all.
TW_API uint32_t tw_system_completions(tw_system* handle, uint32_t core, uint64_t cycle);
TW_API void tw_system_completion(tw_system* handle, uint32_t core,
                                 tilewright::twin::Completion* completion);
TW_API void tw_system_pop(tw_system* handle, uint32_t core);

// Shares of the ports; what was counted of a core: in its last program, and by its arbiter.
TW_API void tw_system_set_share(tw_system* handle, uint32_t core, uint32_t weight,
                                uint32_t read_budget, uint32_t write_budget);
TW_API void tw_system_set_window(tw_system* handle, uint32_t cycles);
TW_API void tw_system_set_limits(tw_system* handle, uint32_t reads, uint32_t writes);
TW_API void tw_system_counters(tw_system* handle, uint32_t core,
                               tilewright::twin::Counters* counters);
TW_API void tw_system_shares(tw_system* handle, uint32_t core,
                             tilewright::twin::ShareCounters* counters);

#endif  // TILEWRIGHT_SIM_TWIN_TWIN_CAPI_H_
