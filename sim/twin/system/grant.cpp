// SPDX-License-Identifier: Apache-2.0
#include "grant.h"

namespace tilewright::twin {

void Grant::Reset() {
  for (Master& master : masters_) {
    master.tokens = 0;
    master.filled = master.since = 0;
    master.asks = false;
    master.state = kNothing;
    master.counts.beats = master.counts.throttled = 0;
    master.counts.waits.Reset();
  }
  asked_ = 0;
  next_ = kForever;
  decided_ = 0;
  standing_ = false;
  owner_ = turn_ = left_ = 0;
}

void Grant::SetShare(uint32_t number, uint64_t cycle, uint32_t weight, uint32_t budget) {
  Master& master = masters_[number];
  Fill(master, cycle);
  master.weight = weight;
  master.budget = budget;
  if (budget == 0) master.tokens = 0;
}

void Grant::EndWindows(uint64_t cycle) {
  for (Master& master : masters_) Fill(master, cycle + 1);
}

// Fills the bucket as in the cycles before one.
void Grant::Fill(Master& master, uint64_t end) {
  if (end <= master.filled) return;
  if (master.budget != 0) {
    for (uint64_t fill = windows_.NextFill(master.filled); fill < end;
         fill = windows_.NextFill(fill + 1)) {
      if (master.tokens == master.budget) break;  // it stays full
      master.tokens = master.tokens > 0 ? master.budget : master.tokens + master.budget;
    }
  }
  master.filled = end;
}

void Grant::Enter(Master& master, State state, uint64_t cycle, uint64_t sent) {
  if (state == master.state) return;
  if (master.state == kWaited) {
    master.counts.waits.Add(kAddressWaits, master.since, cycle - 1, sent);
  } else if (master.state == kThrottled) {
    master.counts.throttled += cycle - master.since;
  }
  master.state = state;
  master.since = cycle;
}

void Grant::DataWaited(uint32_t number, uint64_t first, uint64_t last) {
  Master& master = masters_[number];
  const uint64_t open = master.state == kWaited ? master.since : decided_ + 1;
  master.counts.waits.Add(kDataWaits, first, last, open);
}

uint32_t Grant::Decide(bool room, bool ready, uint64_t sent) {
  const uint64_t cycle = next_;
  const uint32_t masters = static_cast<uint32_t>(masters_.size());
  next_ = kForever;
  decided_ = cycle;
  uint32_t requests = 0, open = 0;
  for (uint32_t number = 0; number < masters; number++) {
    Master& master = masters_[number];
    if (!master.asks) continue;
    if (master.request.from > cycle) {
      LookAt(master.request.from);
      continue;
    }
    requests |= 1u << number;
    if (master.budget != 0) Fill(master, cycle);
    if (master.budget == 0 || master.tokens > 0) open |= 1u << number;
  }
  const uint32_t ask = requests & open;
  uint32_t chosen = turn_;
  if (left_ == 0 || (ask >> turn_ & 1) == 0) {
    for (uint32_t step = 1; step <= masters; step++) {
      const uint32_t next = (turn_ + step) % masters;
      if ((ask >> next & 1) == 0) continue;
      chosen = next;
      break;
    }
  }
  const uint32_t owner = standing_ ? owner_ : chosen;
  const bool valid = standing_ || (room && ask != 0);
  const bool taken = valid && ready;
  for (uint32_t number = 0; number < masters; number++) {
    if ((requests >> number & 1) == 0) continue;
    const bool offered = valid && number == owner;
    const State state = offered ? kOffered : open >> number & 1 ? kWaited : kThrottled;
    Enter(masters_[number], state, cycle, sent);
    if (state == kThrottled) LookAt(windows_.NextFill(cycle) + 1);
  }
  standing_ = valid && !taken;
  owner_ = owner;
  if (!taken) return kNobody;
  Master& master = masters_[owner];
  Enter(master, kNothing, cycle, sent);
  master.asks = false;
  master.counts.beats += master.request.beats;
  if (master.budget != 0) {
    Fill(master, cycle + 1);
    master.tokens -= master.request.beats;
  }
  left_ = (owner == turn_ && left_ != 0 ? left_ : std::max(1u, master.weight)) - 1;
  turn_ = owner;
  if (--asked_ != 0) LookAt(cycle + 1);
  return owner;
}

}  // namespace tilewright::twin
