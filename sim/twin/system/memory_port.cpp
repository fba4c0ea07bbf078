// SPDX-License-Identifier: Apache-2.0
#include "memory_port.h"

#include <algorithm>

#include "sim/twin/core/latency.h"
#include "sim/twin/core/pipeline.h"

namespace tilewright::twin {

MemoryPort::MemoryPort(const MemoryCosts& costs, uint32_t masters, const Windows& windows)
    : costs_(costs), dram_(costs), reads_(masters, windows), writes_(masters, windows) {
  for (uint32_t number = 0; number < masters; number++) {
    masters_.push_back(std::make_unique<Master>());
    Master& master = *masters_.back();
    master.write.write = true;
    for (Lane* lane : {&master.read, &master.write}) {
      lane->port = this;
      lane->master = number;
    }
  }
}

void MemoryPort::Reset() {
  dram_.Reset();
  reads_.Reset();
  writes_.Reset();
  for (auto& master : masters_) master->unsent.Clear();
  sending_.Clear();
  sent_ = last_beat_ = 0;
}

void MemoryPort::Direction::Reset() {
  grant.Reset();
  flight = 0;
  ended.Clear();
}

uint64_t MemoryPort::Direction::InFlight(uint64_t cycle) {
  while (!ended.empty() && ended.front() < cycle) {
    ended.Pop();
    --flight;
  }
  return flight;
}

void MemoryPort::SetLimits(uint32_t reads, uint32_t writes) {
  reads_.limit = std::clamp(reads, 1u, latency::kPortInFlight);
  writes_.limit = std::clamp(writes, 1u, latency::kPortInFlight);
}

Bus* MemoryPort::BusOf(uint32_t number, uint64_t began) {
  Master& master = *masters_[number];
  master.read.began = master.write.began = began;
  return &master;
}

void MemoryPort::Master::AddRead(DramPort* unit, uint64_t burst, uint64_t accepted,
                                 uint32_t beats) {
  read.unit = unit;
  const uint64_t from = read.began + accepted + latency::kAddress;
  read.port->reads_.grant.Ask(read.master, {burst, from, beats});
}

void MemoryPort::Master::AddWrite(DramPort* unit, uint64_t burst, uint64_t announced,
                                  uint32_t beats, uint64_t valid_from) {
  write.unit = unit;
  const uint64_t from = write.began + announced + latency::kAddress;
  unsent.Push(write.began + valid_from);
  write.port->writes_.grant.Ask(write.master, {burst, from, beats});
}

uint64_t MemoryPort::NextEvent(uint64_t after) {
  const uint64_t next = std::min({reads_.grant.next(), writes_.grant.next(), dram_.NextNews()});
  return std::max(next, after + 1);
}

void MemoryPort::Advance(uint64_t cycle) {
  dram_.CatchUp(cycle);
  uint32_t number = Decide(reads_, costs_.max_reads, cycle);
  if (number != kNobody) {
    Master& master = *masters_[number];
    const Grant::Request& request = reads_.grant.request(number);
    dram_.AddRead(&master.read, request.burst, cycle, request.beats);
    master.read.unit->Granted(cycle - master.read.began);
  }
  number = Decide(writes_, costs_.max_writes, cycle);
  if (number != kNobody) {
    Master& master = *masters_[number];
    const Grant::Request& request = writes_.grant.request(number);
    dram_.AddWrite(&master.write, request.burst, cycle, request.beats, master.unsent.back());
    sending_.Push({number, cycle + 1});
    master.write.unit->Granted(cycle - master.write.began);
  }
  dram_.CatchUp(cycle + kBeatsKnown);
}

// The core whose burst is granted in a cycle.
uint32_t MemoryPort::Decide(Direction& direction, uint64_t most, uint64_t cycle) {
  if (direction.grant.next() > cycle) return kNobody;
  const uint64_t flight = direction.InFlight(cycle);
  const uint32_t owner = direction.grant.Decide(flight < direction.limit, flight < most, sent_);
  direction.flight += owner != kNobody;
  // Ends of bursts that are known already; `Completed` tells of the others.
  if (direction.grant.asked() && !direction.ended.empty()) {
    direction.grant.LookAt(direction.ended.front() + 1);
  }
  return owner;
}

void MemoryPort::Lane::Moved(uint64_t burst, uint64_t first, uint64_t beats) {
  if (write) port->last_beat_ = first + beats - 1;
  unit->Moved(burst, first - began, beats);
}

void MemoryPort::Lane::Completed(uint64_t burst, uint64_t cycle) {
  Direction& direction = write ? port->writes_ : port->reads_;
  direction.ended.Push(cycle);
  if (direction.grant.asked()) direction.grant.LookAt(cycle + 1);
  if (write) port->Sent();
  unit->Completed(burst, cycle - began);
}

// The last beat of the oldest write burst has moved: others may have waited for it.
void MemoryPort::Sent() {
  const Sending burst = sending_.front();
  const uint64_t from = std::max(sent_, burst.from);
  sending_.Pop();
  masters_[burst.master]->unsent.Pop();
  sent_ = last_beat_ + 1;
  for (uint32_t number = 0; number < masters_.size(); number++) {
    Fifo<uint64_t>& unsent = masters_[number]->unsent;
    if (number == burst.master || unsent.empty()) continue;
    writes_.grant.DataWaited(number, std::max(from, unsent.front()), last_beat_);
  }
}

}  // namespace tilewright::twin
