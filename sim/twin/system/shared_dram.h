// SPDX-License-Identifier: Apache-2.0
// A DRAM whose beats hold each other up (harness/memory_model.h): both directions of a core share
// it, or the bursts of several cores are behind one another.
//
// Where a core has channels of its own, the beats of a burst are known when it is accepted. Here
// they are not: the DRAM is followed to the present, and tells its ports what moved. Where one
// direction denies the other a beat it is stepped cycle by cycle, else bursts are taken at once.
#ifndef TILEWRIGHT_SIM_TWIN_SYSTEM_SHARED_DRAM_H_
#define TILEWRIGHT_SIM_TWIN_SYSTEM_SHARED_DRAM_H_

#include <algorithm>
#include <cstdint>

#include "memory_costs.h"
#include "sim/twin/core/beats.h"

namespace tilewright::twin {

// What a direction of a core learns of its bursts.
class DramPort {
 public:
  virtual ~DramPort() = default;
  // Address of a burst on the bus. All bursts before it are complete.
  virtual uint64_t AddressedAt(uint64_t burst, uint64_t accepted) const = 0;
  // The address of the last burst is on the bus in a cycle: where an arbiter says so.
  virtual void Granted(uint64_t) {}
  // Beats of a burst move, one a cycle.
  virtual void Moved(uint64_t burst, uint64_t first, uint64_t beats) = 0;
  // Its last did: the cycle of that beat of a read, of the response of a write.
  virtual void Completed(uint64_t burst, uint64_t cycle) = 0;
  // Whether it has to learn of the burst's next beat in the cycle in which it moves.
  virtual bool NeedsEveryBeat(uint64_t burst) const = 0;
};

// Who takes the bursts of a core.
class Bus {
 public:
  virtual ~Bus() = default;
  // A burst is accepted by the read engine, or announced by STORE: whose first beat is valid from
  // a cycle on.
  virtual void AddRead(DramPort* port, uint64_t burst, uint64_t accepted, uint32_t beats) = 0;
  virtual void AddWrite(DramPort* port, uint64_t burst, uint64_t announced, uint32_t beats,
                        uint64_t valid_from) = 0;
};

class SharedDram final : public Bus {
 public:
  explicit SharedDram(const MemoryCosts& costs);
  void Reset();

  void AddRead(DramPort* port, uint64_t burst, uint64_t accepted, uint32_t beats) override;
  void AddWrite(DramPort* port, uint64_t burst, uint64_t announced, uint32_t beats,
                uint64_t valid_from) override;

  // Follows the DRAM up to a cycle, which is not included.
  void CatchUp(uint64_t end);
  // A cycle before which its ports need not learn anything.
  uint64_t NextNews();

 private:
  struct Burst {
    DramPort* port;
    uint64_t number, accepted;
    uint64_t from;  // first cycle in which a beat may move, kForever: not yet looked at
    uint32_t left;
    uint64_t valid_from;
  };

  uint64_t Start(uint64_t cycle) const { return std::max(free_at_, Fixed(cycle)); }
  bool Room(uint64_t cycle, uint64_t beats) const {
    return Start(cycle) + (beats - 1) * cost_ < Fixed(cycle + 1);
  }
  // Whether beats of a direction may follow one another in every cycle from this one on.
  bool Flows(const Channel& channel) const {
    return channel.cost() == kOne && cost_ <= kOne &&
           std::max(channel.free_at(), free_at_) <= Fixed(cycle_);
  }
  // First cycle in which a direction has room for a beat.
  uint64_t OpensAt(const Channel& channel) const {
    return std::max(Ceil(channel.free_at()), free_at_ >> 16);
  }
  Burst* FrontRead();
  Burst* FrontWrite();
  void Step();
  bool MoveAlone(Channel& channel, Fifo<Burst>& queue, bool write, uint64_t end);
  bool MoveBoth(uint64_t end);
  void Move(Channel& channel, Fifo<Burst>& queue, bool write, uint64_t beats);

  const MemoryCosts costs_;
  const uint64_t cost_;  // of a beat in the DRAM, 0: directions do not share it
  Fifo<Burst> reads_, writes_;
  Channel read_, write_;
  uint64_t free_at_ = 0;   // of the DRAM, in fixed point
  uint64_t cycle_ = 0;     // next to be looked at
  uint64_t response_ = 0;  // cycle of the last
  // As in memory_model.h, of the cycle before.
  bool write_denied_ = false;   // a read took the room of a write
  bool write_waited_ = false;   // the master had a beat that was not taken
  bool write_owed_ = false;     // the next room goes to the write
  bool read_withheld_ = false;  // it did
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_SYSTEM_SHARED_DRAM_H_
