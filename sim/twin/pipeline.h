// SPDX-License-Identifier: Apache-2.0
// The `twin`: a cycle-exact model of the accelerator and its DRAM, without data.
//
// One object steps the registers of rtl/ that decide *when* something happens: queues, tokens,
// bank locks, the units' state machines, the bus and the DRAM behind it. Cycles in which every
// unit only goes on with what it does (products, beats of a burst, waiting) are taken in one step,
// so the cost is that of the events, not of the cycles. No step of it is an estimate: every
// counter equals the RTL's, which tests prove on random configurations, memories and programs.
// What the model does not cover (a program that stops with an error, a deadlock) it refuses.
#ifndef TILEWRIGHT_SIM_TWIN_PIPELINE_H_
#define TILEWRIGHT_SIM_TWIN_PIPELINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "instruction.h"
#include "memory_timeline.h"

namespace tilewright::twin {

// Units in the order of the RTL.
enum Unit : uint32_t { kLoad, kGemm, kVector, kStore, kUnits };

// What a unit does in a cycle; the order of its six counters.
constexpr uint32_t kNobody = ~0u;

enum Wait : uint32_t { kBusy, kToken0, kToken1, kToken2, kMemory, kIdle, kWaits };

// The parameters that shape time; the depths of the scratchpads do not. Plain C layout: mirrored
// by sim/twin_device.py.
struct Hardware {
  uint32_t batch;
  uint32_t block_in;
  uint32_t block_out;
  uint32_t axi_bytes;
  uint32_t axi_burst_beats;
  uint32_t read_outstanding;
  uint32_t write_outstanding;
  uint32_t vector_lanes;
  uint32_t mac_pipeline;
};

// What a run counted, in the order of host/registers.py COUNTERS.
struct Counters {
  uint64_t cycles;
  uint64_t unit[kUnits][kWaits];
  uint64_t instructions[kUnits];
  uint64_t macs_tiles;
  uint64_t vector_tiles;
  uint64_t bytes_read;
  uint64_t bytes_written;
  uint64_t read_bursts;
  uint64_t write_bursts;
};

// Why a run has no cycle count. Mirrored by sim/twin_device.py.
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

// When an instruction was taken by its unit and when it retired.
struct Event {
  uint64_t taken = 0;
  uint64_t retired = 0;
};

class Pipeline {
 public:
  // Throws std::invalid_argument on a memory that the model does not cover.
  Pipeline(const Hardware& hardware, const MemoryTiming& memory);

  // Runs a stream of `count` instructions. The program must be one that the accelerator finishes
  // without an error: ranges, fields and alignment are not looked at.
  Outcome Run(const uint8_t* instructions, uint32_t count, uint64_t max_cycles);

  const Counters& counters() const { return counters_; }

  // Records when every instruction is taken and retired (empty unless asked for before Run).
  void set_trace(bool on) { trace_on_ = on; }
  const std::vector<Event>& trace() const { return trace_; }

 private:
  // Walks a strided region and cuts it into bursts (tw_rows and tw_bursts).
  struct Bursts {
    enum State : uint8_t { kIdle, kRow, kBurst } state = kIdle;
    uint64_t row = 0, plane = 0, y_step = 0, z_step = 0;
    uint32_t row_bytes = 0, y_size = 0, y_left = 0, z_left = 0;
    uint64_t beat = 0;  // address of the next burst, in beats
    uint32_t left = 0;  // beats left in the row
    uint32_t take = 0;  // beats of the burst that is offered
  };

  // Walks the padding tiles of a LOAD (tw_padding).
  struct Padding {
    enum State : uint8_t { kIdle, kRow, kLeft, kRight } state = kIdle;
    uint32_t run = 0, row = 0, plane = 0;
    uint32_t width = 0, height = 0;
  };

  // Instructions between their issue and their last beat, by stream index.
  template <size_t kCapacity>
  struct Ring {
    std::array<uint32_t, kCapacity> slot{};
    uint32_t head = 0, count = 0;
    void Push(uint32_t value) { slot[(head + count++) % kCapacity] = value; }
    uint32_t Front() const { return slot[head]; }
    void Pop() {
      head = (head + 1) % kCapacity;
      --count;
    }
  };

  // Instructions whose last work is in a unit's stages.
  struct Tail {
    static constexpr uint32_t kCapacity = 32;  // one can end in every cycle of the longest tail
    struct Entry {
      uint64_t due;  // its last cycle there
      uint32_t instruction;
      uint8_t banks;
    };
    std::array<Entry, kCapacity> slot;
    uint32_t head = 0, count = 0;
    void Push(const Entry& entry) { slot[(head + count++) % kCapacity] = entry; }
    const Entry& Front() const { return slot[head]; }
    void Pop() {
      head = (head + 1) % kCapacity;
      --count;
    }
    uint8_t Banks() const {
      uint8_t banks = 0;
      for (uint32_t i = 0; i < count; i++) banks |= slot[(head + i) % kCapacity].banks;
      return banks;
    }
  };

