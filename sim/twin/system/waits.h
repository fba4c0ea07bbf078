// SPDX-License-Identifier: Apache-2.0
// Cycles in which a core waited for either of two reasons: a cycle of both counts once.
#ifndef TILEWRIGHT_SIM_TWIN_SYSTEM_WAITS_H_
#define TILEWRIGHT_SIM_TWIN_SYSTEM_WAITS_H_

#include <algorithm>
#include <cstdint>

#include "sim/twin/core/beats.h"

namespace tilewright::twin {

enum Reason : uint32_t { kAddressWaits, kDataWaits, kReasons };

class Waits {
 public:
  void Reset() {
    cycles_ = 0;
    for (auto& spans : spans_) spans.Clear();
  }
  uint64_t cycles() const { return cycles_; }

  // Adds the cycles from first to last for a reason; spans of a reason come in the order of time.
  // Those of the other reason that are still to come begin in `open` or later.
  void Add(Reason reason, uint64_t first, uint64_t last, uint64_t open) {
    if (first > last) return;
    cycles_ += last - first + 1;
    Fifo<Span>& others = spans_[1 - reason];
    for (const Span& other : others) {
      const uint64_t from = std::max(first, other.first), to = std::min(last, other.last);
      if (from <= to) cycles_ -= to - from + 1;
    }
    while (!others.empty() && others.front().last <= last) others.Pop();
    Fifo<Span>& own = spans_[reason];
    while (!own.empty() && own.front().last < open) own.Pop();
    if (last >= open) own.Push({first, last});
  }

 private:
  struct Span {
    uint64_t first, last;
  };

  uint64_t cycles_ = 0;
  Fifo<Span> spans_[kReasons];
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_SYSTEM_WAITS_H_
