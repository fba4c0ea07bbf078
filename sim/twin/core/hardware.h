// SPDX-License-Identifier: Apache-2.0
// What the twin is told of an accelerator, and what it tells of a run.
#ifndef TILEWRIGHT_SIM_TWIN_CORE_HARDWARE_H_
#define TILEWRIGHT_SIM_TWIN_CORE_HARDWARE_H_

#include <cstdint>

#include "generated/timing_parameters.h"

namespace tilewright::twin {

// Units in the order of the RTL.
enum Unit : uint32_t { kLoad, kGemm, kVector, kStore, kUnits };

constexpr uint32_t kNobody = ~0u;

// What a unit does in a cycle; the order of its six counters.
enum Wait : uint32_t { kBusy, kToken0, kToken1, kToken2, kMemory, kIdle, kWaits };

// What a run counted, in the order of host/machine/registers.py COUNTERS.
struct Counters {
  uint64_t cycles;
  uint64_t unit[kUnits][kWaits];
  uint64_t instructions[kUnits];
  uint64_t macs_tiles;
  uint64_t vector_tiles;
  uint64_t bytes_read;
  uint64_t bytes_written;
  uint64_t read_bursts;
  uint64_t write_bursts;
};

// When an instruction was taken by its unit and when it retired.
struct Event {
  uint64_t taken = 0;
  uint64_t retired = 0;
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_CORE_HARDWARE_H_
