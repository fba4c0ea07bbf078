// SPDX-License-Identifier: Apache-2.0
// A core in a system: its pipeline and the queue of its programs (tw_core_slot, tw_queue).
#ifndef TILEWRIGHT_SIM_TWIN_SYSTEM_SLOT_H_
#define TILEWRIGHT_SIM_TWIN_SYSTEM_SLOT_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "memory_port.h"
#include "sim/twin/core/beats.h"
#include "sim/twin/core/pipeline.h"

namespace tilewright::twin {

// What became of a descriptor.
struct Completion {
  uint64_t tag, begin, cycles;
  uint64_t visible;  // first cycle in which the host can see it
};

class Slot {
 public:
  // `port`: memory, of which this is core `master`; `scrub`: cycles of the program that zeroes the
  // scratchpads; `depth`: descriptors, and completions, that fit.
  Slot(const Hardware& hardware, const MemoryTiming& memory, MemoryPort& port, uint32_t master,
       uint64_t scrub, uint64_t depth)
      : pipeline_(hardware, memory), port_(port), master_(master), scrub_(scrub), depth_(depth) {}

  void Reset();

  // What the host does is seen from a cycle on, before which all has happened.
  void Push(uint64_t cycle, uint64_t tag, bool scrub, std::vector<uint8_t> instructions);
  void Enable(uint64_t cycle, bool on);
  void Pop(uint64_t cycle);

  // The next cycle in which the pipeline or the queue acts.
  uint64_t NextEvent() const {
    return running_ ? std::max(began_, began_ + pipeline_.NextWake()) : check_at_;
  }
  bool running() const { return running_; }
  void SetNow(uint64_t cycle) {
    if (running_ && cycle >= began_) pipeline_.SetNow(cycle - began_);
  }
  // Acts in a cycle, if there is something to do. A program that cannot be counted is refused.
  Outcome Act(uint64_t cycle);

  const Counters& counters() const { return counters_; }
  std::deque<Completion>& completions() { return completions_; }
  // Whether a completion is there in a cycle, after the last removal of one or shortly before it.
  bool HasCompletion(uint64_t cycle) const {
    return cycle < popped_ || (!completions_.empty() && completions_.front().visible <= cycle);
  }
  // The first cycle, from one on, in which there is one; kForever: not known.
  uint64_t NextCompletion(uint64_t cycle) const {
    if (HasCompletion(cycle)) return cycle;
    return completions_.empty() ? kForever : completions_.front().visible;
  }

 private:
  struct Descriptor {
    uint64_t tag;
    bool scrub;
    std::vector<uint8_t> instructions;
  };

  void CheckAt(uint64_t cycle) { check_at_ = std::max(cycle, idle_at_); }
  Outcome Begin(uint64_t cycle);
  Outcome Finish(uint64_t cycle);

  Pipeline pipeline_;
  MemoryPort& port_;
  const uint32_t master_;
  const uint64_t scrub_, depth_;
  std::deque<Descriptor> waiting_;
  std::deque<Completion> completions_;
  Descriptor current_{};
  Counters counters_{};  // of the last program
  bool enabled_ = false, running_ = false;
  uint64_t idle_at_ = 0;          // first cycle in which the queue is idle again
  uint64_t check_at_ = kForever;  // the queue looks whether it may begin
  uint64_t popped_ = 0;           // first cycle after the last removal of a completion
  uint64_t started_ = 0;          // the program that runs, and the first cycle of its run
  uint64_t began_ = 0;
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_SYSTEM_SLOT_H_
