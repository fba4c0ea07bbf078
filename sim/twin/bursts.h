// SPDX-License-Identifier: Apache-2.0
// Cuts the rows of a strided region into bursts (tw_rows and tw_bursts).
#ifndef TILEWRIGHT_SIM_TWIN_BURSTS_H_
#define TILEWRIGHT_SIM_TWIN_BURSTS_H_

#include <algorithm>
#include <cstdint>

#include "instruction.h"
#include "latency.h"

namespace tilewright::twin {

class Bursts {
 public:
  Bursts(uint32_t axi_bytes, uint32_t burst_beats)
      : shift_(static_cast<uint32_t>(__builtin_ctz(axi_bytes))),
        mask_(axi_bytes - 1),
        page_beats_(latency::kPageBytes / axi_bytes),
        longest_(std::min(burst_beats, page_beats_)) {}

  // The region of an instruction that is taken in a cycle.
  void Start(const Instruction& region, uint64_t taken) {
    row_ = plane_ = region.dram_offset;
    y_step_ = region.y_step;
    z_step_ = region.z_step;
    row_bytes_ = region.x_size * region.tile_bytes;
    y_size_ = y_left_ = region.y_size;
    z_left_ = region.z_size;
    StartRow();
    offered_ = taken + latency::kTakeToOffer;
    second_row_ = taken + latency::kTakeToRow;
  }

  // The burst that is offered next: from which cycle on, its beats.
  uint64_t offered() const { return offered_; }
  uint32_t beats() const { return take_; }
  // Bytes of the region in one of its beats.
  uint64_t BytesIn(uint32_t beat) const {
    const uint64_t first = (beat_ + beat) << shift_;
    return std::min(first + mask_ + 1, row_ + row_bytes_) - std::max(first, row_);
  }

  // It is taken in a cycle. Returns whether it was the last.
  bool Take(uint64_t cycle) {
    beat_ += take_;
    left_ -= take_;
    if (left_ != 0) {
      Size();
      offered_ = cycle + latency::kNextBurst;
      return false;
    }
    if (y_left_ > 1) {
      row_ += y_step_;
      --y_left_;
    } else {
      plane_ += z_step_;
      row_ = plane_;
      y_left_ = y_size_;
      if (--z_left_ == 0) return true;
    }
    StartRow();
    offered_ = std::max(cycle + latency::kNextBurst, second_row_);
    return false;
  }

  // How many bursts from the offered one on are of its size and not the last of their row.
  uint64_t Alike() const {
    if (take_ != longest_ || (beat_ & (longest_ - 1)) != 0) return 0;
    return (left_ - 1) / longest_;
  }
  // That many are taken, the last of them in a cycle.
  void Skip(uint64_t bursts, uint64_t cycle) {
    beat_ += bursts * longest_;
    left_ -= static_cast<uint32_t>(bursts * longest_);
    Size();
    offered_ = cycle + latency::kNextBurst;
  }

 private:
  void StartRow() {
    beat_ = row_ >> shift_;
    left_ = static_cast<uint32_t>(((row_ & mask_) + row_bytes_ + mask_) >> shift_);
    Size();
  }
  void Size() {
    const uint32_t page_left = page_beats_ - static_cast<uint32_t>(beat_ & (page_beats_ - 1));
    take_ = std::min({left_, longest_, page_left});
  }

  const uint32_t shift_, mask_, page_beats_, longest_;
  uint64_t row_ = 0, plane_ = 0, y_step_ = 0, z_step_ = 0;
  uint64_t row_bytes_ = 0;
  uint32_t y_size_ = 0, y_left_ = 0, z_left_ = 0;
  uint64_t beat_ = 0;  // address of the offered burst, in beats
  uint32_t left_ = 0;  // beats left in the row
  uint32_t take_ = 0;
  uint64_t offered_ = 0, second_row_ = 0;
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_BURSTS_H_
