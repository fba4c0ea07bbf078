// SPDX-License-Identifier: Apache-2.0
#include "memory_timeline.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tilewright::twin {
namespace {

uint64_t Cost(uint32_t beat_bytes, double bytes_per_cycle) {
  return static_cast<uint64_t>(std::llround(beat_bytes / bytes_per_cycle * 65536));
}

}  // namespace

MemoryTimeline::MemoryTimeline(uint32_t beat_bytes, const MemoryTiming& timing) : timing_(timing) {
  if (timing.stall_percent != 0) {
    throw std::invalid_argument("the twin does not cover random stalls (stall_percent)");
  }
  read_.cost = std::max(kOne, Cost(beat_bytes, timing.read_bytes_per_cycle));
  write_.cost = std::max(kOne, Cost(beat_bytes, timing.write_bytes_per_cycle));
  if (timing.shared_bytes_per_cycle > 0) {
    shared_cost_ = Cost(beat_bytes, timing.shared_bytes_per_cycle);
  }
  Reset();
}

void MemoryTimeline::Reset() {
  read_.free_at = write_.free_at = shared_free_at_ = 0;
  write_denied_ = write_owed_ = read_withheld_ = false;
  reads_.count = writes_.count = 0;
  write_data_ = 0;
  cycle_ = 0;
  r_valid_ = r_last_ = w_ready_ = b_valid_ = false;
}

void MemoryTimeline::Next(const Moves& moves) {
  if (moves.ar) reads_.Push({moves.ar_owner, moves.ar_beats, false, cycle_ + timing_.read_latency});
  if (moves.w_valid && w_ready_) {
    Burst& burst = writes_.At(write_data_);
    write_.Charge(cycle_);
    ShareCharge(cycle_);
    if (--burst.beats_left == 0) {
      burst.complete = true;
      burst.due = cycle_ + timing_.write_latency;
      ++write_data_;
    }
  }
  const bool w_waits = moves.w_valid && !w_ready_;
  if (moves.aw) writes_.Push({0, moves.aw_beats, false, 0});
  if (r_valid_) {
    r_valid_ = false;
    if (r_last_) reads_.Pop();
  }
  if (b_valid_) {
    b_valid_ = false;
    writes_.Pop();
    --write_data_;
  }
  ++cycle_;
  Decide(w_waits);
}

void MemoryTimeline::Decide(bool write_was_waiting) {
  const bool write_open = write_data_ < writes_.count && write_.IsFree(cycle_);
  if (read_withheld_ || write_data_ == writes_.count) write_owed_ = false;
  if (write_denied_ && write_was_waiting) write_owed_ = true;
  read_withheld_ = false;
  bool shown = false;
  if (reads_.count != 0) {
    Burst& burst = reads_.Front();
    if (burst.due <= cycle_ && read_.IsFree(cycle_) && SharedRoom(cycle_, 1)) {
      read_withheld_ = write_owed_ && write_open && !SharedRoom(cycle_, 2);
      if (!read_withheld_) {
        shown = r_valid_ = true;
        r_last_ = --burst.beats_left == 0;
        read_.Charge(cycle_);
        ShareCharge(cycle_);
      }
    }
  }
  w_ready_ = write_open && SharedRoom(cycle_, 1);
  write_denied_ = shown && write_open && !w_ready_;
  if (writes_.count != 0) {
    const Burst& burst = writes_.Front();
    if (burst.complete && burst.due <= cycle_) b_valid_ = true;
  }
}

uint64_t MemoryTimeline::Steady(bool w_moves) const {
  if (b_valid_ || write_owed_ || write_denied_ || read_withheld_) return 0;
  uint64_t steady = kForever;
  if (r_valid_) {
    if (r_last_ || read_.cost != kOne) return 0;
    steady = reads_.Front().beats_left;
  } else if (reads_.count != 0) {
    const uint64_t shown = std::max(reads_.Front().due, read_.NextFree());
    if (shown <= cycle_) return 0;  // it waits for the shared DRAM
    steady = shown - cycle_;
  }
  if (w_moves) {
    const uint32_t left = write_beats_left();
    if (left <= 1 || write_.cost != kOne) return 0;
    steady = std::min<uint64_t>(steady, left - 1);
  } else if (!w_ready_ && write_data_ < writes_.count) {
    if (write_.NextFree() <= cycle_) return 0;
    steady = std::min(steady, write_.NextFree() - cycle_);
  }
  if (writes_.count != 0 && writes_.Front().complete) {
    const uint64_t due = writes_.Front().due;
    if (due <= cycle_) return 0;
    steady = std::min(steady, due - cycle_);
  }
  if (shared_cost_ != 0 && (r_valid_ || w_moves)) {
    if (shared_cost_ > kOne) return 0;
    if (r_valid_ && w_moves && 2 * shared_cost_ > kOne) {
      // Both move: the DRAM falls behind by `drift` a cycle, until a beat would not fit.
      const uint64_t drift = 2 * shared_cost_ - kOne;
      const uint64_t after = SharedStart(cycle_) + shared_cost_;
      const uint64_t next = (cycle_ + 1) << 16;
      const uint64_t behind = after > next ? after - next : 0;
      if (behind + shared_cost_ >= kOne) return 0;
      steady = std::min(steady, (kOne - shared_cost_ - behind - 1) / drift + 1);
    } else if (shared_free_at_ > (r_valid_ ? cycle_ + 1 : cycle_) << 16) {
      return 0;  // still behind from both
    }
  }
  return steady;
}

void MemoryTimeline::Skip(uint64_t cycles, bool w_moves) {
  if (cycles == 0) return;
  const uint64_t start = cycle_;
  cycle_ += cycles;
  if (r_valid_) {
    reads_.Front().beats_left -= static_cast<uint32_t>(cycles);
    read_.free_at = (cycle_ + 1) << 16;
  }
  if (w_moves) {
    writes_.At(write_data_).beats_left -= static_cast<uint32_t>(cycles);
    write_.free_at = cycle_ << 16;
  }
  if (shared_cost_ == 0) return;
  if (r_valid_) {
    uint64_t behind = 0;
    if (w_moves && 2 * shared_cost_ > kOne) {
      const uint64_t after = SharedStart(start) + shared_cost_;
      const uint64_t next = (start + 1) << 16;
      behind = (after > next ? after - next : 0) + (cycles - 1) * (2 * shared_cost_ - kOne);
    }
    shared_free_at_ = (cycle_ << 16) + behind + shared_cost_;
  } else if (w_moves) {
    shared_free_at_ = ((cycle_ - 1) << 16) + shared_cost_;
  }
}

}  // namespace tilewright::twin
