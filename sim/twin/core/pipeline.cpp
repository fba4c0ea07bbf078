// SPDX-License-Identifier: Apache-2.0
#include "pipeline.h"

#include <algorithm>

namespace tilewright::twin {

Pipeline::Pipeline(const Hardware& hardware, const MemoryTiming& memory)
    : core_(hardware),
      beat_bytes_(hardware.axi_bytes),
      memory_(hardware.axi_bytes, memory),
      front_(core_),
      load_(core_),
      gemm_(core_),
      vector_(core_),
      store_(core_, memory_),
      read_(core_, front_, load_, memory_),
      shared_(memory_) {}

Outcome Pipeline::Run(const uint8_t* instructions, uint32_t count, uint64_t max_cycles) {
  shared_.Reset();
  Bus* const bus = memory_.shared_cost != 0 ? &shared_ : nullptr;
  const Outcome outcome = Begin(instructions, count, bus, false);
  return outcome.refusal == Refusal::kNone ? Loop(max_cycles) : outcome;
}

Outcome Pipeline::Start(const uint8_t* instructions, uint32_t count, Bus* bus) {
  return Begin(instructions, count, bus, true);
}

Outcome Pipeline::Begin(const uint8_t* instructions, uint32_t count, Bus* bus, bool arbitrated) {
  core_.Reset();
  core_.trace.assign(core_.trace_on ? count : 0, Event());
  gemm_.Reset();
  vector_.Reset();
  store_.Reset(bus, arbitrated);
  read_.Reset(bus, arbitrated);
  bool diagonals = false;
  for (uint32_t index = 0;; index++) {
    if (index == count) return {Refusal::kNoFinish, count};
    const uint8_t* bytes = instructions + uint64_t{index} * isa::kInstructionBytes;
    const uint32_t unit = Decoder::UnitOf(bytes);
    if (unit == kNobody) return {Refusal::kIllegalOpcode, index};
    if (unit == kUnits) break;
    diagonals = diagonals || (unit == kLoad && Decoder::IsDiagonal(bytes));
  }
  load_.Reset(diagonals);
  front_.Start(instructions, count);
  core_.WakeAt(kWakeRead, front_.request_at());
  return Outcome();
}

uint64_t Pipeline::AtLeast(uint64_t macs_tiles, uint64_t bytes_read, uint64_t bytes_written) const {
  const uint64_t reads = bytes_read / beat_bytes_, writes = bytes_written / beat_bytes_;
  const uint64_t dram = std::max({reads * memory_.read_cost, writes * memory_.write_cost,
                                  (reads + writes) * memory_.shared_cost});
  return std::max(macs_tiles, dram / kOne);
}

Outcome Pipeline::Loop(uint64_t max_cycles) {
  const bool shared = memory_.shared_cost != 0;
  core_.limit = max_cycles;
  for (;;) {
    const uint64_t now = core_.NextWake();
    if (now >= kForever) return {Refusal::kDeadlock, front_.next()};
    if (now >= max_cycles) return {Refusal::kCycleLimit, front_.next()};
    core_.now = now;
    if (shared) {
      core_.beats_known = now + kBeatsKnown;
      shared_.CatchUp(now + kBeatsKnown);
    }
    if (Act()) return Finish();
    if (shared) core_.due[kWakeMemory] = std::max(now + 1, shared_.NextNews());
  }
}

bool Pipeline::Act() {
  const uint64_t* due = core_.due;
  const uint64_t now = core_.now;
  if (due[kWakeFront] == now) {
    if (!core_.at_finish) front_.Step();
    if (core_.at_finish) {
      const uint64_t finish = FinishAt();
      if (finish <= now) return true;
      core_.due[kWakeFront] = finish;
    }
  }
  if (due[kWakeGemm] == now) gemm_.Step();
  if (due[kWakeVector] == now) vector_.Step();
  if (due[kWakeLoad] == now) load_.Take();
  if (due[kWakeStore] == now) store_.Take();
  if (due[kWakePadding] == now) load_.EndIssue();
  if (due[kWakeWrite] == now) store_.Announce();
  if (due[kWakeRead] == now) read_.Step();
  return false;
}

// Cycle in which FINISH can retire, kForever: not known.
uint64_t Pipeline::FinishAt() const {
  if (!core_.queue[kGemm].empty() || !core_.queue[kVector].empty()) return kForever;
  const uint64_t idle = std::max({load_.IdleFrom(), store_.IdleFrom(), gemm_.IdleFrom(),
                                  vector_.IdleFrom(), read_.IdleFrom()});
  return idle >= kForever ? kForever : idle + latency::kIdleToFinish;
}

// FINISH retires now.
Outcome Pipeline::Finish() {
  load_.Finish(core_.now);
  gemm_.Finish(core_.now);
  vector_.Finish(core_.now);
  store_.Finish(core_.now);
  for (uint32_t unit = 0; unit < kUnits; unit++) {
    core_.counters.instructions[unit] = core_.queue[unit].taken;
    for (auto& tokens : core_.token[unit]) core_.CheckTokens(tokens, core_.now);
  }
  core_.counters.cycles = core_.now + 1;
  return core_.overflow == kNobody ? Outcome() : Outcome{Refusal::kTokenOverflow, core_.overflow};
}

}  // namespace tilewright::twin
