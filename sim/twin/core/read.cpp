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

void Read::Reset(Bus* bus, bool arbitrated) {
  channel_.Reset(memory_.read_cost);
  bus_ = bus;
  arbitrated_ = arbitrated;
  addressed_at_ = 0;
  accepted_ = kSlots;
  accepted_at_ = 0;
  last_.fill(0);
  joined_.fill(false);
}

void Read::Step() {
  uint64_t& wake = core_.due[kWakeRead];
  wake = kForever;
  // Beats that others hold up are only known up to now.
  const uint64_t horizon = bus_ != nullptr ? 0 : std::min(core_.NextWake(), core_.limit);
  uint64_t next = NextAccept();
  if (next <= core_.now) {
    for (;;) {
      const bool fetch = front_.request_at() <= core_.now;
      if (fetch) AcceptFetch();
      const bool stop = fetch || AcceptLoad();
      next = NextAccept();
      if (stop || next >= horizon) break;
      if (AcceptRow(next, horizon)) next = NextAccept();
      if (next >= horizon) break;
      core_.now = next;
    }
  }
  wake = next;
}

// A burst is accepted now.
void Read::Accept(uint32_t beats, bool fetch) {
  if (bus_ != nullptr) {
    last_[accepted_ % kSlots] = kForever;
    of_fetch_[accepted_ % kSlots] = fetch;
    addressed_at_ = kForever;
    bus_->AddRead(this, accepted_, core_.now, beats);
  }
  accepted_at_ = core_.now;
  ++accepted_;
}

// The beats of a burst that is accepted now, if nothing holds them up.
void Read::Place(uint32_t beats, bool fetch, BeatRun& run) {
  const uint64_t addressed = AddressedAt(accepted_, core_.now);
  channel_.Place(addressed + memory_.read_latency + latency::kAnswer, beats, run);
  joined_[accepted_ % kSlots] = !fetch && run.first == Last(accepted_ - 1) + 1;
  last_[accepted_ % kSlots] = run.last;
}

void Read::AcceptFetch() {
  const uint32_t beats = front_.chunk_beats();
  if (bus_ == nullptr) {
    BeatRun run;
    Place(beats, true, run);
    for (uint32_t beat = 0; beat < beats; beat++) front_.Arrive(run.At(beat));
  }
  Accept(beats, true);
  front_.RequestTaken();
  front_.Gather();
}

bool Read::AcceptLoad() {
  const uint32_t beats = load_.burst_beats();
  const bool last = load_.AcceptBurst(accepted_);
  if (bus_ != nullptr) {
    Accept(beats, false);
    if (last) load_.EndIssue();
    return last;
  }
  BeatRun& run = load_.NewBeats();
  Place(beats, false, run);
  Accept(beats, false);
  load_.BeatsPlaced();
  if (last) {
    load_.BurstPlaced(accepted_ - 1, Last(accepted_ - 1));
    load_.EndIssue();
  }
  return last;
}

void Read::Moved(uint64_t burst, uint64_t moved, uint64_t beats) {
  const uint64_t first = moved + latency::kAnswer;
  if (!of_fetch_[burst % kSlots]) {
    const bool waited = load_.NeedsEveryBeat();
    load_.Beats(first, beats);
    if (waited) core_.due[kWakeRead] = NextAccept();
    return;
  }
  for (uint64_t beat = 0; beat < beats; beat++) front_.Arrive(first + beat);
  front_.Gather();
}

void Read::Completed(uint64_t burst, uint64_t moved) {
  const uint64_t cycle = moved + latency::kAnswer;
  last_[burst % kSlots] = cycle;
  if (!of_fetch_[burst % kSlots]) load_.BurstPlaced(burst, cycle);
  core_.due[kWakeRead] = NextAccept();
  if (core_.at_finish) core_.WakeAt(kWakeFront, core_.now + 1);
}

// While data is on the bus in every cycle, a burst is accepted after the last beat of the oldest in
// flight, and its beats follow those of the youngest: takes as many of the longest bursts as that
// goes on for, and come before the horizon. `next` is the cycle of the first.
bool Read::AcceptRow(uint64_t next, uint64_t horizon) {
  const uint64_t flight = core_.hw.read_outstanding;
  if (channel_.cost() != kOne || window_ != flight || next != Last(accepted_ - flight) + 1) {
    return false;
  }
  const uint64_t alike = load_.Alike();
  const uint64_t limit = std::min(horizon, front_.request_at());
  const uint64_t beats = load_.burst_beats();
  const uint64_t latency = latency::kAddress + memory_.read_latency + latency::kAnswer;
  const uint64_t free = Last(accepted_ - 1) + 1;  // first cycle of the channel
  uint64_t bursts = 0, alone = 0, accepted = 0;
  while (bursts < std::min(alike, flight)) {
    const uint64_t oldest = accepted_ - flight + bursts;
    const uint64_t at = Last(oldest) + 1;
    if (at >= limit || at + latency > free + bursts * beats) break;
    accepted = at;
    ++bursts;
    alone += bursts != flight && !joined_[(oldest + 1) % kSlots];
  }
  if (bursts == 0) return false;
  if (bursts == flight && latency <= beats * (flight - 1) && limit > free) {
    bursts = std::min(alike, flight + (limit - 1 - free) / beats);
    accepted = free + (bursts - flight) * beats;
  }
  load_.AcceptRow(bursts, accepted, free, alone);
  for (uint64_t burst = bursts - std::min(bursts, kSlots); burst < bursts; burst++) {
    last_[(accepted_ + burst) % kSlots] = free - 1 + (burst + 1) * beats;
    joined_[(accepted_ + burst) % kSlots] = true;
  }
  accepted_ += bursts;
  accepted_at_ = accepted;
  channel_.Delay(bursts * beats);
  return true;
}

}  // namespace tilewright::twin
