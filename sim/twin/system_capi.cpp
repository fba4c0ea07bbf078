// SPDX-License-Identifier: Apache-2.0
#include "system_capi.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace twin = tilewright::twin;

struct tw_system {
  tw_system(const twin::SystemShape& shape, const twin::SystemCore* cores,
            const tilewright::MemoryTiming& memory)
      : system(shape, cores, memory) {}

  twin::System system;
  std::string error;
};

namespace {

constexpr uint32_t kVersion = 1;
constexpr int32_t kFailed = -1;

template <typename Body>
int32_t Guarded(tw_system* handle, Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    handle->error = error.what();
  }
  return kFailed;
}

}  // namespace

uint32_t tw_system_version() { return kVersion; }

tw_system* tw_system_create(const twin::SystemShape* shape, const twin::SystemCore* cores,
                            const tilewright::MemoryTiming* memory, char* error,
                            int64_t error_bytes) {
  try {
    return new tw_system(*shape, cores, *memory);
  } catch (const std::exception& problem) {
    std::snprintf(error, static_cast<size_t>(error_bytes), "%s", problem.what());
  }
  return nullptr;
}

void tw_system_destroy(tw_system* handle) { delete handle; }

const char* tw_system_error(const tw_system* handle) { return handle->error.c_str(); }

void tw_system_reset(tw_system* handle) { handle->system.Reset(); }

void tw_system_reset_dram(tw_system* handle) { handle->system.ResetDram(); }

int32_t tw_system_advance(tw_system* handle, uint64_t end, int32_t to_interrupt,
                          tw_progress* progress) {
  return Guarded(handle, [&] {
    twin::System& system = handle->system;
    const twin::SystemOutcome found = system.Advance(end, to_interrupt != 0);
    *progress = {system.cycle(), found.core, found.outcome.instruction, system.interrupts(), 0};
    return static_cast<int32_t>(found.outcome.refusal);
  });
}

uint32_t tw_system_pending(tw_system* handle, uint64_t cycle) {
  return handle->system.Pending(cycle);
}

int32_t tw_system_push(tw_system* handle, uint32_t core, uint64_t tag, int32_t scrub,
                       const uint8_t* instructions, int64_t count) {
  return Guarded(handle, [&] {
    const uint8_t* end = instructions + count * tilewright::isa::kInstructionBytes;
    handle->system.slot(core).Push(handle->system.cycle(), tag, scrub != 0,
                                   std::vector<uint8_t>(instructions, end));
    return 0;
  });
}

void tw_system_enable(tw_system* handle, uint32_t cores) { handle->system.EnableQueues(cores); }

uint32_t tw_system_completions(tw_system* handle, uint32_t core, uint64_t cycle) {
  const auto& all = handle->system.slot(core).completions();
  return static_cast<uint32_t>(std::count_if(
      all.begin(), all.end(), [&](const auto& each) { return each.visible <= cycle; }));
}

void tw_system_completion(tw_system* handle, uint32_t core, twin::Completion* completion) {
  *completion = handle->system.slot(core).completions().front();
}

void tw_system_pop(tw_system* handle, uint32_t core) {
  handle->system.slot(core).Pop(handle->system.cycle());
}

void tw_system_set_share(tw_system* handle, uint32_t core, uint32_t weight, uint32_t read_budget,
                         uint32_t write_budget) {
  handle->system.SetShare(core, weight, read_budget, write_budget);
}

void tw_system_set_window(tw_system* handle, uint32_t cycles) { handle->system.SetWindow(cycles); }

void tw_system_set_limits(tw_system* handle, uint32_t reads, uint32_t writes) {
  handle->system.SetLimits(reads, writes);
}

void tw_system_counters(tw_system* handle, uint32_t core, twin::Counters* counters) {
  *counters = handle->system.slot(core).counters();
}

void tw_system_shares(tw_system* handle, uint32_t core, twin::ShareCounters* counters) {
  *counters = handle->system.shares(core);
}
