// SPDX-License-Identifier: Apache-2.0
// The `twin` of a system: cores that share memory ports, each with its queue of programs.
//
// Each core is the pipeline that runs one core alone. All follow one clock, and go from one cycle
// in which anything happens to the next. Where they meet, at the arbiter of a port and in the DRAM
// behind it, what happens is known one cycle ahead of them (kBeatsKnown): a burst that is accepted
// now is granted in the next cycle at the earliest, and its beats move after that.
#ifndef TILEWRIGHT_SIM_TWIN_SYSTEM_SYSTEM_H_
#define TILEWRIGHT_SIM_TWIN_SYSTEM_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "memory_port.h"
#include "sim/twin/core/hardware.h"
#include "sim/twin/core/pipeline.h"
#include "slot.h"

namespace tilewright::twin {

// A core and its share of a memory port, as host.machine.system_config has them. Plain C layout:
// mirrored by sim/twin/library.py.
struct SystemCore {
  Hardware hardware;
  uint32_t port, weight, read_budget, write_budget;
  uint64_t scrub;  // cycles of the program that zeroes the scratchpads
};

struct SystemShape {
  uint32_t cores, ports, window, port_reads, port_writes, queue_depth;
};

// What an arbiter counted of a core, in the order of SHARE_COUNTER_NAMES.
struct ShareCounters {
  uint64_t read_beats, read_waited, read_throttled;
  uint64_t write_beats, write_waited, write_throttled;
};

// Why a system cannot go on, with the core of the program.
struct SystemOutcome {
  Outcome outcome;
  uint32_t core = 0;
};

class System {
 public:
  // Throws std::invalid_argument on a memory that the model does not cover.
  System(const SystemShape& shape, const SystemCore* cores, const MemoryTiming& memory);
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  // The reset of the hardware: registers are as in the shape, and it is cycle 0.
  void Reset();
  void ResetDram();

  // Goes on until all cycles before one have happened, or all before the first in which the system
  // interrupts.
  SystemOutcome Advance(uint64_t end, bool to_interrupt);
  uint64_t cycle() const { return cycle_; }
  // Whether it interrupts in this cycle.
  bool interrupts() const { return NextInterrupt() <= cycle_; }
  // Cores with a completion in a cycle, as bits.
  uint32_t Pending(uint64_t cycle) const;

  // What the host writes is seen from this cycle on. The bus must be idle for all but the queues.
  Slot& slot(uint32_t core) { return *slots_[core]; }
  void EnableQueues(uint32_t cores);
  void SetShare(uint32_t core, uint32_t weight, uint32_t read_budget, uint32_t write_budget);
  void SetWindow(uint32_t cycles);
  void SetLimits(uint32_t reads, uint32_t writes);

  ShareCounters shares(uint32_t core) const;

 private:
  struct Place {
    uint32_t port, master;
  };

  SystemOutcome Step(uint64_t cycle);
  uint64_t NextEvent();
  uint64_t NextInterrupt() const;

  const SystemShape shape_;
  const std::vector<SystemCore> cores_;
  Windows windows_;
  std::vector<std::unique_ptr<MemoryPort>> ports_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Place> places_;
  uint64_t cycle_ = 0;    // before which all has happened
  uint64_t stepped_ = 0;  // the last cycle in which something did
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_SYSTEM_SYSTEM_H_
