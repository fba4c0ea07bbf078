// SPDX-License-Identifier: Apache-2.0
// Cuts the rows of a strided region into bursts (tw_rows and tw_bursts).
#ifndef TILEWRIGHT_SIM_TWIN_CORE_BURSTS_H_
#define TILEWRIGHT_SIM_TWIN_CORE_BURSTS_H_

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
    const uint64_t burst_mask = uint64_t{longest_} * (mask_ + 1) - 1;
    rows_alike_ = ((row_ | y_step_ | z_step_ | row_bytes_) & burst_mask) == 0;
    row_bursts_ = row_bytes_ / (burst_mask + 1);
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

  // How many bursts from the offered one on are of its size, in this plane and not its last.
  uint64_t Alike() const {
    if (take_ != longest_ || (beat_ & (longest_ - 1)) != 0) return 0;
    const uint64_t bursts = left_ / longest_;
    if (!rows_alike_ || y_left_ == 1) return (left_ - 1) / longest_;
    return bursts + uint64_t{y_left_ - 1} * row_bursts_ - 1;
  }
  // That many are taken, the last of them in a cycle.
  void Skip(uint64_t bursts, uint64_t cycle) {
    const uint64_t here = left_ / longest_;
    if (rows_alike_ && bursts >= here) {
      bursts -= here;
      const uint64_t rows = bursts / row_bursts_;
      bursts -= rows * row_bursts_;
      row_ += (rows + 1) * y_step_;
      y_left_ -= static_cast<uint32_t>(rows + 1);
      StartRow();
    }
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
  bool rows_alike_ = false;  // all rows consist of the longest bursts
  uint64_t row_bursts_ = 0;
  uint32_t y_size_ = 0, y_left_ = 0, z_left_ = 0;
  uint64_t beat_ = 0;  // address of the offered burst, in beats
  uint32_t left_ = 0;  // beats left in the row
  uint32_t take_ = 0;
  uint64_t offered_ = 0, second_row_ = 0;
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_CORE_BURSTS_H_
