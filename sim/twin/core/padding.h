// SPDX-License-Identifier: Apache-2.0
// The padding of a LOAD (tw_padding): a tile in each cycle in which no data arrives.
#ifndef TILEWRIGHT_SIM_TWIN_CORE_PADDING_H_
#define TILEWRIGHT_SIM_TWIN_CORE_PADDING_H_

#include <cstdint>

#include "beats.h"
#include "instruction.h"
#include "latency.h"

namespace tilewright::twin {

class Padding {
 public:
  void Reset() { state_ = kIdle; }

  // The padding of a LOAD that is taken in a cycle.
  void Start(const Instruction& load, uint64_t taken);
  bool active() const { return state_ != kIdle; }
  // First cycle that is not accounted; once it is no more active, the first cycle without it.
  uint64_t cycle() const { return cycle_; }
  // A cycle before which it cannot end.
  uint64_t EndsAfter() const { return cycle_ + run_; }

  // Goes on to a cycle, before which the beats are known. It writes from `open` on. Returns the
  // tiles it writes.
  uint64_t Advance(uint64_t end, uint64_t open, BeatLog& beats);
  // Whether it writes a tile in the cycle to which it has advanced.
  bool Writes(uint64_t open, BeatLog& beats) const;

 private:
  enum State : uint8_t { kIdle, kRow, kLeft, kRight };

  void ChooseRun();

  State state_ = kIdle;
  uint32_t left_ = 0, right_ = 0, top_ = 0, x_size_ = 0, y_size_ = 0, z_size_ = 0;
  uint32_t width_ = 0, height_ = 0;  // of a padded plane
  uint32_t row_ = 0, plane_ = 0;
  uint32_t run_ = 0;  // tiles
  uint64_t cycle_ = 0;
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_CORE_PADDING_H_
