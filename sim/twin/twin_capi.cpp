// SPDX-License-Identifier: Apache-2.0
#include "twin_capi.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace lowering = tilewright::lowering;
namespace twin = tilewright::twin;

struct tw_twin {
  virtual ~tw_twin() = default;
  std::string error;
};

struct tw_pipeline final : tw_twin {
  tw_pipeline(const twin::Hardware& hardware, const tilewright::MemoryTiming& memory)
      : pipeline(hardware, memory) {}
  twin::Pipeline pipeline;
};

struct tw_system final : tw_twin {
  tw_system(const twin::SystemShape& shape, const twin::SystemCore* cores,
            const tilewright::MemoryTiming& memory)
      : system(shape, cores, memory) {}
  twin::System system;
};

namespace {

constexpr uint32_t kVersion = 1;
constexpr int32_t kFailed = -1;

template <typename Body>
int32_t Guarded(tw_twin* handle, Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    handle->error = error.what();
  }
  return kFailed;
}

template <typename Handle, typename... Arguments>
Handle* Create(char* error, int64_t error_bytes, const Arguments&... arguments) {
  try {
    return new Handle(arguments...);
  } catch (const std::exception& problem) {
    std::snprintf(error, static_cast<size_t>(error_bytes), "%s", problem.what());
  }
  return nullptr;
}

}  // namespace

uint32_t tw_twin_version() { return kVersion; }

void tw_twin_destroy(tw_twin* handle) { delete handle; }

const char* tw_twin_error(const tw_twin* handle) { return handle->error.c_str(); }

tw_pipeline* tw_pipeline_create(const twin::Hardware* hardware,
                                const tilewright::MemoryTiming* memory, char* error,
                                int64_t error_bytes) {
  return Create<tw_pipeline>(error, error_bytes, *hardware, *memory);
}

int32_t tw_pipeline_run(tw_pipeline* handle, const uint8_t* instructions, int64_t count,
                        int64_t max_cycles, twin::Counters* counters, int64_t* where,
                        twin::Event* events) {
  return Guarded(handle, [&] {
    handle->pipeline.set_trace(events != nullptr);
    const twin::Outcome outcome = handle->pipeline.Run(instructions, static_cast<uint32_t>(count),
                                                       static_cast<uint64_t>(max_cycles));
    *counters = handle->pipeline.counters();
    *where = outcome.instruction;
    if (events != nullptr) {
      std::copy(handle->pipeline.trace().begin(), handle->pipeline.trace().end(), events);
    }
    return static_cast<int32_t>(outcome.refusal);
  });
}

int32_t tw_pipeline_batch(tw_pipeline* handle, tw_lowering* lowering_handle,
                          const lowering::Hardware* hardware, const lowering::Layer* layer,
                          const lowering::Schedule* schedules, int64_t count,
                          const lowering::Clip* clip, int64_t max_cycles, tw_trial* trials) {
  return Guarded(handle, [&] {
    lowering::Lowerer& lowerer = tw_lowerer(lowering_handle);
    handle->pipeline.set_trace(false);
    for (int64_t i = 0; i < count; ++i) {
      const lowering::Lowered& lowered = lowerer.Lower(*hardware, *layer, schedules[i], *clip);
      tw_trial& trial = trials[i] = tw_trial();
      trial.rule = static_cast<int64_t>(lowered.rule);
      if (lowered.rule != lowering::Rule::kLegal) continue;
      trial.instruction_count = static_cast<int64_t>(lowered.instructions.size());
      const uint64_t fetched = lowered.instructions.size() * sizeof(lowering::RawInstruction);
      const uint64_t least =
          handle->pipeline.AtLeast(static_cast<uint64_t>(lowered.macs_tiles),
                                   static_cast<uint64_t>(lowered.bytes_read) + fetched,
                                   static_cast<uint64_t>(lowered.bytes_written));
      if (least > static_cast<uint64_t>(max_cycles)) {
        trial.refusal = static_cast<int64_t>(twin::Refusal::kCycleLimit);
        continue;
      }
      const twin::Outcome outcome = handle->pipeline.Run(
          reinterpret_cast<const uint8_t*>(lowered.instructions.data()),
          static_cast<uint32_t>(lowered.instructions.size()), static_cast<uint64_t>(max_cycles));
      trial.refusal = static_cast<int64_t>(outcome.refusal);
      if (outcome.refusal == twin::Refusal::kNone) trial.counters = handle->pipeline.counters();
    }
    return 0;
  });
}

tw_system* tw_system_create(const twin::SystemShape* shape, const twin::SystemCore* cores,
                            const tilewright::MemoryTiming* memory, char* error,
                            int64_t error_bytes) {
  return Create<tw_system>(error, error_bytes, *shape, cores, *memory);
}

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
