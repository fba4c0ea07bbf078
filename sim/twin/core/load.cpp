// SPDX-License-Identifier: Apache-2.0
#include "load.h"

#include <algorithm>

namespace tilewright::twin {
namespace {

constexpr uint32_t kAccMemory = static_cast<uint32_t>(isa::Memory::kAcc);

}  // namespace

Load::Load(Core& core)
    : core_(core), bursts_(core.hw.axi_bytes, core.hw.axi_burst_beats), hold_(core.hw) {}

void Load::Reset(bool diagonals) {
  padding_.Reset();
  hold_.Reset(diagonals);
  log_.Clear();
  issuing_ = flushing_ = wants_ = false;
  offered_ = kForever;
  issue_end_ = data_end_ = last_beat_ = bursts_end_ = 0;
  begun_ = retired_ = diagonal_flight_ = 0;
  std::fill(memory_flight_, memory_flight_ + 8, 0);
  lock_ = 0;
  lock_end_ = 0;
}

void Load::Take() {
  Queue& queue = core_.queue[kLoad];
  const Instruction& head = queue.head();
  const uint64_t now = core_.now;
  const bool to_acc = head.memory == kAccMemory;
  if (to_acc) {
    if (!wants_) {
      wants_ = true;
      KeepLock(true);
      lock_ |= head.banks;
      lock_end_ = kForever;
      core_.Lock(kLoad, lock_, kForever);
      core_.due[kWakeLoad] = now + latency::kLockToTake;
      return;
    }
    const uint64_t locked =
        std::max(core_.LockedUntil(kGemm, head.banks), core_.LockedUntil(kVector, head.banks));
    if (locked >= now) {
      core_.due[kWakeLoad] = locked + 1;
      return;
    }
    wants_ = false;
  } else {
    KeepLock(false);
  }
  AccountWait(head);
  uint64_t& busy = core_.counters.unit[kLoad][kBusy];
  busy += !log_.Has(now);      // the take
  busy += !log_.Has(now + 1);  // state Setup

  current_ = head;
  core_.Take(kLoad);
  core_.due[kWakeLoad] = kForever;
  queue.free_at = kForever;
  issuing_ = true;
  open_flight_ = memory_flight_[current_.memory];
  bursts_end_ = now + latency::kTakeToRun;
  if (current_.has_pad) padding_.Start(current_, now);
  if (current_.has_data) {
    flight_[begun_ % kSlots] = {current_.index, current_.push, kForever, kForever, kForever};
    memory_flight_[current_.memory] = ++begun_;
    if (current_.diagonal) diagonal_flight_ = begun_;
    UpdateRoom();
    bursts_.Start(current_, now);
    bursts_end_ = kForever;
    Offer();
    core_.WakeAt(kWakeRead, offered_);
  } else {
    EndIssue();
  }
}

// A lock ends in a cycle unless an instruction comes before that, or one of ACC in it.
void Load::KeepLock(bool to_acc) {
  if (lock_ == 0) return;
  if (core_.now < lock_end_ || (to_acc && core_.now == lock_end_)) {
    lock_end_ = kForever;
    core_.Lock(kLoad, lock_, kForever);
  } else {
    lock_ = 0;
  }
}

void Load::AccountWait(const Instruction& head) {
  uint64_t* counters = core_.counters.unit[kLoad];
  uint64_t from = issue_end_ + 1;
  if (head.pushed >= from) {
    const uint64_t end = begun_ != retired_ ? kForever : std::max(issue_end_, data_end_);
    if (head.pushed > end) counters[kIdle] += head.pushed - end;
    from = head.pushed + 1;
  }
  // Beats of earlier instructions keep the unit busy while it waits for tokens.
  core_.TokenWaits(kLoad, from, [&](uint32_t counter, uint64_t begin, uint64_t end) {
    counters[counter] += end - begin - log_.Within(begin, end);
  });
}

bool Load::AcceptBurst(uint64_t burst) {
  const uint64_t now = core_.now;
  const uint32_t beats = bursts_.beats();
  uint64_t& busy = core_.counters.unit[kLoad][kBusy];
  bool writes = false;
  if (padding_.active()) {
    const uint64_t open = PaddingOpens();
    busy += padding_.Advance(now, open, log_);
    writes = padding_.Writes(open, log_);
  }
  uint64_t placing = beats;
  if (hold_.active()) {
    placing = 0;
    for (uint32_t beat = 0; beat < beats; beat++) {
      const uint32_t parts = current_.diagonal ? hold_.PartsOf(bursts_.BytesIn(beat)) : 1;
      hold_.Ask(parts);
      placing += parts;
    }
  }
  busy += placing + !(log_.Has(now) || writes);
  core_.counters.bytes_read += uint64_t{beats} * core_.hw.axi_bytes;
  ++core_.counters.read_bursts;
  const bool last = bursts_.Take(now);
  if (last) {
    flight_[(begun_ - 1) % kSlots].last_burst = burst;
    offered_ = kForever;
    bursts_end_ = now + latency::kBurstsDone;
  } else {
    Offer();
  }
  return last;
}

// The next burst is offered once there is room for its beats, as long as one of diagonals is in
// flight.
void Load::Offer() {
  offered_ = bursts_.offered();
  if (!hold_.active() || diagonal_flight_ == 0) return;
  const uint64_t room = hold_.RoomFor(bursts_.beats());
  offered_ = std::max(offered_, std::min(room, RetiredAt(diagonal_flight_ - 1) + 1));
}

void Load::PlaceParts(const BeatRun& run) {
  for (uint32_t beat = 0; beat < run.beats; beat++) {
    uint32_t parts = 0;
    const uint64_t first = hold_.Arrive(run.At(beat), &parts);
    log_.Add(first, parts);
  }
  if (bursts_end_ >= kForever) Offer();
}

void Load::AcceptRow(uint64_t bursts, uint64_t cycle, uint64_t first, uint64_t alone) {
  const uint64_t beats = bursts * bursts_.beats();
  core_.counters.unit[kLoad][kBusy] += beats + alone;
  core_.counters.bytes_read += beats * core_.hw.axi_bytes;
  core_.counters.read_bursts += bursts;
  bursts_.Skip(bursts, cycle);
  offered_ = bursts_.offered();
  log_.Add(first, beats);
}

void Load::BurstPlaced(uint64_t burst, uint64_t last) {
  for (uint64_t i = retired_; i < begun_; i++) {
    Flight& flight = flight_[i % kSlots];
    if (flight.last_burst != burst) continue;
    flight.last_beat = last_beat_ = hold_.active() ? hold_.placed_until() : last;
  }
  RetirePlaced();
}

uint64_t Load::PaddingOpens() const {
  return open_flight_ == 0 ? 0 : RetiredAt(open_flight_ - 1) + 1;
}

void Load::EndIssue() {
  if (!issuing_ || bursts_end_ >= kForever) return;
  if (padding_.active()) {
    core_.counters.unit[kLoad][kBusy] += padding_.Advance(core_.beats_known, PaddingOpens(), log_);
    if (padding_.active()) {
      core_.due[kWakePadding] = std::max(core_.now, padding_.EndsAfter()) + 1;
      return;
    }
  }
  core_.due[kWakePadding] = kForever;
  issue_end_ = current_.has_pad ? std::max(bursts_end_, padding_.cycle()) : bursts_end_;
  issuing_ = false;
  if (!current_.has_data) {
    flushing_ = true;
    TryFlush();
    return;
  }
  flight_[(begun_ - 1) % kSlots].credit = issue_end_ + 1;
  core_.queue[kLoad].free_at = issue_end_ + latency::kIssueToIdle;
  RetirePlaced();
  core_.Arm(kLoad);
}

void Load::RetirePlaced() {
  const uint64_t before = retired_;
  while (retired_ != begun_) {
    const Flight& flight = flight_[retired_ % kSlots];
    if (flight.last_beat >= kForever || flight.credit >= kForever) break;
    data_end_ = std::max(flight.last_beat, flight.credit);
    retired_at_[retired_++ % kSlots] = data_end_;
    core_.Retire(kLoad, flight.index, flight.push, data_end_);
  }
  if (retired_ == before) return;
  UpdateRoom();
  if (bursts_end_ >= kForever) Offer();
  TryFlush();
  UpdateLock();
  if (core_.due[kWakeLoad] >= kForever && !issuing_ && !flushing_) core_.Arm(kLoad);
}

// Padding alone retires once the data of all instructions before is in place.
void Load::TryFlush() {
  if (!flushing_ || retired_ != begun_) return;
  flushing_ = false;
  issue_end_ = data_end_ = std::max(issue_end_, data_end_) + 1;
  core_.Retire(kLoad, current_.index, current_.push, data_end_);
  core_.queue[kLoad].free_at = issue_end_ + 1;
  core_.Arm(kLoad);
  UpdateLock();
}

void Load::UpdateRoom() {
  // The queue of instructions in flight, and the one whose data arrives.
  constexpr uint64_t kFlights = latency::kInFlight + 1;
  core_.queue[kLoad].room_at = begun_ < kFlights ? 0 : RetiredAt(begun_ - kFlights) + 1;
}

// The lock ends when the unit is idle and has written its last.
void Load::UpdateLock() {
  if (lock_ == 0 || wants_ || issuing_ || flushing_ || retired_ != begun_) return;
  const uint64_t idle = std::max(issue_end_, data_end_) + 1;
  lock_end_ = idle + (last_beat_ + 1 == idle);
  for (uint32_t bank = 0; bank < isa::kAccBanks; bank++) {
    if (lock_ >> bank & 1) core_.locked[kLoad][bank] = lock_end_;
  }
  if (core_.waits_for_banks >> kGemm & 1) core_.WakeAt(kWakeGemm, lock_end_ + 1);
  if (core_.waits_for_banks >> kVector & 1) core_.WakeAt(kWakeVector, lock_end_ + 1);
}

uint64_t Load::IdleFrom() const {
  if (!core_.queue[kLoad].empty() || issuing_ || flushing_ || retired_ != begun_) return kForever;
  return std::max(issue_end_, data_end_) + 1;
}

void Load::Finish(uint64_t last) {
  uint64_t* counters = core_.counters.unit[kLoad];
  counters[kIdle] += last - std::max(issue_end_, data_end_);
  // The rest of the cycles: its head waits for banks or room, or it waits for data.
  counters[kMemory] = last + 1;
  for (uint32_t wait = 0; wait < kWaits; wait++) {
    if (wait != kMemory) counters[kMemory] -= counters[wait];
  }
}

}  // namespace tilewright::twin
