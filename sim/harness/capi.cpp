// SPDX-License-Identifier: Apache-2.0
#include "capi.h"

#include <exception>
#include <memory>
#include <string>

using tilewright::Simulation;
using tilewright::Status;

struct tw_simulation {
  std::unique_ptr<Simulation> simulation;
  std::string error;
};

namespace {

constexpr uint32_t kAbiVersion = 3;

// Calls `operation` on the simulation; keeps the error text where C can read it.
template <typename Operation>
int32_t Call(tw_simulation* handle, Operation operation) {
  if (handle == nullptr) return static_cast<int32_t>(Status::kBadArgument);
  if (!handle->simulation) return static_cast<int32_t>(Status::kInternal);
  try {
    const Status status = operation(*handle->simulation);
    if (status != Status::kOk) handle->error = handle->simulation->error_text();
    return static_cast<int32_t>(status);
  } catch (const std::exception& error) {
    handle->error = error.what();
  } catch (...) {
    handle->error = "unknown C++ exception";
  }
  return static_cast<int32_t>(Status::kInternal);
}

}  // namespace

uint32_t tw_abi_version() { return kAbiVersion; }

int32_t tw_create(uint32_t max_burst_beats, const tilewright::MemoryTiming* timing,
                  const tilewright::Geometry* geometry, uint32_t initial_seed,
                  tw_simulation** handle) {
  if (timing == nullptr || handle == nullptr) return static_cast<int32_t>(Status::kBadArgument);
  *handle = nullptr;
  try {
    auto created = std::make_unique<tw_simulation>();
    *handle = created.release();
    (*handle)->simulation =
        tilewright::CreateSimulation(max_burst_beats, *timing, geometry, initial_seed);
    return static_cast<int32_t>(Status::kOk);
  } catch (const tilewright::ResetError& error) {
    (*handle)->error = error.what();
    return static_cast<int32_t>(error.status());
  } catch (const std::exception& error) {
    if (*handle != nullptr) (*handle)->error = error.what();
  } catch (...) {
    if (*handle != nullptr) (*handle)->error = "unknown C++ exception";
  }
  return static_cast<int32_t>(Status::kInternal);
}

void tw_destroy(tw_simulation* handle) { delete handle; }

const char* tw_error_text(const tw_simulation* handle) {
  return handle != nullptr ? handle->error.c_str() : "no simulation";
}

uint32_t tw_violation(const tw_simulation* handle) {
  if (handle == nullptr || !handle->simulation) return 0;
  return static_cast<uint32_t>(handle->simulation->violation().code);
}

uint64_t tw_total_cycles(const tw_simulation* handle) {
  return handle != nullptr && handle->simulation ? handle->simulation->total_cycles() : 0;
}

int32_t tw_reset(tw_simulation* handle, uint32_t cycles) {
  return Call(handle, [&](Simulation& s) { return s.Reset(cycles); });
}

int32_t tw_set_timing(tw_simulation* handle, const tilewright::MemoryTiming* timing) {
  if (timing == nullptr) return static_cast<int32_t>(Status::kBadArgument);
  return Call(handle, [&](Simulation& s) { return s.SetTiming(*timing); });
}

int32_t tw_set_fault(tw_simulation* handle, const tilewright::FaultRange* fault) {
  if (fault == nullptr) return static_cast<int32_t>(Status::kBadArgument);
  return Call(handle, [&](Simulation& s) { return s.SetFault(*fault); });
}

int32_t tw_attach(tw_simulation* handle, uint8_t* data, uint64_t size, uint64_t base) {
  return Call(handle, [&](Simulation& s) { return s.Attach(data, size, base); });
}

int32_t tw_write_register(tw_simulation* handle, uint32_t address, uint32_t value) {
  return Call(handle, [&](Simulation& s) { return s.WriteRegister(address, value); });
}

int32_t tw_read_register(tw_simulation* handle, uint32_t address, uint32_t* value) {
  if (value == nullptr) return static_cast<int32_t>(Status::kBadArgument);
  return Call(handle, [&](Simulation& s) { return s.ReadRegister(address, value); });
}

int32_t tw_run(tw_simulation* handle, const tilewright::RunRequest* request,
               tilewright::RunOutcome* outcome) {
  if (request == nullptr || outcome == nullptr) return static_cast<int32_t>(Status::kBadArgument);
  return Call(handle, [&](Simulation& s) {
    *outcome = s.Run(*request);
    return static_cast<Status>(outcome->status);
  });
}

int32_t tw_open_waves(tw_simulation* handle, const char* path) {
  if (path == nullptr) return static_cast<int32_t>(Status::kBadArgument);
  return Call(handle, [&](Simulation& s) { return s.OpenWaves(path); });
}

int32_t tw_close_waves(tw_simulation* handle) {
  return Call(handle, [&](Simulation& s) { return s.CloseWaves(); });
}
