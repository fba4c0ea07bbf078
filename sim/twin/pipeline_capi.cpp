// SPDX-License-Identifier: Apache-2.0
#include "pipeline_capi.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

namespace lowering = tilewright::lowering;
namespace twin = tilewright::twin;

struct tw_pipeline {
  tw_pipeline(const twin::Hardware& hardware, const tilewright::MemoryTiming& memory)
      : pipeline(hardware, memory) {}

  twin::Pipeline pipeline;
  std::string error;
};

namespace {

constexpr uint32_t kVersion = 1;
constexpr int32_t kFailed = -1;

template <typename Body>
int32_t Guarded(tw_pipeline* handle, Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    handle->error = error.what();
  }
  return kFailed;
}

}  // namespace

uint32_t tw_pipeline_version() { return kVersion; }

tw_pipeline* tw_pipeline_create(const twin::Hardware* hardware,
                                const tilewright::MemoryTiming* memory, char* error,
                                int64_t error_bytes) {
  try {
    return new tw_pipeline(*hardware, *memory);
  } catch (const std::exception& problem) {
    std::snprintf(error, static_cast<size_t>(error_bytes), "%s", problem.what());
  }
  return nullptr;
}

void tw_pipeline_destroy(tw_pipeline* handle) { delete handle; }

const char* tw_pipeline_error(const tw_pipeline* handle) { return handle->error.c_str(); }

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
