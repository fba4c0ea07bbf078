// SPDX-License-Identifier: Apache-2.0
#include "memory_costs.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/twin/core/beats.h"

namespace tilewright::twin {
namespace {

uint64_t Cost(uint32_t beat_bytes, double bytes_per_cycle) {
  return static_cast<uint64_t>(std::llround(beat_bytes / bytes_per_cycle * kOne));
}

}  // namespace

MemoryCosts::MemoryCosts(uint32_t beat_bytes, const MemoryTiming& timing)
    : read_cost(std::max(kOne, Cost(beat_bytes, timing.read_bytes_per_cycle))),
      write_cost(std::max(kOne, Cost(beat_bytes, timing.write_bytes_per_cycle))),
      shared_cost(
          timing.shared_bytes_per_cycle > 0 ? Cost(beat_bytes, timing.shared_bytes_per_cycle) : 0),
      read_latency(std::max(1u, timing.read_latency)),
      write_latency(std::max(1u, timing.write_latency)),
      max_reads(timing.max_reads),
      max_writes(timing.max_writes) {
  if (timing.stall_percent != 0) {
    throw std::invalid_argument("the twin does not cover random stalls (stall_percent)");
  }
}

}  // namespace tilewright::twin
