// SPDX-License-Identifier: Apache-2.0
// DRAM behind an AXI4 port: the bytes, the timing of the slave, and checks of the master.
//
// The model knows nothing of Verilator: it takes the master's pins of one cycle as plain values and
// gives the slave's pins of the next. All slave outputs are registered (they depend on earlier
// cycles only), so a master may use them combinationally.
//
// Timing, with t counting clock cycles and a handshake in cycle t meaning valid and ready in t:
//  - An address is accepted while fewer than max_reads (max_writes) bursts are outstanding. A read
//    is outstanding until its last beat is accepted, a write until its response is accepted.
//  - AR in cycle t: RVALID of the first beat in cycle t + read_latency at the earliest; further
//    beats follow at the rate of the channel. Bursts are served in order; latencies overlap.
//  - AW in cycle t: WREADY from cycle t + 1 (no data is accepted ahead of its address).
//  - Last W beat in cycle t: BVALID in cycle t + write_latency at the earliest, in order.
//  - A beat of B bytes occupies its channel for max(1, B / bytes_per_cycle) cycles, in units of
//    1/65536 cycle; the fraction carries over from beat to beat, an idle cycle discards it. Reads
//    are charged when the beat is first shown, writes when it is accepted.
//  - If shared_bytes_per_cycle is set, each beat also occupies the shared DRAM, for
//    B / shared_bytes_per_cycle cycles (less than one if the DRAM is faster than a channel): a beat
//    moves in a cycle in which the DRAM becomes free before the cycle ends. So one beat of each
//    direction moves in a cycle if both fit; of the cycles with
//    room for one while both want it, the directions get every other, the read first.
//  - stall_percent withholds each of ARREADY, AWREADY, WREADY, a new R beat and a new B response
//    independently at random in every cycle (a valid that was shown is never withdrawn).
#ifndef TILEWRIGHT_SIM_HARNESS_MEMORY_MODEL_H_
#define TILEWRIGHT_SIM_HARNESS_MEMORY_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tilewright {

constexpr uint32_t kMaxBeatBytes = 64;
constexpr uint64_t kPageBytes = 4096;

enum AxiResp : uint8_t { kOkay = 0, kSlvErr = 2, kDecErr = 3 };

// The parameters of host.board.MemoryModel. Plain C layout: mirrored by sim/verilator/library.py.
struct MemoryTiming {
  uint32_t read_latency = 1;
  uint32_t write_latency = 1;
  double read_bytes_per_cycle = 64;
  double write_bytes_per_cycle = 64;
  double shared_bytes_per_cycle = 0;  // 0: the directions do not share
  uint32_t max_reads = 16;
  uint32_t max_writes = 16;
  uint32_t stall_percent = 0;
  uint32_t stall_seed = 1;
};

// A range of addresses that answers with an error; every beat inside it is refused.
struct FaultRange {
  uint64_t base = 0;
  uint64_t size = 0;  // 0: no fault
  uint32_t response = kSlvErr;
  uint32_t on_reads = 0;
  uint32_t on_writes = 0;
};

struct AxiAddress {
  uint64_t addr = 0;
  uint8_t len = 0;
  uint8_t size = 0;
  uint8_t burst = 0;
  uint8_t id = 0;
};

// The master's pins in one cycle. Payloads are read only while their valid is set.
struct AxiRequest {
  uint8_t ar_valid = 0;
  uint8_t aw_valid = 0;
  uint8_t w_valid = 0;
  uint8_t w_last = 0;
  uint8_t r_ready = 0;
  uint8_t b_ready = 0;
  AxiAddress ar;
  AxiAddress aw;
  const uint8_t* w_data = nullptr;  // beat_bytes bytes
  uint64_t w_strobe = 0;            // bit i: byte i is written
};

// The slave's pins in one cycle.
struct AxiResponse {
  uint8_t ar_ready = 0;
  uint8_t aw_ready = 0;
  uint8_t w_ready = 0;
  uint8_t r_valid = 0;
  uint8_t r_last = 0;
  uint8_t r_resp = kOkay;
  uint8_t r_id = 0;
  uint8_t b_valid = 0;
  uint8_t b_resp = kOkay;
  uint8_t b_id = 0;
  uint8_t r_new = 0;  // this cycle is the first that shows the read beat
  uint8_t r_data[kMaxBeatBytes] = {};
};

enum class Violation : uint32_t {
  kNone = 0,
  kValidDropped = 1,      // VALID fell before READY
  kPayloadChanged = 2,    // payload changed while VALID waited for READY
  kPageCrossed = 3,       // burst crosses a 4 KiB boundary
  kBurstTooLong = 4,      // more beats than the configuration allows
  kNarrowBeat = 5,        // AxSIZE is not the width of the bus
  kBurstType = 6,         // AxBURST is not INCR
  kLastPosition = 7,      // WLAST on the wrong beat
  kStrobeOutside = 8,     // strobe set below the start address of an unaligned burst
  kValidDuringReset = 9,  // a VALID is high while reset is asserted
};

struct ViolationRecord {
  Violation code = Violation::kNone;
  uint64_t cycle = 0;
  std::string text;
};

// Next value of a small generator (splitmix64) whose whole state is `state`.
uint64_t NextRandom(uint64_t& state);

