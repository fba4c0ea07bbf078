// SPDX-License-Identifier: Apache-2.0
#include "capi.h"

#include <exception>
#include <new>
#include <string>

namespace lowering = tilewright::lowering;

struct tw_lowering {
  lowering::Lowerer lowerer;
  std::string error;
};

namespace {

constexpr uint32_t kVersion = 2;
constexpr int32_t kFailed = -1;

// Calls a function whose result is not negative; keeps the text of an exception.
template <typename Body>
int32_t Guarded(tw_lowering* handle, Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    handle->error = "out of memory";
  } catch (const std::exception& error) {
    handle->error = error.what();
  }
  return kFailed;
}

}  // namespace

uint32_t tw_lowering_version() { return kVersion; }

tw_lowering* tw_lowering_create() {
  try {
    return new tw_lowering;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void tw_lowering_destroy(tw_lowering* handle) { delete handle; }

const char* tw_lowering_error(const tw_lowering* handle) { return handle->error.c_str(); }

lowering::Lowerer& tw_lowerer(tw_lowering* handle) { return handle->lowerer; }

int32_t tw_lower(tw_lowering* handle, const lowering::Hardware* hardware,
                 const lowering::Layer* layer, const lowering::Schedule* schedule,
                 const lowering::Clip* clip, tw_lowered* lowered) {
  return Guarded(handle, [&] {
    const lowering::Lowered& found = handle->lowerer.Lower(*hardware, *layer, *schedule, *clip);
    if (found.rule != lowering::Rule::kLegal) return static_cast<int32_t>(found.rule);
    lowered->instructions = reinterpret_cast<const uint8_t*>(found.instructions.data());
    lowered->uops = found.uops.data();
    lowered->instruction_count = static_cast<int64_t>(found.instructions.size());
    lowered->uop_count = static_cast<int64_t>(found.uops.size());
    for (int region = 0; region < lowering::kRegions; ++region) {
      lowered->region_offset[region] = found.regions[region].offset;
      lowered->region_size[region] = found.regions[region].size;
    }
    lowered->memory_bytes = found.memory_bytes;
    lowered->macs_tiles = found.macs_tiles;
    lowered->bytes_read = found.bytes_read;
    lowered->bytes_written = found.bytes_written;
    return 0;
  });
}

int32_t tw_lowering_check(tw_lowering* handle, const lowering::Hardware* hardware,
                          const lowering::Layer* layer, const lowering::Schedule* schedules,
                          int64_t count, int32_t* rules) {
  return Guarded(handle, [&] {
    for (int64_t i = 0; i < count; ++i) {
      rules[i] = static_cast<int32_t>(handle->lowerer.Check(*hardware, *layer, schedules[i]));
    }
    return 0;
  });
}

int32_t tw_lower_batch(tw_lowering* handle, const lowering::Hardware* hardware,
                       const lowering::Layer* layer, const lowering::Schedule* schedules,
                       int64_t count, const lowering::Clip* clip, tw_lowered_totals* totals) {
  return Guarded(handle, [&] {
    for (int64_t i = 0; i < count; ++i) {
      const lowering::Lowered& found =
          handle->lowerer.Lower(*hardware, *layer, schedules[i], *clip);
      totals[i] = {};
      totals[i].rule = static_cast<int64_t>(found.rule);
      if (found.rule != lowering::Rule::kLegal) continue;
      totals[i].instruction_count = static_cast<int64_t>(found.instructions.size());
      totals[i].uop_count = static_cast<int64_t>(found.uops.size());
      totals[i].macs_tiles = found.macs_tiles;
      totals[i].bytes_read = found.bytes_read;
      totals[i].bytes_written = found.bytes_written;
    }
    return 0;
  });
}
