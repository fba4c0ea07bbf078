// SPDX-License-Identifier: Apache-2.0
// A DRAM that both directions share (harness/memory_model.h): beats hold each other up.
//
// With separate channels the beats of a burst are known when it is accepted. Here they are not:
// the DRAM is followed to the present, and tells its ports what moved. Where both directions move
// it is stepped cycle by cycle, else a burst is taken at once.
#ifndef TILEWRIGHT_SIM_TWIN_SHARED_DRAM_H_
#define TILEWRIGHT_SIM_TWIN_SHARED_DRAM_H_

#include <cstdint>

#include "beats.h"
#include "memory_costs.h"

namespace tilewright::twin {

// What a master's side learns of its beats.
class DramPort {
 public:
  virtual ~DramPort() = default;
  // Address of a burst on the bus. All bursts before it are complete.
  virtual uint64_t AddressedAt(uint64_t burst, uint64_t accepted) const = 0;
  // Beats of a burst move, one a cycle.
  virtual void Moved(uint64_t burst, uint64_t first, uint64_t beats) = 0;
  // Its last did.
  virtual void Completed(uint64_t burst, uint64_t cycle) = 0;
  // Whether it has to learn of the burst's next beat in the cycle in which it moves.
  virtual bool NeedsEveryBeat(uint64_t burst) const = 0;
};

class SharedDram {
 public:
  explicit SharedDram(const MemoryCosts& costs);
  void Reset(DramPort* reads, DramPort* writes);

  // A burst is accepted by the read engine, or announced by STORE: whose first beat is valid from
  // a cycle on.
  void AddRead(uint64_t burst, uint64_t accepted, uint32_t beats);
  void AddWrite(uint64_t burst, uint64_t announced, uint32_t beats, uint64_t valid_from);

  // Follows the DRAM up to a cycle, which is not included.
  void CatchUp(uint64_t end);
  // A cycle before which its ports need not learn anything.
  uint64_t NextNews();

 private:
  struct Burst {
    uint64_t number, accepted;
    uint64_t from;  // first cycle in which a beat may move, kForever: not yet looked at
    uint32_t left;
    uint64_t valid_from;
  };

  uint64_t Start(uint64_t cycle) const { return std::max(free_at_, Fixed(cycle)); }
  bool Room(uint64_t cycle, uint64_t beats) const {
    return Start(cycle) + (beats - 1) * cost_ < Fixed(cycle + 1);
  }
  Burst* FrontRead();
  Burst* FrontWrite();
  void Step();
  bool MoveAlone(Channel& channel, Fifo<Burst>& queue, DramPort& port, uint64_t end);
  void Move(Channel& channel, Fifo<Burst>& queue, DramPort& port, uint64_t beats);

  const MemoryCosts costs_;
  const uint64_t cost_;
  DramPort* read_port_ = nullptr;
  DramPort* write_port_ = nullptr;
  Fifo<Burst> reads_, writes_;
  Channel read_, write_;
  uint64_t free_at_ = 0;  // of the DRAM, in fixed point
  uint64_t cycle_ = 0;    // next to be looked at
  // As in memory_model.h, of the cycle before.
  bool write_denied_ = false;   // a read took the room of a write
  bool write_waited_ = false;   // the master had a beat that was not taken
  bool write_owed_ = false;     // the next room goes to the write
  bool read_withheld_ = false;  // it did
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_SHARED_DRAM_H_
