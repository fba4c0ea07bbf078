// SPDX-License-Identifier: Apache-2.0
// The LOAD unit (tw_load): takes instructions, offers their bursts, places beats, writes padding.
#ifndef TILEWRIGHT_SIM_TWIN_CORE_LOAD_H_
#define TILEWRIGHT_SIM_TWIN_CORE_LOAD_H_

#include <array>
#include <cstdint>

#include "bursts.h"
#include "core.h"
#include "hold.h"
#include "padding.h"

namespace tilewright::twin {

class Load {
 public:
  explicit Load(Core& core);
  // `diagonals`: the program has LOADs of diagonals.
  void Reset(bool diagonals);

  // Now the head has its tokens and there is room for it.
  void Take();

  // First cycle in which a burst is offered, kForever: none. Its beats.
  uint64_t offered() const { return offered_; }
  uint32_t burst_beats() const { return bursts_.beats(); }
  // The offered burst, number `burst` of the read engine, is accepted now. Returns whether it is
  // the last of its instruction.
  bool AcceptBurst(uint64_t burst);
  // All its bursts are accepted and, where it is known, placed; or its padding goes on.
  void EndIssue();
  // How many bursts from the offered one on are of its size, in one row and not the last there.
  uint64_t Alike() const { return padding_.active() || hold_.active() ? 0 : bursts_.Alike(); }
  // Some of them are accepted, the last in a cycle, `alone` of them in cycles without a beat of
  // LOAD. Their beats follow one another from `first` on, which they are accepted before.
  void AcceptRow(uint64_t bursts, uint64_t cycle, uint64_t first, uint64_t alone);

  // Beats of a burst move; the last beat of burst `burst` moves in a cycle.
  BeatRun& NewBeats() { return hold_.active() ? held_ : log_.Add(); }
  void BeatsPlaced() {
    if (hold_.active()) PlaceParts(held_);
  }
  void Beats(uint64_t first, uint64_t beats) {
    if (hold_.active()) {
      PlaceParts({first, first + beats - 1, Fixed(first), kOne, static_cast<uint32_t>(beats)});
    } else {
      log_.Add(first, beats);
    }
  }
  // Whether the next burst waits for beats of which it is not known when they move.
  bool NeedsEveryBeat() const {
    return hold_.active() && offered_ >= kForever && bursts_end_ >= kForever;
  }
  void BurstPlaced(uint64_t burst, uint64_t last);

  // First cycle in which nothing of it is left, kForever: not known.
  uint64_t IdleFrom() const;
  // Accounts the cycles after the last instruction, up to the last of the run.
  void Finish(uint64_t last);

 private:
  static constexpr uint32_t kSlots = 16;  // more than instructions are in flight

  // An instruction with data, from its take to its retirement.
  struct Flight {
    uint32_t index;
    uint8_t push;
    uint64_t last_burst;  // kForever: not yet accepted
    uint64_t last_beat;   // cycle, kForever: not yet known
    uint64_t credit;      // first cycle in which its issue counts as finished
  };

  void KeepLock(bool to_acc);
  void AccountWait(const Instruction& head);
  void RetirePlaced();
  uint64_t PaddingOpens() const;
  void TryFlush();
  void UpdateRoom();
  void UpdateLock();
  void Offer();
  void PlaceParts(const BeatRun& run);
  uint64_t RetiredAt(uint64_t flight) const {
    return flight + kSlots < begun_ ? 0
           : flight < retired_      ? retired_at_[flight % kSlots]
                                    : kForever;
  }

  Core& core_;
  Bursts bursts_;
  Padding padding_;
  Hold hold_;
  BeatRun held_;         // the beats of a burst that are placed in parts
  BeatLog log_;          // cycles in which data is placed
  Instruction current_;  // whose bursts and padding are issued
  bool issuing_ = false;
  bool flushing_ = false;  // padding only: waits for earlier data
  uint64_t offered_ = kForever;
  uint64_t bursts_end_ = 0;   // first cycle without a burst left, kForever: not known
  uint64_t open_flight_ = 0;  // with data for the same scratchpad before it, plus 1
  uint64_t issue_end_ = 0;    // last cycle of the issue stage with the instruction before

  std::array<Flight, kSlots> flight_;
  std::array<uint64_t, kSlots> retired_at_;
  uint64_t begun_ = 0, retired_ = 0;  // instructions with data so far
  uint64_t diagonal_flight_ = 0;      // the last of them that loads diagonals, plus 1
  uint64_t memory_flight_[8] = {};    // last of them, plus 1, by scratchpad
  uint64_t data_end_ = 0;   // cycle in which the last instruction retired, kForever: not known
  uint64_t last_beat_ = 0;  // of all

  uint32_t lock_ = 0;      // banks
  bool wants_ = false;     // those of the head among them
  uint64_t lock_end_ = 0;  // last cycle of the lock, kForever: not known
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_CORE_LOAD_H_
