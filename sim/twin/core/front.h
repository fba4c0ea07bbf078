// SPDX-License-Identifier: Apache-2.0
// The front: fetches the instruction stream and hands each instruction to its unit (tw_fetch).
#ifndef TILEWRIGHT_SIM_TWIN_CORE_FRONT_H_
#define TILEWRIGHT_SIM_TWIN_CORE_FRONT_H_

#include <array>
#include <cstdint>

#include "core.h"

namespace tilewright::twin {

class Front {
 public:
  explicit Front(Core& core);

  // `count` instructions; the first FINISH ends them, what follows it may be anything.
  void Start(const uint8_t* instructions, uint32_t count);

  // The first cycle in which the next burst is asked for, and its beats.
  uint64_t request_at() const { return request_at_; }
  uint32_t chunk_beats() const { return chunk_beats_; }
  // The burst is accepted now.
  void RequestTaken();

  // A beat of the stream is on the bus in a cycle. `Gather` follows the last of several.
  void Arrive(uint64_t cycle) { arrived_at_[arrived_++ % kBeats] = cycle; }
  void Gather();

  // An instruction is at the dispatch now.
  void Step();
  uint32_t next() const { return next_; }

 private:
  static constexpr uint32_t kBeats = 256;  // at least what the FIFO holds: 4-byte beats

  void Popped(uint64_t cycle);

  Core& core_;
  const Decoder decoder_;
  const uint32_t chunk_beats_;
  const uint32_t fifo_beats_;
  const uint32_t beats_;  // of an instruction, 0: one or several instructions in a beat
  const uint32_t parts_;  // instructions in a beat

  const uint8_t* stream_ = nullptr;
  uint64_t chunks_ = 0;  // bursts that are not yet asked for
  uint64_t request_at_ = kForever;
  int64_t needed_ = 0;  // beats that must have left the FIFO before the next burst is asked for
  uint64_t arrived_ = 0, popped_ = 0;  // beats
  std::array<uint64_t, kBeats> arrived_at_, popped_at_;
  uint64_t next_pop_ = 0;  // first cycle in which a beat can leave the FIFO
  uint32_t have_ = 0;      // beats gathered, or the part of the beat that is next
  uint32_t next_ = 0;      // instruction
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_CORE_FRONT_H_
