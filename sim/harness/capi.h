// SPDX-License-Identifier: Apache-2.0
// The C ABI of a simulation: what sim/verilator/library.py binds with ctypes.
//
// Every function that returns int32_t returns a tilewright::Status; tw_error_text tells the reason
// of the last failure on that handle. No C++ exception leaves these functions.
#ifndef TILEWRIGHT_SIM_HARNESS_CAPI_H_
#define TILEWRIGHT_SIM_HARNESS_CAPI_H_

#include <cstdint>

#include "simulation.h"

#define TW_API extern "C" __attribute__((visibility("default")))

struct tw_simulation;

// Version of this interface; a caller must refuse a library with another.
TW_API uint32_t tw_abi_version();

// Creates a simulation that has been reset, in *handle. geometry may be null for a model of one
// configuration. Registers and memories start with 0, or, with an initial_seed, with random bits.
// On failure the handle may still be set: it then carries the error text and must be destroyed like
// any other.
TW_API int32_t tw_create(uint32_t max_burst_beats, const tilewright::MemoryTiming* timing,
                         const tilewright::Geometry* geometry, uint32_t initial_seed,
                         tw_simulation** handle);
TW_API void tw_destroy(tw_simulation* handle);

// Text of the last failure; valid until the next call on the handle.
TW_API const char* tw_error_text(const tw_simulation* handle);
TW_API uint32_t tw_violation(const tw_simulation* handle);
TW_API uint64_t tw_total_cycles(const tw_simulation* handle);

TW_API int32_t tw_reset(tw_simulation* handle, uint32_t cycles);
TW_API int32_t tw_set_timing(tw_simulation* handle, const tilewright::MemoryTiming* timing);
TW_API int32_t tw_set_fault(tw_simulation* handle, const tilewright::FaultRange* fault);
TW_API int32_t tw_attach(tw_simulation* handle, uint8_t* data, uint64_t size, uint64_t base);
TW_API int32_t tw_write_register(tw_simulation* handle, uint32_t address, uint32_t value);
TW_API int32_t tw_read_register(tw_simulation* handle, uint32_t address, uint32_t* value);
TW_API int32_t tw_run(tw_simulation* handle, const tilewright::RunRequest* request,
                      tilewright::RunOutcome* outcome);
TW_API int32_t tw_open_waves(tw_simulation* handle, const char* path);
TW_API int32_t tw_close_waves(tw_simulation* handle);

#endif  // TILEWRIGHT_SIM_HARNESS_CAPI_H_
