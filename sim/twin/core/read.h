// SPDX-License-Identifier: Apache-2.0
// The read engine (tw_read) and the read side of the DRAM.
#ifndef TILEWRIGHT_SIM_TWIN_CORE_READ_H_
#define TILEWRIGHT_SIM_TWIN_CORE_READ_H_

#include <array>
#include <cstdint>

#include "core.h"
#include "front.h"
#include "load.h"
#include "sim/twin/system/memory_costs.h"
#include "sim/twin/system/shared_dram.h"

namespace tilewright::twin {

class Read final : public DramPort {
 public:
  Read(Core& core, Front& front, Load& load, const MemoryCosts& memory);
  // `bus`: who takes the bursts, where beats hold each other up; else null. `arbitrated`: it tells
  // when a burst is addressed.
  void Reset(Bus* bus, bool arbitrated);

  // A burst may be accepted now. Goes on with the bursts of LOAD until another unit wakes.
  void Step();

  // First cycle in which no burst is in flight.
  uint64_t IdleFrom() const { return Last(accepted_ - 1) + 1; }

  // The bus
  uint64_t AddressedAt(uint64_t burst, uint64_t accepted) const override {
    return std::max(accepted + latency::kAddress, Last(burst - window_) + 1 - latency::kAnswer);
  }
  void Granted(uint64_t cycle) override {
    addressed_at_ = cycle;
    core_.due[kWakeRead] = NextAccept();
  }
  void Moved(uint64_t burst, uint64_t first, uint64_t beats) override;
  void Completed(uint64_t burst, uint64_t cycle) override;
  bool NeedsEveryBeat(uint64_t burst) const override {
    return of_fetch_[burst % kSlots] || load_.NeedsEveryBeat();
  }

 private:
  static constexpr uint64_t kSlots = 32;  // more than bursts are in flight

  // Cycle in which the last beat of a burst is placed, kForever: not known.
  uint64_t Last(uint64_t burst) const { return last_[burst % kSlots]; }
  // First cycle in which another burst can be accepted, and in which one will be.
  uint64_t FreeAt() const {
    return std::max(arbitrated_ ? addressed_at_ : AddressedAt(accepted_ - 1, accepted_at_),
                    Last(accepted_ - core_.hw.read_outstanding) + 1);
  }
  uint64_t NextAccept() const {
    return std::max(FreeAt(), std::min(front_.request_at(), load_.offered()));
  }
  void Accept(uint32_t beats, bool fetch);
  void Place(uint32_t beats, bool fetch, BeatRun& run);
  void AcceptFetch();
  bool AcceptLoad();
  bool AcceptRow(uint64_t next, uint64_t horizon);

  Core& core_;
  Front& front_;
  Load& load_;
  Channel channel_;
  const MemoryCosts& memory_;
  const uint64_t window_;  // bursts that the DRAM and the engine allow in flight
  Bus* bus_ = nullptr;
  bool arbitrated_ = false;
  uint64_t addressed_at_ = 0;   // the last burst, where it is told; kForever: not yet
  uint64_t accepted_ = kSlots;  // bursts so far, and the cycle of the last
  uint64_t accepted_at_ = 0;
  std::array<uint64_t, kSlots> last_{};
  std::array<bool, kSlots> of_fetch_{};
  // Whether a burst is of LOAD and its first beat follows at once on the burst before.
  std::array<bool, kSlots> joined_{};
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_CORE_READ_H_
