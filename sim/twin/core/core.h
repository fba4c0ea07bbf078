// SPDX-License-Identifier: Apache-2.0
// What the units of the twin share: the clock, queues, tokens, bank locks and counters.
//
// No unit is stepped cycle by cycle. Each knows the cycle of its next action, its `wake`, and the
// run goes from wake to wake. What a unit hands to others carries the cycle in which it happens,
// which may lie ahead; a register that is written in cycle t shows from t + 1 on.
#ifndef TILEWRIGHT_SIM_TWIN_CORE_CORE_H_
#define TILEWRIGHT_SIM_TWIN_CORE_CORE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "beats.h"
#include "hardware.h"
#include "instruction.h"
#include "latency.h"

namespace tilewright::twin {

// Who can be woken; those of one cycle act in this order.
enum Wake : uint32_t {
  kWakeMemory,
  kWakeFront,
  kWakeGemm,
  kWakeVector,
  kWakeLoad,
  kWakeStore,
  kWakeRead,
  kWakePadding,
  kWakeWrite,
  kWakes
};

// The instructions in front of a unit, and what keeps it from taking the first.
struct Queue {
  static constexpr uint32_t kMask = latency::kQueueDepth - 1;
  Instruction slot[latency::kQueueDepth];
  uint64_t taken_at[latency::kQueueDepth];
  uint64_t pushed, taken;  // instructions so far
  uint64_t free_at;        // first cycle in which the unit may take, kForever: not known
  uint64_t room_at;        // the same of what follows behind it

  bool empty() const { return pushed == taken; }
  const Instruction& head() const { return slot[taken & kMask]; }
};

struct Token {
  uint64_t pushed;       // cycle
  uint32_t instruction;  // that pushed it
};

class Core {
 public:
  explicit Core(const Hardware& hardware) : hw(hardware) {}

  void Reset();

  // Sets the wake of a unit to the first cycle in which it has all but, perhaps, its banks.
  void Arm(uint32_t unit);
  void WakeAt(Wake wake, uint64_t cycle) { due[wake] = std::min(due[wake], cycle); }
  uint64_t NextWake() const {
    uint64_t next = due[0];
    for (uint32_t wake = 1; wake < kWakes; wake++) next = std::min(next, due[wake]);
    return next;
  }

  // The unit takes the head of its queue now. Its next instruction is armed by the unit.
  void Take(uint32_t unit);
  // The tokens of a pair of units did not fit into its counter, if more than it holds were there
  // before a cycle ends.
  void CheckTokens(Fifo<Token>& tokens, uint64_t cycle) {
    if (tokens.size() <= latency::kMaxTokens || overflow != kNobody) return;
    const Token& token = tokens.begin()[latency::kMaxTokens];
    if (token.pushed <= cycle) overflow = token.instruction;
  }
  // An instruction retires in a cycle.
  void Retire(uint32_t unit, uint32_t index, uint32_t push, uint64_t cycle);

  // The last cycle, as far as is known, in which one of the banks is locked by a unit.
  uint64_t LockedUntil(uint32_t unit, uint32_t banks) const {
    uint64_t until = 0;
    for (uint32_t bank = 0; bank < isa::kAccBanks; bank++) {
      if (banks >> bank & 1) until = std::max(until, locked[unit][bank]);
    }
    return until;
  }
  void Lock(uint32_t unit, uint32_t banks, uint64_t until) {
    for (uint32_t bank = 0; bank < isa::kAccBanks; bank++) {
      if (banks >> bank & 1) locked[unit][bank] = std::max(locked[unit][bank], until);
    }
  }

  // Splits the cycles in which the unit's head waits for tokens, from a cycle on, into its
  // counters: spend(counter, from, end). Returns the first cycle in which all are there. Of
  // several missing tokens the one of the lowest unit counts.
  template <typename Spend>
  uint64_t TokenWaits(uint32_t unit, uint64_t from, Spend spend) {
    const uint32_t pop = queue[unit].head().pop;
    uint32_t counter = kToken0;
    for (uint32_t producer = 0; producer < kUnits; producer++) {
      if (producer == unit) continue;
      if (pop >> producer & 1) {
        const uint64_t here = token[unit][producer].front().pushed + 1;
        if (here > from) {
          spend(counter, from, here);
          from = here;
        }
      }
      ++counter;
    }
    return from;
  }

  const Hardware hw;
  uint64_t now = 0;
  uint64_t limit = kForever;        // the run is given up in this cycle
  uint64_t beats_known = kForever;  // beats of accepted bursts are known before this cycle
  uint64_t due[kWakes];
  Queue queue[kUnits];
  Fifo<Token> token[kUnits][kUnits];  // [consumer][producer]
  uint64_t locked[kUnits][isa::kAccBanks];
  uint32_t waits_for_banks = 0;  // units whose banks LOAD holds, as a mask
  uint32_t full_unit = kNobody;  // whose full queue holds up the dispatch
  bool at_finish = false;        // FINISH is at the dispatch
  uint32_t overflow = kNobody;   // instruction whose token did not fit
  Counters counters{};
  bool trace_on = false;
  std::vector<Event> trace;

 private:
  uint32_t waits_for_tokens_ = 0;  // units whose head waits for a token that is not on its way
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_CORE_CORE_H_
