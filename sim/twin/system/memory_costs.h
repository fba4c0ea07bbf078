// SPDX-License-Identifier: Apache-2.0
// The DRAM of harness/memory_model.h as the twin sees it: rates as costs of a beat.
#ifndef TILEWRIGHT_SIM_TWIN_SYSTEM_MEMORY_COSTS_H_
#define TILEWRIGHT_SIM_TWIN_SYSTEM_MEMORY_COSTS_H_

#include <cstdint>

#include "sim/harness/memory_model.h"

namespace tilewright::twin {

struct MemoryCosts {
  // Throws std::invalid_argument on random stalls, which the twin does not cover.
  MemoryCosts(uint32_t beat_bytes, const MemoryTiming& timing);

  // Of a beat, in 1/65536 cycle. Shared: 0 if the directions do not share the DRAM.
  uint64_t read_cost, write_cost, shared_cost;
  uint64_t read_latency, write_latency;  // cycles, at least 1
  uint64_t max_reads, max_writes;        // bursts in flight
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_SYSTEM_MEMORY_COSTS_H_
