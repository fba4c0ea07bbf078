// SPDX-License-Identifier: Apache-2.0
// Several cores on one memory port (tw_arbiter), and the DRAM behind it.
#ifndef TILEWRIGHT_SIM_TWIN_SYSTEM_MEMORY_PORT_H_
#define TILEWRIGHT_SIM_TWIN_SYSTEM_MEMORY_PORT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "grant.h"
#include "memory_costs.h"
#include "shared_dram.h"
#include "sim/twin/core/beats.h"

namespace tilewright::twin {

class MemoryPort {
 public:
  MemoryPort(const MemoryCosts& costs, uint32_t masters, const Windows& windows);
  MemoryPort(const MemoryPort&) = delete;
  MemoryPort& operator=(const MemoryPort&) = delete;

  // The reset of the hardware.
  void Reset();
  // No beat of an earlier run occupies the DRAM.
  void ResetDram() { dram_.Reset(); }
  // Registers of the host.
  void SetLimits(uint32_t reads, uint32_t writes);
  Grant& reads() { return reads_.grant; }
  Grant& writes() { return writes_.grant; }
  const Grant& reads() const { return reads_.grant; }
  const Grant& writes() const { return writes_.grant; }

  // The bus of a core, whose run began in a cycle of the port.
  Bus* BusOf(uint32_t master, uint64_t began);

  // The next cycle, after one, in which something happens.
  uint64_t NextEvent(uint64_t after);
  // Decides what is granted in a cycle; beats before the second from it are known then.
  void Advance(uint64_t cycle);

 private:
  // A direction of a core: turns cycles of the port into those of the core's run.
  struct Lane final : public DramPort {
    uint64_t AddressedAt(uint64_t, uint64_t granted) const override { return granted; }
    void Moved(uint64_t burst, uint64_t first, uint64_t beats) override;
    void Completed(uint64_t burst, uint64_t cycle) override;
    bool NeedsEveryBeat(uint64_t burst) const override { return unit->NeedsEveryBeat(burst); }

    MemoryPort* port = nullptr;
    uint32_t master = 0;
    bool write = false;
    DramPort* unit = nullptr;
    uint64_t began = 0;
  };
  struct Master final : public Bus {
    void AddRead(DramPort* unit, uint64_t burst, uint64_t accepted, uint32_t beats) override;
    void AddWrite(DramPort* unit, uint64_t burst, uint64_t announced, uint32_t beats,
                  uint64_t valid_from) override;

    Lane read, write;
    Fifo<uint64_t> unsent;  // bursts that are announced and not sent: their first beats are valid
  };
  struct Direction {
    Direction(uint32_t masters, const Windows& windows) : grant(masters, windows) {}
    void Reset();
    // Bursts in flight in a cycle.
    uint64_t InFlight(uint64_t cycle);

    Grant grant;
    uint64_t limit = 1;    // of the port
    uint64_t flight = 0;   // bursts
    Fifo<uint64_t> ended;  // cycles in which some of them end
  };
  // A granted write burst, until its last beat.
  struct Sending {
    uint32_t master;
    uint64_t from;  // it has the data channel, if no other has
  };

  uint32_t Decide(Direction& direction, uint64_t most, uint64_t cycle);
  void Sent();

  const MemoryCosts costs_;
  SharedDram dram_;
  std::vector<std::unique_ptr<Master>> masters_;
  Direction reads_, writes_;
  Fifo<Sending> sending_;
  uint64_t sent_ = 0;       // first cycle that the next write burst can have
  uint64_t last_beat_ = 0;  // the last cycle in which write data moved
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_SYSTEM_MEMORY_PORT_H_
