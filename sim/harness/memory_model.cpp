// SPDX-License-Identifier: Apache-2.0
#include "memory_model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace tilewright {
namespace {

constexpr uint64_t kOneCycle = 1u << 16;
constexpr size_t kMaxOutstanding = 256;
constexpr uint8_t kIncr = 1;

enum StallBit : uint32_t { kStallAr = 0, kStallAw = 1, kStallW = 2, kStallR = 3, kStallB = 4 };

void Require(bool holds, const char* text) {
  if (!holds) throw std::invalid_argument(text);
}

uint64_t BeatCost(uint32_t beat_bytes, double bytes_per_cycle) {
  return static_cast<uint64_t>(std::llround(beat_bytes / bytes_per_cycle * kOneCycle));
}

uint64_t ChannelCost(uint32_t beat_bytes, double bytes_per_cycle) {
  return std::max(kOneCycle, BeatCost(beat_bytes, bytes_per_cycle));
}

bool Same(const AxiAddress& a, const AxiAddress& b) {
  return a.addr == b.addr && a.len == b.len && a.size == b.size && a.burst == b.burst &&
         a.id == b.id;
}

std::string Hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

// Ten bits of `word` for each channel: true with a chance of `percent` in 100.
bool Stalled(uint64_t word, StallBit channel, uint32_t percent) {
  return ((word >> (12 * channel)) & 0xfff) * 100 < static_cast<uint64_t>(percent) * 4096;
}

}  // namespace

