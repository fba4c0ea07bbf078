// SPDX-License-Identifier: Apache-2.0
#include "padding.h"

#include <algorithm>

namespace tilewright::twin {

void Padding::Start(const Instruction& load, uint64_t taken) {
  state_ = kRow;
  left_ = load.pad_left;
  right_ = load.pad_right;
  top_ = load.pad_top;
  x_size_ = load.x_size;
  y_size_ = load.y_size;
  z_size_ = load.z_size;
  width_ = left_ + x_size_ + right_;
  height_ = top_ + y_size_ + load.pad_bottom;
  row_ = plane_ = run_ = 0;
  cycle_ = taken + latency::kTakeToRun;
}

// A cycle that ends a run, or chooses one at the start of a row.
void Padding::ChooseRun() {
  const bool full_row = row_ < top_ || row_ >= top_ + y_size_ || x_size_ == 0;
  if (state_ == kRow) {
    run_ = full_row ? width_ : left_;
    state_ = kLeft;
    return;
  }
  if (state_ == kLeft && !full_row) {
    run_ = right_;
    state_ = kRight;
    return;
  }
  state_ = kRow;
  if (++row_ >= height_) {
    row_ = 0;
    if (++plane_ >= z_size_) state_ = kIdle;
  }
}

uint64_t Padding::Advance(uint64_t end, uint64_t open, BeatLog& beats) {
  uint64_t written = 0;
  const BeatRun* next = beats.begin();
  while (state_ != kIdle && cycle_ < end) {
    if (run_ == 0) {
      ChooseRun();
      ++cycle_;
      continue;
    }
    if (cycle_ < open) {
      cycle_ = std::min(open, end);
      continue;
    }
    // The next beats, from this cycle on.
    while (next != beats.end() && next->last < cycle_) ++next;
    uint64_t beat = kForever, after = kForever;
    if (next != beats.end()) {
      beat = next->cost == kOne ? std::max(next->first, cycle_)
                                : next->At(static_cast<uint32_t>(next->Before(cycle_)));
      after = next->cost == kOne ? next->last + 1 : beat + 1;
    }
    const uint64_t tiles = std::min<uint64_t>(run_, std::min(beat, end) - cycle_);
    run_ -= static_cast<uint32_t>(tiles);
    written += tiles;
    cycle_ += tiles;
    if (run_ != 0 && cycle_ < end) cycle_ = std::min(after, end);
  }
  return written;
}

bool Padding::Writes(uint64_t open, BeatLog& beats) const {
  if (state_ == kIdle || run_ == 0 || cycle_ < open) return false;
  for (const BeatRun& run : beats) {
    if (run.Has(cycle_)) return false;
  }
  return true;
}

}  // namespace tilewright::twin