class MemoryModel {
 public:
  // beat_bytes: width of the data bus, a power of two of 4 .. 64; max_burst_beats: 1 .. 256.
  // Throws std::invalid_argument on values out of range.
  MemoryModel(uint32_t beat_bytes, uint32_t max_burst_beats, const MemoryTiming& timing);

  // Replaces the timing and resets the slave. Throws std::invalid_argument on a bad value.
  void SetTiming(const MemoryTiming& timing);

  // Maps `size` bytes at physical address `base`. The caller keeps ownership and keeps them alive
  // until the next call; size 0 maps nothing. Restarts the random stalls, so that equal runs stall
  // equally.
  void Attach(uint8_t* data, uint64_t size, uint64_t base);

  void SetFault(const FaultRange& fault) { fault_ = fault; }

  // Forgets every burst in flight and any violation; memory contents and cycle count stay.
  void Reset();

  // Ends the current cycle, in which the master drove `request` and the slave `response()`, and
  // gives the slave's pins of the next cycle. After a violation the slave is silent.
  const AxiResponse& Step(const AxiRequest& request);

  // Same as Step with every valid low, in a cycle in which quiet() holds; constant time.
  void SkipQuietCycle() { ++cycle_; }

  // No burst is outstanding, no valid waits and no random stall is due: a Step without a valid
  // would change nothing but the cycle count.
  bool quiet() const { return quiet_; }

  const AxiResponse& response() const { return response_; }
  const ViolationRecord& violation() const { return violation_; }
  bool ok() const { return violation_.code == Violation::kNone; }
  uint64_t cycle() const { return cycle_; }
  uint32_t beat_bytes() const { return beat_bytes_; }

  // Records a violation that the owner of the model saw (first one wins).
  void Report(Violation code, const std::string& text);

 private:
  struct Burst {
    AxiAddress address;
    uint32_t beat = 0;  // next beat
    uint64_t due = 0;   // cycle of the first read beat, or of the write response
    uint8_t response = kOkay;
    bool complete = false;  // write: all data accepted
  };

  // Ring of bursts with a fixed capacity.
  class Queue {
   public:
    explicit Queue(size_t capacity) : slots_(capacity) {}
    size_t size() const { return count_; }
    Burst& operator[](size_t i) { return slots_[(head_ + i) % slots_.size()]; }
    void Push(const Burst& burst) { (*this)[count_++] = burst; }
    void Pop() {
      head_ = (head_ + 1) % slots_.size();
      --count_;
    }
    void Clear() { head_ = count_ = 0; }

   private:
    std::vector<Burst> slots_;
    size_t head_ = 0;
    size_t count_ = 0;
  };

  // When a channel (or the shared DRAM) is free again, in 1/65536 cycle.
  struct Channel {
    uint64_t cost = 0;
    uint64_t free_at = 0;
    bool IsFree(uint64_t cycle) const { return free_at <= cycle << 16; }
    void Charge(uint64_t cycle);
  };

  // The DRAM behind both channels; same unit. Several beats may start in one cycle.
  struct SharedDram {
    uint64_t cost = 0;  // 0: not shared
    uint64_t free_at = 0;
    // Whether `beats` more beats can all start before the cycle ends.
    bool HasRoom(uint64_t cycle, uint64_t beats) const {
      return cost == 0 || Start(cycle) + (beats - 1) * cost < (cycle + 1) << 16;
    }
    void Charge(uint64_t cycle) { free_at = Start(cycle) + cost; }

   private:
    uint64_t Start(uint64_t cycle) const { return free_at > cycle << 16 ? free_at : cycle << 16; }
  };

  // An address channel on which VALID waits for READY.
  struct Waiting {
    bool active = false;
    AxiAddress address;
  };

  bool AcceptAddress(const char* name, bool valid, bool ready, const AxiAddress& address,
                     Waiting& waiting);
  void AcceptWriteBeat(const AxiRequest& request);
  void CheckWriteStable(const AxiRequest& request);
  void CheckBurst(const char* name, const AxiAddress& address);
  void WriteBeat(Burst& burst, const AxiRequest& request);
  void ShowReadBeat();
  void Decide(bool write_was_waiting);
  uint64_t BeatAddress(const Burst& burst) const;
  bool Faulty(uint64_t address, bool write) const;

  const uint32_t beat_bytes_;
  const uint32_t max_burst_beats_;
  MemoryTiming timing_;
  FaultRange fault_;
  uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  uint64_t base_ = 0;

  uint64_t cycle_ = 0;
  AxiResponse response_;
  Queue reads_;
  Queue writes_;
  size_t write_data_index_ = 0;  // burst of writes_ whose data is accepted next
  Channel read_channel_;
  Channel write_channel_;
  SharedDram shared_;
  bool write_denied_ = false;   // the DRAM had no room for a write beat beside the read's
  bool write_owed_ = false;     // so the next such cycle is the write's
  bool read_withheld_ = false;  // and the read waited in this one
  uint64_t random_ = 0;
  bool quiet_ = false;

  Waiting ar_waiting_;
  Waiting aw_waiting_;
  bool w_waiting_ = false;
  uint8_t w_held_data_[kMaxBeatBytes] = {};
  uint64_t w_held_strobe_ = 0;
  uint8_t w_held_last_ = 0;
  ViolationRecord violation_;
};

}  // namespace tilewright

#endif  // TILEWRIGHT_SIM_HARNESS_MEMORY_MODEL_H_
