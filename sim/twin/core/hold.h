// SPDX-License-Identifier: Apache-2.0
// Beats that LOAD places a part at a time: several diagonals in a beat (tw_hold).
#ifndef TILEWRIGHT_SIM_TWIN_CORE_HOLD_H_
#define TILEWRIGHT_SIM_TWIN_CORE_HOLD_H_

#include <algorithm>
#include <cstdint>

#include "beats.h"
#include "hardware.h"
#include "latency.h"

namespace tilewright::twin {

class Hold {
 public:
  explicit Hold(const Hardware& hardware)
      : part_bytes_(std::min(hardware.block_in, hardware.block_out)),
        depth_(std::max(latency::kHoldBeats, hardware.axi_burst_beats)),
        exists_(part_bytes_ < hardware.axi_bytes) {}

  // `diagonals`: the program has LOADs of diagonals.
  void Reset(bool diagonals) {
    active_ = exists_ && diagonals;
    asked_ = done_ = placed_until_ = 0;
    parts_.Clear();
    ends_.Clear();
  }
  // Whether beats may take longer than on the bus.
  bool active() const { return active_; }
  uint32_t PartsOf(uint64_t bytes) const {
    return static_cast<uint32_t>((bytes + part_bytes_ - 1) / part_bytes_);
  }

  // A beat is asked for, to be placed in parts.
  void Ask(uint32_t parts) {
    parts_.Push(parts);
    ++asked_;
  }
  // The next beat is on the bus in a cycle. Returns the first cycle in which it is placed; the
  // last is `placed_until`.
  uint64_t Arrive(uint64_t cycle, uint32_t* parts) {
    const uint64_t first = std::max(cycle, placed_until_ + 1);
    *parts = parts_.front();
    parts_.Pop();
    placed_until_ = first + *parts - 1;
    ends_.Push(placed_until_);
    return first;
  }
  uint64_t placed_until() const { return placed_until_; }

  // First cycle in which there is room for more beats, kForever: not known.
  uint64_t RoomFor(uint64_t beats) {
    const uint64_t asked = asked_ + beats;
    if (asked <= depth_ + done_) return 0;
    const uint64_t more = asked - depth_ - done_;  // beats that must be done first
    if (more > ends_.size()) return kForever;
    const uint64_t room = ends_.begin()[more - 1] + 1;
    for (uint64_t beat = 1; beat < more; beat++) {
      ends_.Pop();
      ++done_;
    }
    return room;
  }

 private:
  const uint64_t part_bytes_;
  const uint64_t depth_;
  const bool exists_;
  bool active_ = false;
  uint64_t asked_ = 0;  // beats
  uint64_t done_ = 0;   // of them, those that are forgotten
  uint64_t placed_until_ = 0;
  Fifo<uint32_t> parts_;  // of beats that are not on the bus yet
  Fifo<uint64_t> ends_;   // last cycles of the others
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_CORE_HOLD_H_
