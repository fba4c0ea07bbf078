// SPDX-License-Identifier: Apache-2.0
#include "read.h"

#include <algorithm>

namespace tilewright::twin {

Read::Read(Core& core, Front& front, Load& load, const MemoryCosts& memory)
    : core_(core),
      front_(front),
      load_(load),
      memory_(memory),
      window_(std::min<uint64_t>(memory.max_reads, core.hw.read_outstanding)) {}

void Read::Reset(SharedDram* shared) {
  channel_.Reset(memory_.read_cost);
  shared_ = shared;
  accepted_ = kSlots;
  accepted_at_ = 0;
  last_.fill(0);
  beats_ = 0;
  alike_ = period_ = 0;
}

void Read::Step() {
  uint64_t& wake = core_.due[kWakeRead];
  wake = kForever;
  // Beats of a shared DRAM are only known up to now.
  const uint64_t horizon = shared_ != nullptr ? 0 : core_.NextWake();
  uint64_t next = NextAccept();
  if (next <= core_.now) {
    for (;;) {
      const bool fetch = front_.request_at() <= core_.now;
      if (fetch) AcceptFetch();
      const bool stop = fetch || AcceptLoad();
      next = NextAccept();
      if (stop || next >= horizon) break;
      next = SkipAlike(next, horizon);
      if (next >= horizon) break;
      core_.now = next;
    }
  }
  wake = next;
}

// A burst is accepted now. Returns its beats, none if they are not known.
BeatRun Read::Accept(uint32_t beats, bool fetch) {
  accepted_at_ = core_.now;
  if (shared_ != nullptr) {
    last_[accepted_ % kSlots] = kForever;
    of_fetch_[accepted_ % kSlots] = fetch;
    shared_->AddRead(accepted_++, core_.now, beats);
    return BeatRun();
  }
  const uint64_t addressed = AddressedAt(accepted_, core_.now);
  const BeatRun run = channel_.Place(addressed + memory_.read_latency, beats);
  last_[accepted_++ % kSlots] = run.last;
  return run;
}

void Read::AcceptFetch() {
  const BeatRun run = Accept(front_.chunk_beats(), true);
  for (uint32_t beat = 0; beat < run.beats; beat++) front_.Arrive(run.At(beat));
  front_.RequestTaken();
  front_.Gather();
  beats_ = 0;
  alike_ = 0;
}

bool Read::AcceptLoad() {
  const uint64_t now = core_.now;
  const uint32_t beats = load_.burst_beats();
  const bool at_once = FreeAt() == now;  // the read engine was waited for, not LOAD
  const bool last = load_.AcceptBurst(accepted_);
  const BeatRun run = Accept(beats, false);
  if (shared_ != nullptr) {
    if (last) load_.EndIssue();
    return last;
  }
  load_.Beats(run);
  const Mark mark{now, AddressedAt(accepted_ - 1, now), channel_.free_at()};
  if (beats == beats_ && at_once && mark.accepted - mark_.accepted == period_ &&
      mark.addressed - mark_.addressed == period_ &&
      mark.free_at - mark_.free_at == Fixed(period_)) {
    ++alike_;
  } else {
    alike_ = 0;
    period_ = now - mark_.accepted;
    beats_ = beats;
  }
  mark_ = mark;
  if (last) {
    load_.BurstPlaced(accepted_ - 1, run.last);
    load_.EndIssue();
  }
  return last;
}

void Read::Moved(uint64_t burst, uint64_t first, uint64_t beats) {
  if (!of_fetch_[burst % kSlots]) {
    load_.Beats(first, beats);
    if (core_.due[kWakeRead] >= kForever) core_.due[kWakeRead] = NextAccept();
    return;
  }
  for (uint64_t beat = 0; beat < beats; beat++) front_.Arrive(first + beat);
  front_.Gather();
}

void Read::Completed(uint64_t burst, uint64_t cycle) {
  last_[burst % kSlots] = cycle;
  if (!of_fetch_[burst % kSlots]) load_.BurstPlaced(burst, cycle);
  core_.due[kWakeRead] = NextAccept();
  if (core_.at_finish) core_.WakeAt(kWakeFront, core_.now + 1);
}

// If all bursts in flight are alike and so are the next, their times are those of the bursts
// before, moved on by a period: takes as many of them as come before the horizon. `next` is the
// cycle of the next; returns that of the next after them.
uint64_t Read::SkipAlike(uint64_t next, uint64_t horizon) {
  if (alike_ < core_.hw.read_outstanding || next != mark_.accepted + period_ ||
      load_.burst_beats() != beats_) {
    return next;
  }
  const uint64_t limit = std::min(horizon, front_.request_at());
  if (next >= limit) return next;
  const uint64_t bursts = std::min(load_.Alike(), (limit - 1 - next) / period_ + 1);
  if (bursts == 0) return next;
  const uint64_t cycles = bursts * period_;
  load_.AcceptAlike(bursts, next, period_);
  for (uint64_t& last : last_) last += cycles;
  accepted_at_ += cycles;
  channel_.Delay(cycles);
  mark_.accepted += cycles;
  mark_.addressed += cycles;
  mark_.free_at += Fixed(cycles);
  return next + cycles;
}

}  // namespace tilewright::twin
