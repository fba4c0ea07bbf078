// SPDX-License-Identifier: Apache-2.0
// The `twin`: a cycle-exact model of the accelerator and its DRAM, without data.
//
// It knows the rules of rtl/ that decide *when* something happens: queues, tokens, bank locks, the
// units' state machines, the bus and the DRAM behind it. Units are not stepped through their
// cycles but from one action to the next, so the cost is that of the instructions and bursts, not
// of the cycles. Nothing is an estimate: every counter equals the RTL's, which tests prove on
// random configurations, memories and programs. What the model does not cover (a program that
// stops with an error, a deadlock) it refuses.
#ifndef TILEWRIGHT_SIM_TWIN_CORE_PIPELINE_H_
#define TILEWRIGHT_SIM_TWIN_CORE_PIPELINE_H_

#include <cstdint>
#include <vector>

#include "compute.h"
#include "core.h"
#include "front.h"
#include "hardware.h"
#include "load.h"
#include "read.h"
#include "sim/twin/system/memory_costs.h"
#include "sim/twin/system/shared_dram.h"
#include "store.h"

namespace tilewright::twin {

// Why a run has no cycle count. Mirrored by sim/twin/device.py.
enum class Refusal : uint32_t {
  kNone,
  kIllegalOpcode,
  kNoFinish,
  kDeadlock,
  kTokenOverflow,
  kCycleLimit,
};

struct Outcome {
  Refusal refusal = Refusal::kNone;
  uint32_t instruction = 0;  // index in the stream of what is refused, where it is one instruction
};

// What is accepted or announced from a cycle on moves later than in the next: beats before the
// second cycle are known.
constexpr uint64_t kBeatsKnown = 2;

class Pipeline {
 public:
  // Throws std::invalid_argument on a memory that the model does not cover.
  Pipeline(const Hardware& hardware, const MemoryTiming& memory);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Runs a stream of `count` instructions. The program must be one that the accelerator finishes
  // without an error: ranges, fields and alignment are not looked at.
  Outcome Run(const uint8_t* instructions, uint32_t count, uint64_t max_cycles);

  // Runs a stream beside others, whose bursts all go to `bus`. Cycles are those of the run. The
  // owner tells the units of beats and goes on with `Act`, in every cycle of `NextWake`.
  Outcome Start(const uint8_t* instructions, uint32_t count, Bus* bus);
  uint64_t NextWake() const { return core_.NextWake(); }
  // It is this cycle, and beats before the second from it are known.
  void SetNow(uint64_t cycle) {
    core_.now = cycle;
    core_.beats_known = cycle + kBeatsKnown;
  }
  // Those who are due act. Returns whether the program ends in this cycle.
  bool Act();
  Outcome Finish();

  // Cycles that no run undercuts which makes so many tile products and moves so many bytes.
  uint64_t AtLeast(uint64_t macs_tiles, uint64_t bytes_read, uint64_t bytes_written) const;

  const Counters& counters() const { return core_.counters; }

  // Records when every instruction is taken and retired (empty unless asked for before Run).
  void set_trace(bool on) { core_.trace_on = on; }
  const std::vector<Event>& trace() const { return core_.trace; }

 private:
  Outcome Begin(const uint8_t* instructions, uint32_t count, Bus* bus, bool arbitrated);
  Outcome Loop(uint64_t max_cycles);
  uint64_t FinishAt() const;

  Core core_;
  const uint32_t beat_bytes_;
  const MemoryCosts memory_;
  Front front_;
  Load load_;
  Gemm gemm_;
  Vector vector_;
  Store store_;
  Read read_;
  SharedDram shared_;
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_CORE_PIPELINE_H_
