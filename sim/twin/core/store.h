// SPDX-License-Identifier: Apache-2.0
// The STORE unit (tw_store) and the write side of the DRAM.
#ifndef TILEWRIGHT_SIM_TWIN_CORE_STORE_H_
#define TILEWRIGHT_SIM_TWIN_CORE_STORE_H_

#include <array>
#include <cstdint>

#include "bursts.h"
#include "core.h"
#include "sim/twin/system/memory_costs.h"
#include "sim/twin/system/shared_dram.h"

namespace tilewright::twin {

class Store final : public DramPort {
 public:
  Store(Core& core, const MemoryCosts& memory);
  // `bus`: who takes the bursts, where beats hold each other up; else null. `arbitrated`: it tells
  // when a burst is addressed.
  void Reset(Bus* bus, bool arbitrated);

  // Now the head has its tokens and there is room for it.
  void Take();
  // A burst may be announced now.
  void Announce();

  // First cycle in which nothing of it is left, kForever: not known.
  uint64_t IdleFrom() const;
  // Accounts the cycles after the last instruction, up to the last of the run.
  void Finish(uint64_t last);

  // The bus
  uint64_t AddressedAt(uint64_t burst, uint64_t announced) const override {
    return std::max(announced + latency::kAddress,
                    Response(burst - window_) + 1 - latency::kAnswer);
  }
  void Granted(uint64_t cycle) override {
    addressed_at_ = cycle;
    if (issuing_) core_.due[kWakeWrite] = NextAnnounce();
  }
  void Moved(uint64_t burst, uint64_t first, uint64_t beats) override;
  void Completed(uint64_t burst, uint64_t cycle) override;
  bool NeedsEveryBeat(uint64_t burst) const override;

 private:
  static constexpr uint64_t kSlots = 32;  // more than bursts are in flight

  // A burst from its announcement to its response.
  struct Burst {
    uint64_t response;  // cycle in which it is taken, kForever: not known
    uint32_t index;     // of its instruction
    uint8_t push;
    bool last;  // of its instruction
  };

  // A burst from its announcement to the read of its last beat: where beats hold each other up.
  struct Unread {
    uint64_t announced;
    uint32_t left;  // beats
    bool first;     // none of them is read
    uint64_t ends;  // the instruction of which it is the last, kForever: not the last
  };

  uint64_t Response(uint64_t burst) const { return burst_[burst % kSlots].response; }
  uint64_t NextAnnounce() const {
    return std::max({bursts_.offered(),
                     arbitrated_ ? addressed_at_ : AddressedAt(announced_ - 1, announced_at_),
                     Response(announced_ - core_.hw.write_outstanding) + 1});
  }
  bool BusyIn(uint64_t cycle);
  void AccountWait(const Instruction& head);
  void ReadBeats(uint64_t announced, const BeatRun& run);
  void ReadAhead();
  void Responded(const Burst& burst);
  void UpdateRoom();

  Core& core_;
  Bursts bursts_;
  Channel channel_;
  const MemoryCosts& memory_;
  const uint64_t window_;  // bursts that the DRAM and the unit allow in flight
  Bus* bus_ = nullptr;
  bool arbitrated_ = false;
  uint64_t addressed_at_ = 0;  // the last burst, where it is told; kForever: not yet

  uint32_t index_ = 0, push_ = 0;  // of the instruction whose bursts are announced
  bool issuing_ = false;
  uint64_t issue_end_ = 0;       // last cycle of the issue stage with the instruction before
  uint64_t retired_ = 0;         // cycle in which the last instruction retired
  uint64_t announced_ = kSlots;  // bursts so far, and the cycle of the last
  uint64_t announced_at_ = 0;
  uint64_t responded_ = kSlots;  // bursts whose response is known
  std::array<Burst, kSlots> burst_{};
  uint64_t taken_ = 0;                         // instructions
  std::array<uint64_t, kSlots> read_end_{};    // the last read of OUT of each, kForever: not known
  uint64_t read_at_ = 0;                       // the last read of OUT
  uint64_t written_[latency::kBeatFifo] = {};  // the last beats on the bus, oldest first
  BeatLog log_;                                // of the beats on the bus
  Fifo<uint64_t> fills_;                       // other cycles in which a beat enters the FIFO
  Fifo<Unread> unread_;
  uint64_t ahead_ = 0;  // beats that are read and not on the bus
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_CORE_STORE_H_
