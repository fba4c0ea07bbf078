// SPDX-License-Identifier: Apache-2.0
// The C ABI of the twin of a system: what sim/twin/system_library.py calls.
//
// What the host does is seen from the cycle on to which the system has advanced. Functions that can
// fail return a negative number then, and tw_system_error tells why. No C++ exception leaves them.
#ifndef TILEWRIGHT_SIM_TWIN_SYSTEM_CAPI_H_
#define TILEWRIGHT_SIM_TWIN_SYSTEM_CAPI_H_

#include <cstdint>

#include "host/lowering/native/capi.h"
#include "system.h"

struct tw_system;

// How far a system went.
struct tw_progress {
  uint64_t cycle;
  uint32_t core, instruction;  // of what is refused
  uint32_t interrupts;         // whether the system does, in that cycle
  uint32_t reserved;
};

// Version of this interface; a caller must refuse a library with another.
TW_API uint32_t tw_system_version();

// Null when the memory is refused or short of memory; the reason is copied to `error`.
TW_API tw_system* tw_system_create(const tilewright::twin::SystemShape* shape,
                                   const tilewright::twin::SystemCore* cores,
                                   const tilewright::MemoryTiming* memory, char* error,
                                   int64_t error_bytes);
TW_API void tw_system_destroy(tw_system* handle);
TW_API const char* tw_system_error(const tw_system* handle);

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

#endif  // TILEWRIGHT_SIM_TWIN_SYSTEM_CAPI_H_
