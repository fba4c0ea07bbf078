// SPDX-License-Identifier: Apache-2.0
// The units that compute on scratchpads: GEMM (tw_gemm) and VECTOR (tw_vector).
//
// Once taken, an instruction of them waits for nobody: its last cycle is known at once.
#ifndef TILEWRIGHT_SIM_TWIN_CORE_COMPUTE_H_
#define TILEWRIGHT_SIM_TWIN_CORE_COMPUTE_H_

#include <cstdint>

#include "core.h"

namespace tilewright::twin {

class ComputeUnit {
 public:
  ComputeUnit(Core& core, uint32_t unit) : core_(core), unit_(unit) {}

  // First cycle in which nothing of it is left.
  uint64_t IdleFrom() const { return retired_ + 1; }
  // Accounts the cycles after the last instruction, up to the last of the run.
  void Finish(uint64_t last);

 protected:
  void Reset() { busy_until_ = retired_ = 0; }
  // Whether the head can be taken now as far as banks go; else sets the wake.
  bool BanksFree(Wake wake, uint64_t locked_until);
  // Accounts the cycles from the last instruction to now, in which the head is taken.
  void AccountWait();

  Core& core_;
  const uint32_t unit_;
  uint64_t busy_until_ = 0;  // last cycle in which the instruction before kept the unit
  uint64_t retired_ = 0;     // cycle in which it retired
};

class Gemm : public ComputeUnit {
 public:
  explicit Gemm(Core& core)
      : ComputeUnit(core, kGemm), tail_(core.hw.mac_pipeline + latency::kGemmTail) {}
  void Reset() { ComputeUnit::Reset(); }
  // Now the head has its tokens.
  void Step();

 private:
  const uint32_t tail_;
};

class Vector : public ComputeUnit {
 public:
  explicit Vector(Core& core);
  void Reset() {
    ComputeUnit::Reset();
    issued_until_ = 0;
  }
  void Step();

 private:
  const uint32_t param_cycles_;  // from drained to the first part
  uint64_t issued_until_ = 0;    // last cycle in which the instruction before issued a part
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_CORE_COMPUTE_H_