  void Reset(uint32_t count);
  Outcome Decode(const uint8_t* bytes, uint32_t count);
  bool DecodeInstruction(const Words& words, Instruction& out) const;
  void CountRegion(Instruction& region) const;
  Outcome Loop(uint64_t max_cycles);
  void StartBursts(Bursts& bursts, const Instruction& region) const;
  void StepRow(Bursts& bursts) const;
  void SizeBurst(Bursts& bursts) const;
  bool TakeBurst(Bursts& bursts) const;
  void StartPadding(const Instruction& load);
  void StepPadding(const Instruction& load);
  bool TokensHere(const Instruction& instruction, uint32_t unit) const;
  Wait TokenWait(const Instruction& instruction, uint32_t unit) const;
  void Take(uint32_t unit, uint32_t instruction);
  void Retire(uint32_t unit, uint32_t instruction);
  uint64_t chunk_bytes() const { return uint64_t{chunk_beats_} * hw_.axi_bytes; }

  // Shape.
  const Hardware hw_;
  const uint32_t beat_shift_;
  const uint32_t page_beats_;
  const uint32_t chunk_beats_;    // of a fetch burst
  const uint32_t fetch_beats_;    // capacity of the fetch FIFO
  const uint32_t insn_beats_;     // beats of an instruction, 0: several in a beat
  const uint32_t insn_parts_;     // instructions in a beat
  const uint32_t gemm_tail_;      // issue of a product to its write
  const uint32_t vector_parts_;   // of a tile
  const uint32_t param_rows_;
  uint32_t tile_bytes_[8];

  std::vector<Instruction> program_;
  std::vector<uint32_t> stream_[kUnits];  // instruction indices by unit
  MemoryTimeline memory_;
  Counters counters_{};
  bool trace_on_ = false;
  std::vector<Event> trace_;

  // Registers. Names follow rtl/.
  uint64_t now_ = 0;
  uint32_t overflow_ = kNobody;  // instruction whose token did not fit
  struct Fetch {
    bool active = false;
    uint64_t chunks = 0;      // bursts not yet asked for
    uint32_t reserved = 0;    // beats asked for, in flight or in the FIFO
    uint32_t fifo = 0;        // beats in the FIFO
    uint32_t have = 0;        // beats gathered, or the part of a beat that is next
    uint32_t next = 0;        // instruction that is dispatched next
  } fetch_;
  uint32_t queue_[kUnits] = {};   // entries in each unit's queue
  uint32_t popped_[kUnits] = {};  // instructions each unit has taken
  uint32_t token_[kUnits][kUnits] = {};  // [consumer][producer]
  struct Read {
    bool valid = false;
    uint32_t owner = 0, beats = 0;
    uint32_t in_flight = 0;
  } read_;
  struct Load {
    enum State : uint8_t { kIdle, kSetup, kRun, kFlush } state = kIdle;
    uint32_t current = 0;
    Bursts bursts;
    Padding padding;
    Ring<8> flight;
    bool active = false;     // an instruction is being filled
    uint32_t filling = 0;
    bool placed = false;     // its beats are all here
    uint64_t beats_left = 0;
    uint32_t credit = 0;
    uint32_t in_flight[8] = {};
    bool took_acc = false;   // in the cycle before
    bool wrote = false;      // in the cycle before
    uint8_t lock = 0;
  } load_;
  struct Gemm {
    bool valid = false;
    uint32_t current = 0;
    uint64_t left = 0;  // products
    Tail tail;          // instructions between their last issue and their last write
    uint8_t tail_lock = 0;
  } gemm_;
  struct Vector {
    enum State : uint8_t { kIdle, kDrain, kParam, kRun } state = kIdle;
    uint32_t current = 0;
    uint64_t left = 0;        // parts until a reload of PARAM or the end
    uint32_t outer_left = 0;  // reloads after that
    uint32_t row = 0;         // of PARAM
    uint64_t drained = 0;     // first cycle without a part in flight
    Tail tail;                // instructions between their last issue and retirement
    Tail alu;                 // those of them that still write ACC
    uint8_t alu_lock = 0;
  } vector_;
  struct Store {
    enum State : uint8_t { kIdle, kSetup, kRun } state = kIdle;
    uint32_t current = 0;
    Bursts bursts;
    bool aw_valid = false;
    uint32_t aw_beats = 0;
    Ring<8> flight;
    Ring<16> lengths;
    Ring<16> tags;  // instruction of the burst, its last burst marked
    bool active = false;
    uint64_t beats_left = 0;
    uint32_t beats = 0;  // of the burst already read
    bool read = false;   // in the cycle before
    uint32_t fifo = 0;
  } store_;
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_PIPELINE_H_
