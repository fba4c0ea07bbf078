// SPDX-License-Identifier: Apache-2.0
// The timing of the DRAM of harness/memory_model.h without its data: who may move in which cycle.
//
// The rules are those that memory_model.h states. On top of them the timeline knows for how many
// cycles it will go on doing the same, and can skip them.
#ifndef TILEWRIGHT_SIM_TWIN_MEMORY_TIMELINE_H_
#define TILEWRIGHT_SIM_TWIN_MEMORY_TIMELINE_H_

#include <array>
#include <cstdint>

#include "../harness/memory_model.h"

namespace tilewright::twin {

constexpr uint64_t kForever = ~uint64_t{0} >> 1;

class MemoryTimeline {
 public:
  // Throws std::invalid_argument on random stalls, which the twin does not cover.
  MemoryTimeline(uint32_t beat_bytes, const MemoryTiming& timing);

  // Cycle 0, nothing in flight.
  void Reset();

  // The slave's pins in this cycle.
  bool r_valid() const { return r_valid_; }
  bool r_last() const { return r_last_; }
  uint32_t r_owner() const { return reads_.Front().owner; }
  bool w_ready() const { return w_ready_; }
  bool b_valid() const { return b_valid_; }
  bool ar_ready() const { return reads_.count < timing_.max_reads; }
  bool aw_ready() const { return writes_.count < timing_.max_writes; }
  // Beats of the write burst whose data moves, this cycle's included.
  uint32_t write_beats_left() const { return writes_.At(write_data_).beats_left; }

  // What the master does in this cycle; `Next` ends it.
  struct Moves {
    bool ar = false, aw = false, w_valid = false;
    uint32_t ar_beats = 0, ar_owner = 0, aw_beats = 0;
  };
  void Next(const Moves& moves);

  // Cycles from this one on in which the pins stay as they are, if W moves (or does not) in each
  // of them and no address is accepted; 0: this cycle ends something.
  uint64_t Steady(bool w_moves) const;
  // Moves on by `cycles` < Steady(w_moves) cycles at once: the pins are still the same.
  void Skip(uint64_t cycles, bool w_moves);

 private:
  static constexpr uint64_t kOne = 1 << 16;
  struct Burst {
    uint32_t owner = 0;
    uint32_t beats_left = 0;
    bool complete = false;
    uint64_t due = 0;
  };
  struct Queue {
    static constexpr uint32_t kCapacity = 32;  // the master's own limit is 16
    std::array<Burst, kCapacity> slot;
    uint32_t head = 0, count = 0;
    Burst& Front() { return slot[head]; }
    const Burst& Front() const { return slot[head]; }
    Burst& At(uint32_t i) { return slot[(head + i) % kCapacity]; }
    const Burst& At(uint32_t i) const { return slot[(head + i) % kCapacity]; }
    void Push(const Burst& burst) { slot[(head + count++) % kCapacity] = burst; }
    void Pop() {
      head = (head + 1) % kCapacity;
      --count;
    }
  };
  struct Channel {
    uint64_t cost = 0, free_at = 0;
    bool IsFree(uint64_t cycle) const { return free_at <= cycle << 16; }
    uint64_t NextFree() const { return (free_at + kOne - 1) >> 16; }
    void Charge(uint64_t cycle) {
      const uint64_t now = cycle << 16;
      free_at = (free_at + kOne > now ? free_at : now) + cost;
    }
  };

  uint64_t SharedStart(uint64_t cycle) const {
    return shared_free_at_ > cycle << 16 ? shared_free_at_ : cycle << 16;
  }
  bool SharedRoom(uint64_t cycle, uint64_t beats) const {
    return shared_cost_ == 0 ||
           SharedStart(cycle) + (beats - 1) * shared_cost_ < (cycle + 1) << 16;
  }
  void ShareCharge(uint64_t cycle) { shared_free_at_ = SharedStart(cycle) + shared_cost_; }
  void Decide(bool write_was_waiting);

  const MemoryTiming timing_;
  Channel read_, write_;
  uint64_t shared_cost_ = 0, shared_free_at_ = 0;
  bool write_denied_ = false, write_owed_ = false, read_withheld_ = false;
  Queue reads_, writes_;
  uint32_t write_data_ = 0;  // index of the write whose data is accepted next
  uint64_t cycle_ = 0;
  bool r_valid_ = false, r_last_ = false, w_ready_ = false, b_valid_ = false;
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_MEMORY_TIMELINE_H_
