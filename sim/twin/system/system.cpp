// SPDX-License-Identifier: Apache-2.0
#include "system.h"

#include <algorithm>

#include "sim/twin/core/latency.h"

namespace tilewright::twin {

System::System(const SystemShape& shape, const SystemCore* cores, const MemoryTiming& memory)
    : shape_(shape), cores_(cores, cores + shape.cores) {
  std::vector<uint32_t> masters(shape.ports, 0);
  std::vector<uint32_t> beat_bytes(shape.ports, 0);
  for (const SystemCore& core : cores_) {
    beat_bytes[core.port] = core.hardware.axi_bytes;
    places_.push_back({core.port, masters[core.port]++});
  }
  for (uint32_t port = 0; port < shape.ports; port++) {
    const MemoryCosts costs(beat_bytes[port], memory);
    ports_.push_back(std::make_unique<MemoryPort>(costs, masters[port], windows_));
  }
  for (uint32_t core = 0; core < shape.cores; core++) {
    const Place place = places_[core];
    slots_.push_back(std::make_unique<Slot>(cores_[core].hardware, memory, *ports_[place.port],
                                            place.master, cores_[core].scrub, shape.queue_depth));
  }
  Reset();
}

void System::Reset() {
  cycle_ = stepped_ = 0;
  windows_.Reset(shape_.window);
  for (auto& slot : slots_) slot->Reset();
  for (auto& port : ports_) port->Reset();
  SetLimits(shape_.port_reads, shape_.port_writes);
  for (uint32_t core = 0; core < shape_.cores; core++) {
    SetShare(core, cores_[core].weight, cores_[core].read_budget, cores_[core].write_budget);
  }
}

void System::ResetDram() {
  for (auto& port : ports_) port->ResetDram();
}

void System::EnableQueues(uint32_t cores) {
  for (uint32_t core = 0; core < slots_.size(); core++) {
    slots_[core]->Enable(cycle_, (cores >> core & 1) != 0);
  }
}

void System::SetShare(uint32_t core, uint32_t weight, uint32_t read_budget, uint32_t write_budget) {
  const Place place = places_[core];
  ports_[place.port]->reads().SetShare(place.master, cycle_, weight, read_budget);
  ports_[place.port]->writes().SetShare(place.master, cycle_, weight, write_budget);
}

void System::SetWindow(uint32_t cycles) {
  for (auto& port : ports_) {
    port->reads().EndWindows(cycle_);
    port->writes().EndWindows(cycle_);
  }
  windows_.SetLength(cycle_, cycles);
}

void System::SetLimits(uint32_t reads, uint32_t writes) {
  for (auto& port : ports_) port->SetLimits(reads, writes);
}

ShareCounters System::shares(uint32_t core) const {
  const Place place = places_[core];
  const MemoryPort& port = *ports_[place.port];
  const Grant::Counts& reads = port.reads().counts(place.master);
  const Grant::Counts& writes = port.writes().counts(place.master);
  return {reads.beats,  reads.waits.cycles(),  reads.throttled,
          writes.beats, writes.waits.cycles(), writes.throttled};
}

uint64_t System::NextEvent() {
  uint64_t next = kForever;
  for (const auto& slot : slots_) next = std::min(next, slot->NextEvent());
  for (const auto& port : ports_) next = std::min(next, port->NextEvent(stepped_));
  return next;
}

uint64_t System::NextInterrupt() const {
  // The registers on the way show what was there some cycles before.
  const uint64_t seen = cycle_ - std::min<uint64_t>(cycle_, latency::kCompletionToIrq);
  uint64_t next = kForever;
  for (const auto& slot : slots_) next = std::min(next, slot->NextCompletion(seen));
  return next >= kForever ? kForever : std::max(cycle_, next + latency::kCompletionToIrq);
}

uint32_t System::Pending(uint64_t cycle) const {
  uint32_t pending = 0;
  for (uint32_t core = 0; core < slots_.size(); core++) {
    pending |= uint32_t{slots_[core]->HasCompletion(cycle)} << core;
  }
  return pending;
}

// All that happens in a cycle.
SystemOutcome System::Step(uint64_t cycle) {
  stepped_ = cycle;
  for (auto& slot : slots_) slot->SetNow(cycle);
  for (auto& port : ports_) port->Advance(cycle);
  for (uint32_t core = 0; core < slots_.size(); core++) {
    const Outcome outcome = slots_[core]->Act(cycle);
    if (outcome.refusal != Refusal::kNone) return {outcome, core};
  }
  return SystemOutcome();
}

SystemOutcome System::Advance(uint64_t end, bool to_interrupt) {
  while (cycle_ < end) {
    if (to_interrupt) end = std::min(end, NextInterrupt());
    const uint64_t next = NextEvent();
    if (next >= end) {
      for (uint32_t core = 0; next >= kForever && core < slots_.size(); core++) {
        if (slots_[core]->running()) return {{Refusal::kDeadlock, 0}, core};
      }
      cycle_ = end;
      break;
    }
    const SystemOutcome outcome = Step(next);
    if (outcome.outcome.refusal != Refusal::kNone) return outcome;
    cycle_ = next + 1;
  }
  return SystemOutcome();
}

}  // namespace tilewright::twin
