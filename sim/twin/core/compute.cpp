// SPDX-License-Identifier: Apache-2.0
#include "compute.h"

#include <algorithm>

namespace tilewright::twin {

bool ComputeUnit::BanksFree(Wake wake, uint64_t locked_until) {
  if (locked_until < core_.now) {
    core_.waits_for_banks &= ~(1u << unit_);
    return true;
  }
  // LOAD wakes the unit when it knows the end of its lock.
  core_.waits_for_banks |= 1u << unit_;
  core_.due[wake] = locked_until >= kForever ? kForever : locked_until + 1;
  return false;
}

void ComputeUnit::AccountWait() {
  const uint64_t now = core_.now;
  if (now <= busy_until_) return;  // it follows without a gap
  uint64_t* counters = core_.counters.unit[unit_];
  const uint64_t pushed = core_.queue[unit_].head().pushed;
  uint64_t from = busy_until_ + 1;
  if (pushed >= from) {
    // Nothing in the queue: the stages drain, then the unit idles.
    const uint64_t drained = std::clamp(retired_ + 1, from, pushed + 1);
    counters[kBusy] += drained - from;
    counters[kIdle] += pushed + 1 - drained;
    from = pushed + 1;
  }
  from = core_.TokenWaits(unit_, from, [&](uint32_t counter, uint64_t begin, uint64_t end) {
    counters[counter] += end - begin;
  });
  counters[kMemory] += now - from;
  ++counters[kBusy];
}

void ComputeUnit::Finish(uint64_t last) {
  uint64_t* counters = core_.counters.unit[unit_];
  const uint64_t drained = std::max(retired_, busy_until_);
  counters[kBusy] += drained - busy_until_;
  counters[kIdle] += last - drained;
}

void Gemm::Step() {
  Queue& queue = core_.queue[kGemm];
  const Instruction& head = queue.head();
  const uint64_t now = core_.now;
  if (!BanksFree(kWakeGemm, std::max(core_.LockedUntil(kVector, head.banks),
                                     core_.LockedUntil(kLoad, head.banks)))) {
    return;
  }
  AccountWait();
  busy_until_ = now + head.length;
  retired_ = busy_until_ + tail_;
  core_.counters.unit[kGemm][kBusy] += head.length;
  core_.counters.macs_tiles += head.tiles;
  core_.Lock(kGemm, head.banks, retired_);
  queue.free_at = busy_until_;
  core_.Take(kGemm);
  core_.Retire(kGemm, head.index, head.push, retired_);
  core_.Arm(kGemm);
}

Vector::Vector(Core& core)
    : ComputeUnit(core, kVector),
      param_cycles_(core.hw.block_out * latency::kParamBytesPerChannel /
                        std::max(latency::kParamRowBytes, core.hw.axi_bytes) +
                    latency::kParamSetup) {}

void Vector::Step() {
  Queue& queue = core_.queue[kVector];
  const Instruction& head = queue.head();
  const uint64_t now = core_.now;
  if (!BanksFree(kWakeVector, std::max(core_.LockedUntil(kGemm, head.banks),
                                       core_.LockedUntil(kLoad, head.banks)))) {
    return;
  }
  AccountWait();
  uint64_t last = now + head.length;
  uint64_t until = last + latency::kAluTail;
  if (head.requant) {
    // PARAM is read once the first stages are empty, again in each outer iteration if it moves on.
    const uint64_t turns = head.param_step ? head.outer : 1;
    const uint64_t drained =
        std::max(now, issued_until_ == 0 ? 0 : issued_until_ + latency::kDrainTail) + 1;
    last = drained + turns * param_cycles_ + head.length - 1 + (turns - 1) * latency::kDrainTail;
    until = last;  // it does not write ACC
  }
  issued_until_ = busy_until_ = last;
  retired_ = last + latency::kVectorTail;
  if (head.reduces) {
    busy_until_ = retired_ = until =
        last + latency::kPutTail + (head.takes_long ? latency::kLatePut : 0);
  } else if (head.takes_long) {
    busy_until_ = until = last + latency::kLongTail;
  }
  core_.counters.unit[kVector][kBusy] += busy_until_ - now;
  core_.counters.vector_tiles += head.tiles;
  core_.Lock(kVector, head.banks, until);
  queue.free_at = busy_until_;
  core_.Take(kVector);
  core_.Retire(kVector, head.index, head.push, retired_);
  core_.Arm(kVector);
}

}  // namespace tilewright::twin
