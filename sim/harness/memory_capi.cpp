// SPDX-License-Identifier: Apache-2.0
// The C ABI of the memory model alone, for tests that play the master against it.
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "memory_model.h"

#define TW_API extern "C" __attribute__((visibility("default")))

// Null when a parameter is out of range.
TW_API tilewright::MemoryModel* tw_memory_create(uint32_t beat_bytes, uint32_t max_burst_beats,
                                                 const tilewright::MemoryTiming* timing) {
  try {
    auto model = std::make_unique<tilewright::MemoryModel>(beat_bytes, max_burst_beats, *timing);
    return model.release();
  } catch (const std::exception&) {
    return nullptr;
  }
}

TW_API void tw_memory_destroy(tilewright::MemoryModel* model) { delete model; }

TW_API void tw_memory_attach(tilewright::MemoryModel* model, uint8_t* data, uint64_t size,
                             uint64_t base) {
  model->Attach(data, size, base);
}

TW_API void tw_memory_set_fault(tilewright::MemoryModel* model,
                                const tilewright::FaultRange* fault) {
  model->SetFault(*fault);
}

TW_API void tw_memory_reset(tilewright::MemoryModel* model) { model->Reset(); }

TW_API void tw_memory_response(const tilewright::MemoryModel* model,
                               tilewright::AxiResponse* response) {
  *response = model->response();
}

TW_API void tw_memory_step(tilewright::MemoryModel* model, const tilewright::AxiRequest* request,
                           tilewright::AxiResponse* response) {
  *response = model->Step(*request);
}

TW_API uint32_t tw_memory_quiet(const tilewright::MemoryModel* model) { return model->quiet(); }

TW_API uint32_t tw_memory_violation(const tilewright::MemoryModel* model) {
  return static_cast<uint32_t>(model->violation().code);
}

TW_API const char* tw_memory_violation_text(const tilewright::MemoryModel* model) {
  return model->violation().text.c_str();
}
