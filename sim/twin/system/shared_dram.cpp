// SPDX-License-Identifier: Apache-2.0
#include "shared_dram.h"

#include <algorithm>

namespace tilewright::twin {

SharedDram::SharedDram(const MemoryCosts& costs) : costs_(costs), cost_(costs.shared_cost) {}

void SharedDram::Reset() {
  reads_.Clear();
  writes_.Clear();
  read_.Reset(costs_.read_cost);
  write_.Reset(costs_.write_cost);
  free_at_ = cycle_ = response_ = 0;
  write_denied_ = write_waited_ = write_owed_ = read_withheld_ = false;
}

void SharedDram::AddRead(DramPort* port, uint64_t burst, uint64_t accepted, uint32_t beats) {
  reads_.Push({port, burst, accepted, kForever, beats, 0});
}

void SharedDram::AddWrite(DramPort* port, uint64_t burst, uint64_t announced, uint32_t beats,
                          uint64_t valid_from) {
  writes_.Push({port, burst, announced, kForever, beats, valid_from});
}

SharedDram::Burst* SharedDram::FrontRead() {
  if (reads_.empty()) return nullptr;
  Burst& burst = reads_.front();
  if (burst.from >= kForever) {
    burst.from = burst.port->AddressedAt(burst.number, burst.accepted) + costs_.read_latency;
  }
  return &burst;
}

SharedDram::Burst* SharedDram::FrontWrite() {
  if (writes_.empty()) return nullptr;
  Burst& burst = writes_.front();
  if (burst.from >= kForever) {
    burst.from = burst.port->AddressedAt(burst.number, burst.accepted) + 1;
  }
  return &burst;
}

// Beats of the front burst move from this cycle on, one a cycle. Several: at the full rate.
void SharedDram::Move(Channel& channel, Fifo<Burst>& queue, bool write, uint64_t beats) {
  Burst& burst = queue.front();
  DramPort& port = *burst.port;
  const uint64_t number = burst.number, last = cycle_ + beats - 1;
  if (beats == 1) {
    BeatRun run;
    channel.Place(cycle_, 1, run);
    free_at_ = Start(cycle_) + cost_;
  } else {
    channel.Moved(last + 1);
    free_at_ = Fixed(last) + cost_;
  }
  const bool complete = burst.left == beats;
  burst.left -= static_cast<uint32_t>(beats);
  if (complete) queue.Pop();
  port.Moved(number, cycle_, beats);
  if (!complete) return;
  if (write) response_ = std::max(last + costs_.write_latency, response_ + 1);
  port.Completed(number, write ? response_ : last);
}

// One cycle, by the rules of memory_model.h.
void SharedDram::Step() {
  const Burst* write = FrontWrite();
  const bool addressed = write != nullptr && write->from <= cycle_;
  const bool open = addressed && write_.free_at() <= Fixed(cycle_);
  const bool valid = write != nullptr && write->valid_from <= cycle_;
  if (read_withheld_ || !addressed) write_owed_ = false;
  if (write_denied_ && write_waited_) write_owed_ = true;
  read_withheld_ = false;
  bool shown = false;
  const Burst* read = FrontRead();
  if (read != nullptr && read->from <= cycle_ && read_.free_at() <= Fixed(cycle_) &&
      Room(cycle_, 1)) {
    read_withheld_ = write_owed_ && open && !Room(cycle_, 2);
    shown = !read_withheld_;
  }
  if (shown) Move(read_, reads_, false, 1);
  const bool ready = open && Room(cycle_, 1);
  write_denied_ = shown && open && !ready;
  write_waited_ = valid && !ready;
  if (ready && valid) Move(write_, writes_, true, 1);
  ++cycle_;
}

// Moves as many beats of one direction as nothing holds up, before a cycle.
bool SharedDram::MoveAlone(Channel& channel, Fifo<Burst>& queue, bool write, uint64_t end) {
  if (!Flows(channel)) return false;
  const uint64_t beats = std::min<uint64_t>(queue.front().left, end - cycle_);
  Move(channel, queue, write, beats);
  cycle_ += beats;
  write_denied_ = write_waited_ = false;
  return true;
}

// The same of both directions, where a beat of each fits into every cycle.
bool SharedDram::MoveBoth(uint64_t end) {
  if (2 * cost_ > kOne || !Flows(read_) || !Flows(write_)) return false;
  const uint64_t beats =
      std::min<uint64_t>({reads_.front().left, writes_.front().left, end - cycle_});
  Move(read_, reads_, false, beats);
  const uint64_t read_end = free_at_;
  Move(write_, writes_, true, beats);
  free_at_ = read_end + cost_;
  cycle_ += beats;
  write_denied_ = write_waited_ = false;
  return true;
}

void SharedDram::CatchUp(uint64_t end) {
  while (cycle_ < end) {
    const Burst* read = FrontRead();
    const Burst* write = FrontWrite();
    const uint64_t read_from = read == nullptr ? kForever : std::max(read->from, OpensAt(read_));
    const uint64_t write_from =
        write == nullptr ? kForever : std::max({write->from, write->valid_from, OpensAt(write_)});
    if (!write_owed_ && !read_withheld_ && !(write_denied_ && write_waited_)) {
      const uint64_t next = std::min({read_from, write_from, end});
      if (next > cycle_) {
        cycle_ = next;
        write_denied_ = write_waited_ = false;
        continue;
      }
      if (write_from > cycle_) {
        if (MoveAlone(read_, reads_, false, std::min(end, write_from))) continue;
      } else if (read_from > cycle_) {
        if (MoveAlone(write_, writes_, true, std::min(end, read_from))) continue;
      } else if (MoveBoth(end)) {
        continue;
      }
    }
    Step();
  }
}

uint64_t SharedDram::NextNews() {
  uint64_t next = kForever;
  const auto look = [&](const Burst* burst, const Channel& channel) {
    if (burst == nullptr) return;
    const uint64_t beat = std::max({cycle_, burst->from, burst->valid_from, OpensAt(channel)});
    const bool every = burst->port->NeedsEveryBeat(burst->number);
    next = std::min(next, every ? beat : beat + ((burst->left - 1) * channel.cost() >> 16));
  };
  look(FrontRead(), read_);
  look(FrontWrite(), write_);
  return next;
}

}  // namespace tilewright::twin
