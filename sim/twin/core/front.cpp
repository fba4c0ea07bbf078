// SPDX-License-Identifier: Apache-2.0
#include "front.h"

#include <algorithm>

namespace tilewright::twin {

Front::Front(Core& core)
    : core_(core),
      decoder_(core.hw),
      chunk_beats_(std::min(core.hw.axi_burst_beats,
                            std::max(1u, latency::kFetchChunkBytes / core.hw.axi_bytes))),
      fifo_beats_(latency::kFetchFifoBytes / core.hw.axi_bytes),
      beats_(core.hw.axi_bytes < isa::kInstructionBytes ? isa::kInstructionBytes / core.hw.axi_bytes
                                                        : 0),
      parts_(core.hw.axi_bytes / isa::kInstructionBytes) {}

void Front::Start(const uint8_t* instructions, uint32_t count) {
  stream_ = instructions;
  const uint64_t chunk_bytes = uint64_t{chunk_beats_} * core_.hw.axi_bytes;
  chunks_ = (uint64_t{count} * isa::kInstructionBytes + chunk_bytes - 1) / chunk_bytes;
  request_at_ = 1;  // the first cycle only starts the fetch
  needed_ = int64_t{chunk_beats_} - fifo_beats_;
  arrived_ = popped_ = next_pop_ = 0;
  have_ = next_ = 0;
}

void Front::RequestTaken() {
  core_.counters.bytes_read += uint64_t{chunk_beats_} * core_.hw.axi_bytes;
  ++core_.counters.read_bursts;
  needed_ += chunk_beats_;
  if (--chunks_ == 0 || needed_ > static_cast<int64_t>(popped_)) {
    request_at_ = kForever;
    return;
  }
  request_at_ = core_.now + 1;
  if (needed_ > 0) {
    request_at_ = std::max(request_at_, popped_at_[(needed_ - 1) % kBeats] + 1);
  }
}

// A beat leaves the FIFO in a cycle.
void Front::Popped(uint64_t cycle) {
  popped_at_[popped_++ % kBeats] = cycle;
  if (static_cast<int64_t>(popped_) == needed_ && chunks_ != 0) {
    request_at_ = cycle + 1;
    core_.WakeAt(kWakeRead, request_at_);
  }
}

void Front::Gather() {
  uint64_t& wake = core_.due[kWakeFront];
  if (wake < kForever || core_.at_finish || core_.full_unit != kNobody) return;
  if (beats_ == 0) {
    wake = popped_ == arrived_ ? kForever : std::max(next_pop_, arrived_at_[popped_ % kBeats] + 1);
    return;
  }
  while (have_ < beats_ && popped_ < arrived_) {
    const uint64_t cycle = std::max(next_pop_, arrived_at_[popped_ % kBeats] + 1);
    Popped(cycle);
    next_pop_ = cycle + 1;
    ++have_;
  }
  wake = have_ == beats_ ? next_pop_ : kForever;
}

void Front::Step() {
  uint64_t& wake = core_.due[kWakeFront];
  const uint64_t now = core_.now;
  const uint8_t* bytes = stream_ + uint64_t{next_} * isa::kInstructionBytes;
  const uint32_t unit = Decoder::UnitOf(bytes);
  wake = kForever;
  if (unit == kUnits) {
    core_.at_finish = true;
    chunks_ = 0;  // what follows FINISH is not asked for
    request_at_ = kForever;
    return;
  }
  Queue& queue = core_.queue[unit];
  core_.full_unit = kNobody;
  if (queue.pushed - queue.taken == latency::kQueueDepth) {
    core_.full_unit = unit;  // until it takes an instruction
    return;
  }
  if (queue.pushed >= latency::kQueueDepth && queue.taken_at[queue.pushed & Queue::kMask] >= now) {
    wake = now + 1;
    return;
  }
  Instruction& entry = queue.slot[queue.pushed & Queue::kMask];
  decoder_.Decode(bytes, entry);
  entry.index = next_;
  entry.pushed = now;
  const bool first = queue.empty();
  ++queue.pushed;
  if (first) core_.Arm(unit);
  ++next_;
  if (beats_ != 0) {
    have_ = 0;
    next_pop_ = now;  // the first beat of the next leaves with this one
  } else {
    next_pop_ = now + 1;
    if (++have_ == parts_) {
      have_ = 0;
      Popped(now);
    }
  }
  Gather();
}

}  // namespace tilewright::twin
