// SPDX-License-Identifier: Apache-2.0
#include "slot.h"

#include <utility>

#include "sim/twin/core/latency.h"

namespace tilewright::twin {

void Slot::Reset() {
  waiting_.clear();
  completions_.clear();
  enabled_ = running_ = false;
  idle_at_ = popped_ = 0;
  check_at_ = kForever;
}

void Slot::Push(uint64_t cycle, uint64_t tag, bool scrub, std::vector<uint8_t> instructions) {
  waiting_.push_back({tag, scrub, std::move(instructions)});
  CheckAt(cycle);
}

void Slot::Enable(uint64_t cycle, bool on) {
  enabled_ = on;
  CheckAt(cycle);
}

void Slot::Pop(uint64_t cycle) {
  completions_.pop_front();
  popped_ = cycle;
  CheckAt(cycle);
}

Outcome Slot::Act(uint64_t cycle) {
  if (!running_) return cycle == check_at_ ? Begin(cycle) : Outcome();
  if (cycle < began_ || pipeline_.NextWake() != cycle - began_) return Outcome();
  return pipeline_.Act() ? Finish(cycle) : Outcome();
}

// The queue is idle in this cycle.
Outcome Slot::Begin(uint64_t cycle) {
  check_at_ = kForever;
  if (!enabled_ || waiting_.empty() || completions_.size() >= depth_) return Outcome();
  current_ = std::move(waiting_.front());
  waiting_.pop_front();
  started_ = cycle + latency::kBeginToStart;
  if (current_.scrub) {
    started_ +=
        latency::kStartToRun + scrub_ - 1 + latency::kRetireToEnded + latency::kScrubToStart;
  }
  began_ = started_ + latency::kStartToRun;
  running_ = true;
  const uint32_t count =
      static_cast<uint32_t>(current_.instructions.size() / isa::kInstructionBytes);
  return pipeline_.Start(current_.instructions.data(), count, port_.BusOf(master_, began_));
}

// FINISH retires in this cycle.
Outcome Slot::Finish(uint64_t cycle) {
  const Outcome outcome = pipeline_.Finish();
  counters_ = pipeline_.counters();
  running_ = false;
  idle_at_ = cycle + latency::kRetireToEnded + latency::kEndedToIdle;
  completions_.push_back({current_.tag, started_, counters_.cycles, idle_at_});
  CheckAt(idle_at_);
  return outcome;
}

}  // namespace tilewright::twin