uint64_t NextRandom(uint64_t& state) {
  state += 0x9e3779b97f4a7c15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

MemoryModel::MemoryModel(uint32_t beat_bytes, uint32_t max_burst_beats, const MemoryTiming& timing)
    : beat_bytes_(beat_bytes),
      max_burst_beats_(max_burst_beats),
      reads_(kMaxOutstanding),
      writes_(kMaxOutstanding) {
  Require(beat_bytes >= 4 && beat_bytes <= kMaxBeatBytes && (beat_bytes & (beat_bytes - 1)) == 0,
          "beat_bytes must be a power of two from 4 to 64");
  Require(max_burst_beats >= 1 && max_burst_beats <= 256, "max_burst_beats must be from 1 to 256");
  SetTiming(timing);
}

void MemoryModel::SetTiming(const MemoryTiming& timing) {
  Require(timing.read_latency >= 1, "read_latency must be at least 1");
  Require(timing.write_latency >= 1, "write_latency must be at least 1");
  Require(timing.max_reads >= 1 && timing.max_reads <= kMaxOutstanding,
          "max_reads must be from 1 to 256");
  Require(timing.max_writes >= 1 && timing.max_writes <= kMaxOutstanding,
          "max_writes must be from 1 to 256");
  Require(timing.stall_percent <= 99, "stall_percent must be from 0 to 99");
  Require(timing.read_bytes_per_cycle >= 0.0625, "read_bytes_per_cycle must be at least 1/16");
  Require(timing.write_bytes_per_cycle >= 0.0625, "write_bytes_per_cycle must be at least 1/16");
  Require(timing.shared_bytes_per_cycle == 0 || timing.shared_bytes_per_cycle >= 0.0625,
          "shared_bytes_per_cycle must be 0 or at least 1/16");
  timing_ = timing;
  read_channel_.cost = ChannelCost(beat_bytes_, timing.read_bytes_per_cycle);
  write_channel_.cost = ChannelCost(beat_bytes_, timing.write_bytes_per_cycle);
  shared_.cost =
      timing.shared_bytes_per_cycle > 0 ? BeatCost(beat_bytes_, timing.shared_bytes_per_cycle) : 0;
  random_ = timing.stall_seed;
  Reset();
}

void MemoryModel::Attach(uint8_t* data, uint64_t size, uint64_t base) {
  Require(data != nullptr || size == 0, "memory must not be null");
  data_ = data;
  size_ = size;
  base_ = base;
  random_ = timing_.stall_seed;
}

void MemoryModel::Reset() {
  reads_.Clear();
  writes_.Clear();
  write_data_index_ = 0;
  read_channel_.free_at = write_channel_.free_at = shared_.free_at = 0;
  write_denied_ = write_owed_ = read_withheld_ = false;
  ar_waiting_ = aw_waiting_ = Waiting();
  w_waiting_ = false;
  violation_ = ViolationRecord();
  response_ = AxiResponse();
  Decide(false);
}

void MemoryModel::Report(Violation code, const std::string& text) {
  if (!ok()) return;
  violation_ = {code, cycle_, text};
  response_ = AxiResponse();
  quiet_ = false;
}

void MemoryModel::Channel::Charge(uint64_t cycle) {
  const uint64_t now = cycle << 16;
  // A beat that waited less than a cycle for the channel keeps the fraction.
  const bool back_to_back = free_at + kOneCycle > now;
  free_at = (back_to_back ? free_at : now) + cost;
}

const AxiResponse& MemoryModel::Step(const AxiRequest& request) {
  if (!ok()) {
    ++cycle_;
    return response_;
  }
  if (AcceptAddress("AR", request.ar_valid, response_.ar_ready, request.ar, ar_waiting_)) {
    Burst burst;
    burst.address = request.ar;
    burst.due = cycle_ + timing_.read_latency;
    reads_.Push(burst);
  }
  CheckWriteStable(request);
  // Data before address: the data channel serves bursts accepted in earlier cycles only.
  if (request.w_valid && response_.w_ready) AcceptWriteBeat(request);
  if (AcceptAddress("AW", request.aw_valid, response_.aw_ready, request.aw, aw_waiting_)) {
    Burst burst;
    burst.address = request.aw;
    writes_.Push(burst);
  }
  if (response_.r_valid && request.r_ready) {
    response_.r_valid = 0;
    if (response_.r_last) reads_.Pop();
  }
  if (response_.b_valid && request.b_ready) {
    response_.b_valid = 0;
    writes_.Pop();
    --write_data_index_;
  }
  ++cycle_;
  if (ok()) Decide(w_waiting_);
  return response_;
}

bool MemoryModel::AcceptAddress(const char* name, bool valid, bool ready, const AxiAddress& address,
                                Waiting& waiting) {
  if (waiting.active) {
    if (!valid) {
      Report(Violation::kValidDropped, std::string(name) + "VALID fell before " + name + "READY");
      return false;
    }
    if (!Same(address, waiting.address)) {
      Report(Violation::kPayloadChanged, std::string(name) + " payload changed from address " +
                                             Hex(waiting.address.addr) + " to " +
                                             Hex(address.addr) + " while it waited");
      return false;
    }
  } else if (valid) {
    CheckBurst(name, address);
    if (!ok()) return false;
  }
  waiting.active = valid && !ready;
  if (waiting.active) waiting.address = address;
  return valid && ready;
}

void MemoryModel::CheckBurst(const char* name, const AxiAddress& address) {
  const auto where = [&] { return std::string(name) + " address " + Hex(address.addr) + ": "; };
  const uint32_t beats = address.len + 1u;
  if (address.burst != kIncr) {
    Report(Violation::kBurstType,
           where() + "burst type " + std::to_string(address.burst) + " is not INCR");
  } else if (address.size > 6 || 1u << address.size != beat_bytes_) {
    Report(Violation::kNarrowBeat, where() + "size " + std::to_string(address.size) +
                                       " is not the bus width of " + std::to_string(beat_bytes_) +
                                       " bytes");
  } else if (beats > max_burst_beats_) {
    Report(Violation::kBurstTooLong, where() + std::to_string(beats) + " beats, at most " +
                                         std::to_string(max_burst_beats_) + " are allowed");
  } else {
    const uint64_t first = address.addr & ~static_cast<uint64_t>(beat_bytes_ - 1);
    const uint64_t last = first + static_cast<uint64_t>(beats) * beat_bytes_ - 1;
    if (first / kPageBytes != last / kPageBytes) {
      Report(Violation::kPageCrossed,
             where() + std::to_string(beats) + " beats cross a 4 KiB boundary");
    }
  }
}

void MemoryModel::CheckWriteStable(const AxiRequest& request) {
  if (w_waiting_) {
    if (!request.w_valid) {
      Report(Violation::kValidDropped, "WVALID fell before WREADY");
      return;
    }
    if (request.w_strobe != w_held_strobe_ || request.w_last != w_held_last_ ||
        std::memcmp(request.w_data, w_held_data_, beat_bytes_) != 0) {
      Report(Violation::kPayloadChanged, "W payload changed while it waited");
      return;
    }
  }
  const bool newly_waiting = request.w_valid && !response_.w_ready && !w_waiting_;
  if (newly_waiting) {
    std::memcpy(w_held_data_, request.w_data, beat_bytes_);
    w_held_strobe_ = request.w_strobe;
    w_held_last_ = request.w_last;
  }
  w_waiting_ = request.w_valid && !response_.w_ready;
}

void MemoryModel::AcceptWriteBeat(const AxiRequest& request) {
  if (!ok()) return;
  Burst& burst = writes_[write_data_index_];
  const bool last = burst.beat == burst.address.len;
  if (static_cast<bool>(request.w_last) != last) {
    Report(Violation::kLastPosition, std::string("WLAST is ") + (request.w_last ? "high" : "low") +
                                         " on beat " + std::to_string(burst.beat + 1) + " of " +
                                         std::to_string(burst.address.len + 1u) +
                                         " of the burst at " + Hex(burst.address.addr));
    return;
  }
  const uint64_t low_lanes = burst.beat == 0 ? burst.address.addr & (beat_bytes_ - 1) : 0;
  if (request.w_strobe & ((uint64_t{1} << low_lanes) - 1)) {
    Report(Violation::kStrobeOutside,
           "WSTRB is set below the start address " + Hex(burst.address.addr));
    return;
  }
  WriteBeat(burst, request);
  write_channel_.Charge(cycle_);
  shared_.Charge(cycle_);
  ++burst.beat;
  if (last) {
    burst.complete = true;
    burst.due = cycle_ + timing_.write_latency;
    ++write_data_index_;
  }
}

uint64_t MemoryModel::BeatAddress(const Burst& burst) const {
  const uint64_t first = burst.address.addr & ~static_cast<uint64_t>(beat_bytes_ - 1);
  return first + static_cast<uint64_t>(burst.beat) * beat_bytes_;
}

bool MemoryModel::Faulty(uint64_t address, bool write) const {
  if (fault_.size == 0 || !(write ? fault_.on_writes : fault_.on_reads)) return false;
  return address < fault_.base + fault_.size && address + beat_bytes_ > fault_.base;
}

void MemoryModel::WriteBeat(Burst& burst, const AxiRequest& request) {
  const uint64_t address = BeatAddress(burst);
  const uint64_t full = beat_bytes_ == 64 ? ~uint64_t{0} : (uint64_t{1} << beat_bytes_) - 1;
  const uint64_t strobe = request.w_strobe & full;
  if (Faulty(address, true)) {
    burst.response = std::max<uint8_t>(burst.response, static_cast<uint8_t>(fault_.response));
    return;
  }
  if (strobe == 0) return;  // a masked beat touches nothing, wherever it is
  const uint64_t offset = address - base_;
  if (address < base_ || offset >= size_) {
    burst.response = kDecErr;
    return;
  }
  const uint64_t room = size_ - offset;
  if (room < beat_bytes_ && (strobe >> room) != 0) {
    burst.response = kDecErr;
    return;
  }
  uint8_t* target = data_ + offset;
  if (strobe == full) {
    std::memcpy(target, request.w_data, beat_bytes_);
    return;
  }
  for (uint32_t i = 0; i < beat_bytes_; ++i) {
    if ((strobe >> i) & 1) target[i] = request.w_data[i];
  }
}

void MemoryModel::ShowReadBeat() {
  Burst& burst = reads_[0];
  const uint64_t address = BeatAddress(burst);
  const uint64_t offset = address - base_;
  response_.r_resp = kOkay;
  if (Faulty(address, false)) {
    response_.r_resp = static_cast<uint8_t>(fault_.response);
  } else if (address < base_ || offset >= size_) {
    response_.r_resp = kDecErr;
  }
  uint64_t valid_bytes = 0;
  if (response_.r_resp == kOkay) {
    valid_bytes = std::min<uint64_t>(beat_bytes_, size_ - offset);
    std::memcpy(response_.r_data, data_ + offset, valid_bytes);
  }
  if (valid_bytes < beat_bytes_) {
    std::memset(response_.r_data + valid_bytes, 0, beat_bytes_ - valid_bytes);
  }
  response_.r_valid = 1;
  response_.r_new = 1;
  response_.r_id = burst.address.id;
  response_.r_last = burst.beat == burst.address.len;
  ++burst.beat;
}

void MemoryModel::Decide(bool write_was_waiting) {
  const uint32_t percent = timing_.stall_percent;
  const uint64_t stalls = percent != 0 ? NextRandom(random_) : 0;
  const auto stalled = [&](StallBit channel) {
    return percent != 0 && Stalled(stalls, channel, percent);
  };
  const bool write_open =
      write_data_index_ < writes_.size() && write_channel_.IsFree(cycle_) && !stalled(kStallW);

  if (read_withheld_ || write_data_index_ == writes_.size()) write_owed_ = false;
  if (write_denied_ && write_was_waiting) write_owed_ = true;
  read_withheld_ = false;

  response_.r_new = 0;
  if (!response_.r_valid && reads_.size() != 0 && !stalled(kStallR)) {
    const Burst& burst = reads_[0];
    if (burst.due <= cycle_ && read_channel_.IsFree(cycle_) && shared_.HasRoom(cycle_, 1)) {
      read_withheld_ = write_owed_ && write_open && !shared_.HasRoom(cycle_, 2);
      if (!read_withheld_) {
        ShowReadBeat();
        read_channel_.Charge(cycle_);
        shared_.Charge(cycle_);
      }
    }
  }
  response_.w_ready = write_open && shared_.HasRoom(cycle_, 1);
  write_denied_ = response_.r_new && write_open && !response_.w_ready;

  if (!response_.b_valid && writes_.size() != 0 && !stalled(kStallB)) {
    const Burst& burst = writes_[0];
    if (burst.complete && burst.due <= cycle_) {
      response_.b_valid = 1;
      response_.b_resp = burst.response;
      response_.b_id = burst.address.id;
    }
  }
  response_.ar_ready = reads_.size() < timing_.max_reads && !stalled(kStallAr);
  response_.aw_ready = writes_.size() < timing_.max_writes && !stalled(kStallAw);
  quiet_ = percent == 0 && reads_.size() == 0 && writes_.size() == 0 && !ar_waiting_.active &&
           !aw_waiting_.active && !w_waiting_;
}

}  // namespace tilewright
