// SPDX-License-Identifier: Apache-2.0
#include "store.h"

#include <algorithm>

namespace tilewright::twin {

Store::Store(Core& core, const MemoryCosts& memory)
    : core_(core),
      bursts_(core.hw.axi_bytes, core.hw.axi_burst_beats),
      memory_(memory),
      window_(std::min<uint64_t>(memory.max_writes, core.hw.write_outstanding)) {}

void Store::Reset(Bus* bus, bool arbitrated) {
  channel_.Reset(memory_.write_cost);
  bus_ = bus;
  arbitrated_ = arbitrated;
  addressed_at_ = 0;
  issuing_ = false;
  issue_end_ = retired_ = 0;
  announced_ = responded_ = kSlots;
  announced_at_ = 0;
  burst_.fill(Burst());
  taken_ = 0;
  read_at_ = 0;
  std::fill(written_, written_ + latency::kBeatFifo, 0);
  log_.Clear();
  fills_.Clear();
  unread_.Clear();
  ahead_ = 0;
}

void Store::Take() {
  Queue& queue = core_.queue[kStore];
  const Instruction& head = queue.head();
  const uint64_t now = core_.now;
  AccountWait(head);
  uint64_t& busy = core_.counters.unit[kStore][kBusy];
  busy += !BusyIn(now);      // the take
  busy += !BusyIn(now + 1);  // state Setup
  core_.counters.bytes_written +=
      uint64_t{head.x_size} * head.tile_bytes * head.y_size * head.z_size;
  index_ = head.index;
  push_ = head.push;
  read_end_[taken_ % kSlots] = kForever;
  issuing_ = true;
  ++taken_;
  bursts_.Start(head, now);
  core_.Take(kStore);
  core_.due[kWakeStore] = kForever;
  queue.free_at = kForever;
  core_.due[kWakeWrite] = NextAnnounce();
}

// Whether a beat moves in a cycle that is not before those asked for earlier.
bool Store::BusyIn(uint64_t cycle) {
  while (!fills_.empty() && fills_.front() < cycle) fills_.Pop();
  return log_.Has(cycle) || (!fills_.empty() && fills_.front() == cycle);
}

void Store::AccountWait(const Instruction& head) {
  uint64_t* counters = core_.counters.unit[kStore];
  uint64_t from = issue_end_ + 1;
  if (head.pushed >= from) {
    const uint64_t end = responded_ != announced_ ? kForever : std::max(issue_end_, retired_);
    if (head.pushed > end) counters[kIdle] += head.pushed - end;
    from = head.pushed + 1;
  }
  // Beats of earlier instructions keep the unit busy while it waits for tokens.
  core_.TokenWaits(kStore, from, [&](uint32_t counter, uint64_t begin, uint64_t end) {
    counters[counter] += end - begin - log_.Within(begin, end);
    for (const uint64_t fill : fills_) counters[counter] -= fill >= begin && fill < end;
  });
}

void Store::Announce() {
  const uint64_t now = core_.now;
  const uint32_t beats = bursts_.beats();
  core_.counters.unit[kStore][kBusy] += beats + !BusyIn(now);
  ++core_.counters.write_bursts;
  const uint64_t valid_from = now + latency::kAnnounceToRead + latency::kReadToBeat;
  const bool last = bursts_.Take(now);
  const uint64_t number = announced_++;
  announced_at_ = now;
  Burst& burst = burst_[number % kSlots];
  burst = {kForever, index_, static_cast<uint8_t>(push_), last};
  if (bus_ != nullptr) {
    addressed_at_ = kForever;
    bus_->AddWrite(this, number, now, beats, valid_from);
    unread_.Push({now, beats, true, last ? taken_ - 1 : kForever});
    ReadAhead();
  } else {
    const uint64_t from = std::max(AddressedAt(number, now) + 1, valid_from);
    BeatRun& run = log_.Add();
    channel_.Place(from, beats, run);
    ReadBeats(now, run);
    burst.response =
        std::max(run.last + memory_.write_latency + latency::kAnswer, Response(number - 1) + 1);
    if (last) read_end_[(taken_ - 1) % kSlots] = read_at_;
  }
  core_.due[kWakeWrite] = last ? kForever : NextAnnounce();
  if (last) {
    issuing_ = false;
    issue_end_ = now + latency::kBurstsDone;
    core_.queue[kStore].free_at = issue_end_ + latency::kIssueToIdle;
    UpdateRoom();
    core_.Arm(kStore);
  }
  if (bus_ == nullptr) Responded(burst);
}

// The response of a burst is known.
void Store::Responded(const Burst& burst) {
  ++responded_;
  if (!burst.last) return;
  retired_ = burst.response;
  core_.Retire(kStore, burst.index, burst.push, burst.response);
}

// Follows the reads of OUT for a burst: each as soon as the FIFO will have room. Counts the cycles
// in which a beat enters the FIFO and none is on the bus.
void Store::ReadBeats(uint64_t announced, const BeatRun& run) {
  for (uint32_t beat = 0; beat < run.beats; beat++) {
    if (beat == latency::kBeatFifo && run.cost == kOne) {
      // From here on a beat is on the bus whenever one enters the FIFO.
      const uint64_t rest = run.beats - beat;
      read_at_ = std::max(read_at_ + rest, run.last - latency::kBeatFifo + 1);
      for (uint32_t i = 0; i < latency::kBeatFifo; i++) {
        written_[i] = run.last + 1 - latency::kBeatFifo + i;
      }
      break;
    }
    read_at_ = std::max(read_at_, written_[0]) + 1;
    if (beat == 0) read_at_ = std::max(read_at_, announced + latency::kAnnounceToRead);
    const uint64_t fill = read_at_ + latency::kReadToFifo;
    if (fill != written_[1] && fill != written_[2] && fill != written_[3]) {
      fills_.Push(fill);
      ++core_.counters.unit[kStore][kBusy];
    }
    std::copy(written_ + 1, written_ + latency::kBeatFifo, written_);
    written_[latency::kBeatFifo - 1] = run.At(beat);
  }
}

// The same where it is not known when the beats will be on the bus: as far as it is.
void Store::ReadAhead() {
  while (!unread_.empty() && ahead_ < latency::kBeatFifo) {
    Unread& burst = unread_.front();
    read_at_ = std::max(read_at_, written_[ahead_]) + 1;
    if (burst.first) read_at_ = std::max(read_at_, burst.announced + latency::kAnnounceToRead);
    burst.first = false;
    fills_.Push(read_at_ + latency::kReadToFifo);
    ++core_.counters.unit[kStore][kBusy];
    ++ahead_;
    if (--burst.left != 0) continue;
    if (burst.ends < kForever) {
      read_end_[burst.ends % kSlots] = read_at_;
      UpdateRoom();
      if (!issuing_) core_.Arm(kStore);
    }
    unread_.Pop();
  }
}

void Store::Moved(uint64_t, uint64_t first, uint64_t beats) {
  log_.Add(first, beats);
  for (uint64_t cycle = first; cycle < first + beats; cycle++) {
    // The cycle counts once if a beat enters the FIFO in it.
    if (fills_.Remove(cycle)) --core_.counters.unit[kStore][kBusy];
    std::copy(written_ + 1, written_ + latency::kBeatFifo, written_);
    written_[latency::kBeatFifo - 1] = cycle;
    --ahead_;
    ReadAhead();
  }
}

void Store::Completed(uint64_t number, uint64_t cycle) {
  Burst& burst = burst_[number % kSlots];
  burst.response = cycle + latency::kAnswer;
  if (issuing_) core_.due[kWakeWrite] = NextAnnounce();
  Responded(burst);
}

bool Store::NeedsEveryBeat(uint64_t) const { return core_.queue[kStore].room_at >= kForever; }

void Store::UpdateRoom() {
  // The queue of instructions in flight, and the one whose data is read.
  constexpr uint64_t kFlights = latency::kInFlight + 1;
  core_.queue[kStore].room_at = taken_ < kFlights ? 0 : read_end_[(taken_ - kFlights) % kSlots] + 1;
}

uint64_t Store::IdleFrom() const {
  if (!core_.queue[kStore].empty() || issuing_ || responded_ != announced_) return kForever;
  return std::max(issue_end_, retired_) + 1;
}

void Store::Finish(uint64_t last) {
  uint64_t* counters = core_.counters.unit[kStore];
  counters[kIdle] += last - std::max(issue_end_, retired_);
  // The rest of the cycles: its head waits for room, or it waits for responses.
  counters[kMemory] = last + 1;
  for (uint32_t wait = 0; wait < kWaits; wait++) {
    if (wait != kMemory) counters[kMemory] -= counters[wait];
  }
}

}  // namespace tilewright::twin
