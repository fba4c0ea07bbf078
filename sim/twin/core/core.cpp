// SPDX-License-Identifier: Apache-2.0
#include "core.h"

namespace tilewright::twin {
namespace {

constexpr Wake kWakeOfUnit[kUnits] = {kWakeLoad, kWakeGemm, kWakeVector, kWakeStore};

}  // namespace

void Core::Reset() {
  now = 0;
  std::fill(due, due + kWakes, kForever);
  for (uint32_t unit = 0; unit < kUnits; unit++) {
    queue[unit].pushed = queue[unit].taken = 0;
    queue[unit].free_at = queue[unit].room_at = 0;
    for (auto& tokens : token[unit]) tokens.Clear();
    std::fill(locked[unit], locked[unit] + isa::kAccBanks, 0);
  }
  waits_for_banks = waits_for_tokens_ = 0;
  full_unit = overflow = kNobody;
  at_finish = false;
  counters = Counters();
  for (auto& unit : counters.unit) unit[kIdle] = 1;  // the first cycle only starts the fetch
}

void Core::Arm(uint32_t unit) {
  const Queue& waiting = queue[unit];
  uint64_t& wake = due[kWakeOfUnit[unit]];
  wake = kForever;
  if (waiting.empty() || waiting.free_at >= kForever || waiting.room_at >= kForever) return;
  const Instruction& head = waiting.head();
  uint64_t ready = std::max({waiting.free_at, waiting.room_at, head.pushed + 1});
  for (uint32_t left = head.pop; left != 0; left &= left - 1) {
    auto& tokens = token[unit][__builtin_ctz(left)];
    if (tokens.empty()) {
      waits_for_tokens_ |= 1u << unit;
      return;
    }
    ready = std::max(ready, tokens.front().pushed + 1);
  }
  wake = ready;
}

void Core::Take(uint32_t unit) {
  Queue& from = queue[unit];
  const Instruction& head = from.head();
  for (uint32_t left = head.pop; left != 0; left &= left - 1) {
    auto& tokens = token[unit][__builtin_ctz(left)];
    CheckTokens(tokens, now);
    tokens.Pop();
  }
  if (trace_on) trace[head.index].taken = now;
  from.taken_at[from.taken & Queue::kMask] = now;
  ++from.taken;
  if (full_unit == unit) WakeAt(kWakeFront, now + 1);
}

void Core::Retire(uint32_t unit, uint32_t index, uint32_t push, uint64_t cycle) {
  if (trace_on) trace[index].retired = cycle;
  if (at_finish) WakeAt(kWakeFront, now + 1);
  for (uint32_t left = push; left != 0; left &= left - 1) {
    const uint32_t consumer = static_cast<uint32_t>(__builtin_ctz(left));
    token[consumer][unit].Push({cycle, index});
    if (waits_for_tokens_ >> consumer & 1) {
      waits_for_tokens_ &= ~(1u << consumer);
      Arm(consumer);
    }
  }
}

}  // namespace tilewright::twin
