// SPDX-License-Identifier: Apache-2.0
#include "pipeline.h"

#include <algorithm>

namespace tilewright::twin {
namespace {

// Latencies of the RTL, in cycles. tests/contract/test_twin.py proves each of them.
constexpr uint32_t kQueueDepth = 16;       // tilewright_top: gen_queue
constexpr uint32_t kFetchFifoBytes = 1024; // tw_fetch: FifoBeats
constexpr uint32_t kFetchChunkBytes = 128; // tw_fetch: ChunkBytes
constexpr uint32_t kFlightDepth = 8;       // tw_load, tw_store: InFlight
constexpr uint32_t kLengthDepth = 16;      // tw_store: u_lengths
constexpr uint32_t kBeatFifo = 4;          // tw_store: u_beats
constexpr uint32_t kGemmIssueTail = 4;     // tw_gemm: issue to write, without MacPipeline
constexpr uint32_t kVectorTail = 6;        // tw_vector: issue to retirement
constexpr uint32_t kAluTail = 2;           // tw_vector: issue to the write of ACC
constexpr uint32_t kPageBytes = 4096;
constexpr uint32_t kParamBytesPerChannel = 16;
constexpr uint32_t kMaxTokens = 65535;     // tw_tokens
constexpr uint32_t kAccMemory = static_cast<uint32_t>(isa::Memory::kAcc);

// Marks the last burst of an instruction in Store::tags.
constexpr uint32_t kLastBurst = 1u << 31;

uint32_t Log2(uint32_t value) { return 31 - static_cast<uint32_t>(__builtin_clz(value)); }

}  // namespace

Pipeline::Pipeline(const Hardware& hardware, const MemoryTiming& memory)
    : hw_(hardware),
      beat_shift_(Log2(hardware.axi_bytes)),
      page_beats_(kPageBytes / hardware.axi_bytes),
      chunk_beats_(std::min(hardware.axi_burst_beats,
                            std::max(1u, kFetchChunkBytes / hardware.axi_bytes))),
      fetch_beats_(kFetchFifoBytes / hardware.axi_bytes),
      insn_beats_(hardware.axi_bytes < isa::kInstructionBytes
                      ? isa::kInstructionBytes / hardware.axi_bytes
                      : 0),
      insn_parts_(hardware.axi_bytes / isa::kInstructionBytes),
      gemm_tail_(hardware.mac_pipeline + kGemmIssueTail),
      vector_parts_(hardware.batch * hardware.block_out / hardware.vector_lanes),
      param_rows_(hardware.block_out * kParamBytesPerChannel /
                  std::max(32u, hardware.axi_bytes)),
      memory_(hardware.axi_bytes, memory) {
  const uint32_t out_tile = hardware.batch * hardware.block_out;
  tile_bytes_[0] = hardware.batch * hardware.block_in;
  tile_bytes_[1] = hardware.block_in * hardware.block_out;
  tile_bytes_[2] = 4 * out_tile;
  tile_bytes_[3] = isa::kUopBytes;
  tile_bytes_[4] = kParamBytesPerChannel * hardware.block_out;
  tile_bytes_[5] = out_tile;
  tile_bytes_[6] = out_tile;
  tile_bytes_[7] = 1;
}

Outcome Pipeline::Run(const uint8_t* instructions, uint32_t count, uint64_t max_cycles) {
  Reset(count);
  const Outcome decoded = Decode(instructions, count);
  return decoded.refusal == Refusal::kNone ? Loop(max_cycles) : decoded;
}

void Pipeline::Reset(uint32_t count) {
  program_.clear();
  for (auto& stream : stream_) stream.clear();
  memory_.Reset();
  counters_ = Counters();
  trace_.assign(trace_on_ ? count : 0, Event());
  now_ = 0;
  fetch_ = Fetch();
  read_ = Read();
  load_ = Load();
  gemm_ = Gemm();
  vector_ = Vector();
  store_ = Store();
  for (uint32_t u = 0; u < kUnits; u++) {
    queue_[u] = popped_[u] = 0;
    for (uint32_t& token : token_[u]) token = 0;
  }
}

Outcome Pipeline::Decode(const uint8_t* bytes, uint32_t count) {
  program_.reserve(count);
  for (uint32_t index = 0; index < count; index++) {
    Instruction decoded;
    if (!DecodeInstruction(Words(bytes + uint64_t{index} * isa::kInstructionBytes), decoded)) {
      return {Refusal::kIllegalOpcode, index};
    }
    switch (decoded.opcode) {
      case isa::Opcode::kLoad:
      case isa::Opcode::kStore: {
        CountRegion(decoded);
        const bool store = decoded.opcode == isa::Opcode::kStore;
        stream_[store ? kStore : kLoad].push_back(index);
        (store ? counters_.bytes_written : counters_.bytes_read) +=
            store ? uint64_t{decoded.x_size} * decoded.tile_bytes * decoded.y_size * decoded.z_size
                  : decoded.beats * hw_.axi_bytes;
        break;
      }
      case isa::Opcode::kGemm:
        stream_[kGemm].push_back(index);
        counters_.macs_tiles += decoded.length;
        break;
      case isa::Opcode::kVector:
        stream_[kVector].push_back(index);
        counters_.vector_tiles += decoded.length;
        decoded.length *= vector_parts_;
        break;
      case isa::Opcode::kFinish:
        break;
    }
    program_.push_back(decoded);
    if (decoded.opcode == isa::Opcode::kFinish) {
      for (uint32_t u = 0; u < kUnits; u++) counters_.instructions[u] = stream_[u].size();
      fetch_.chunks = (uint64_t{count} * isa::kInstructionBytes + chunk_bytes() - 1) / chunk_bytes();
      counters_.bytes_read += fetch_.chunks * chunk_bytes();
      counters_.read_bursts += fetch_.chunks;
      return {};
    }
  }
  return {Refusal::kNoFinish, count};
}

bool Pipeline::DecodeInstruction(const Words& words, Instruction& out) const {
  out = Instruction();
  out.opcode = static_cast<isa::Opcode>(words.Get(isa::header::kOpcode));
  out.pop = static_cast<uint8_t>(words.Get(isa::header::kPop));
  out.push = static_cast<uint8_t>(words.Get(isa::header::kPush));
  out.banks = static_cast<uint8_t>(words.Get(isa::header::kAccBanks));
  const auto get = [&](isa::BitField field) { return static_cast<uint32_t>(words.Get(field)); };
  switch (out.opcode) {
    case isa::Opcode::kLoad:
      out.unit = kLoad;
      out.memory = static_cast<uint8_t>(get(isa::load::kMemory));
      out.tile_bytes = tile_bytes_[out.memory];
      out.dram_offset = words.Get(isa::load::kDramOffset);
      out.x_size = get(isa::load::kXSize);
      out.y_size = get(isa::load::kYSize);
      out.z_size = get(isa::load::kZSize);
      out.y_step = uint64_t{get(isa::load::kYStride)} * out.tile_bytes;
      out.z_step = uint64_t{get(isa::load::kZStride)} * out.tile_bytes;
      out.pad_left = static_cast<uint8_t>(get(isa::load::kPadLeft));
      out.pad_right = static_cast<uint8_t>(get(isa::load::kPadRight));
      out.pad_top = static_cast<uint8_t>(get(isa::load::kPadTop));
      out.pad_bottom = static_cast<uint8_t>(get(isa::load::kPadBottom));
      out.has_data = out.x_size != 0 && out.y_size != 0;
      out.has_pad = (out.pad_left | out.pad_right | out.pad_top | out.pad_bottom) != 0;
      return true;
    case isa::Opcode::kStore:
      out.unit = kStore;
      out.tile_bytes = tile_bytes_[static_cast<uint32_t>(isa::Memory::kOut)];
      out.dram_offset = words.Get(isa::store::kDramOffset);
      out.x_size = get(isa::store::kXSize);
      out.y_size = get(isa::store::kYSize);
      out.z_size = get(isa::store::kZSize);
      out.y_step = uint64_t{get(isa::store::kYStride)} * out.tile_bytes;
      out.z_step = uint64_t{get(isa::store::kZStride)} * out.tile_bytes;
      out.has_data = true;
      return true;
    case isa::Opcode::kGemm:
      out.unit = kGemm;
      out.length = uint64_t{get(isa::gemm::kUopCount)} * get(isa::gemm::kIterOuter) *
                   get(isa::gemm::kIterInner);
      return true;
    case isa::Opcode::kVector:
      out.unit = kVector;
      out.outer = get(isa::vector::kIterOuter);
      out.length = uint64_t{out.outer} * get(isa::vector::kIterInner);
      out.requant = static_cast<isa::VectorOp>(get(isa::vector::kOp)) == isa::VectorOp::kRequant;
      out.param_step = get(isa::vector::kParamStep) != 0;
      return true;
    case isa::Opcode::kFinish:
      out.unit = kUnits;
      return true;
  }
  return false;
}

void Pipeline::CountRegion(Instruction& region) const {
  region.beats = 0;
  if (!region.has_data) return;
  const uint64_t mask = hw_.axi_bytes - 1;
  const uint64_t row_bytes = uint64_t{region.x_size} * region.tile_bytes;
  const auto beats = [&](uint64_t address) {
    return ((address & mask) + row_bytes + mask) >> beat_shift_;
  };
  if (((region.y_step | region.z_step) & mask) == 0) {
    region.beats = beats(region.dram_offset) * region.y_size * region.z_size;
    return;
  }
  for (uint32_t z = 0; z < region.z_size; z++) {
    for (uint32_t y = 0; y < region.y_size; y++) {
      region.beats += beats(region.dram_offset + z * region.z_step + y * region.y_step);
    }
  }
}

void Pipeline::StartBursts(Bursts& bursts, const Instruction& region) const {
  bursts.state = Bursts::kRow;
  bursts.row = bursts.plane = region.dram_offset;
  bursts.y_step = region.y_step;
  bursts.z_step = region.z_step;
  bursts.row_bytes = region.x_size * region.tile_bytes;
  bursts.y_size = bursts.y_left = region.y_size;
  bursts.z_left = region.z_size;
}

// The cycle that counts the beats of a row: its first burst is offered in the next.
void Pipeline::StepRow(Bursts& bursts) const {
  const uint64_t mask = hw_.axi_bytes - 1;
  bursts.beat = bursts.row >> beat_shift_;
  bursts.left = static_cast<uint32_t>(((bursts.row & mask) + bursts.row_bytes + mask) >> beat_shift_);
  bursts.state = Bursts::kBurst;
  SizeBurst(bursts);
}

void Pipeline::SizeBurst(Bursts& bursts) const {
  const uint32_t page_left =
      page_beats_ - static_cast<uint32_t>(bursts.beat & (page_beats_ - 1));
  bursts.take = std::min({bursts.left, hw_.axi_burst_beats, page_left});
}

// The offered burst is taken. Returns whether it was the last of the region.
bool Pipeline::TakeBurst(Bursts& bursts) const {
  bursts.beat += bursts.take;
  bursts.left -= bursts.take;
  if (bursts.left != 0) {
    SizeBurst(bursts);
    return false;
  }
  if (bursts.y_left > 1) {
    bursts.row += bursts.y_step;
    --bursts.y_left;
  } else {
    bursts.plane += bursts.z_step;
    bursts.row = bursts.plane;
    bursts.y_left = bursts.y_size;
    if (--bursts.z_left == 0) {
      bursts.state = Bursts::kIdle;
      return true;
    }
  }
  bursts.state = Bursts::kRow;
  return false;
}

void Pipeline::StartPadding(const Instruction& load) {
  Padding& pads = load_.padding;
  pads.state = Padding::kRow;
  pads.row = pads.plane = 0;
  pads.width = uint32_t{load.pad_left} + load.x_size + load.pad_right;
  pads.height = uint32_t{load.pad_top} + load.y_size + load.pad_bottom;
}

// A cycle of the padding in which it does more than write one tile after another.
void Pipeline::StepPadding(const Instruction& load) {
  Padding& pads = load_.padding;
  const bool full_row = pads.row < load.pad_top || pads.row >= load.pad_top + load.y_size ||
                        load.x_size == 0;
  bool row_end = false;
  switch (pads.state) {
    case Padding::kIdle:
      return;
    case Padding::kRow:
      pads.run = full_row ? pads.width : load.pad_left;
      pads.state = Padding::kLeft;
      return;
    case Padding::kLeft:
      row_end = full_row;
      if (!full_row) {
        pads.run = load.pad_right;
        pads.state = Padding::kRight;
      }
      break;
    case Padding::kRight:
      row_end = true;
      break;
  }
  if (!row_end) return;
  pads.state = Padding::kRow;
  if (++pads.row >= pads.height) {
    pads.row = 0;
    if (++pads.plane >= load.z_size) pads.state = Padding::kIdle;
  }
}

bool Pipeline::TokensHere(const Instruction& instruction, uint32_t unit) const {
  const uint32_t* have = token_[unit];
  const uint32_t available = (have[0] != 0) | (have[1] != 0) << 1 | (have[2] != 0) << 2 |
                             static_cast<uint32_t>(have[3] != 0) << 3;
  return (instruction.pop & ~available) == 0;
}

// Which counter a missing token goes to: of several that miss, that of the lowest unit.
Wait Pipeline::TokenWait(const Instruction& instruction, uint32_t unit) const {
  uint32_t slot = kToken0;
  for (uint32_t producer = 0; producer < kUnits; producer++) {
    if (producer == unit) continue;
    if ((instruction.pop >> producer & 1) && token_[unit][producer] == 0) break;
    ++slot;
  }
  return static_cast<Wait>(std::min<uint32_t>(slot, kToken2));
}

void Pipeline::Take(uint32_t unit, uint32_t instruction) {
  const uint32_t pop = program_[instruction].pop;
  for (uint32_t producer = 0; producer < kUnits; producer++) token_[unit][producer] -= pop >> producer & 1;
  --queue_[unit];
  ++popped_[unit];
  if (trace_on_) trace_[instruction].taken = now_;
}

void Pipeline::Retire(uint32_t unit, uint32_t instruction) {
  const uint32_t push = program_[instruction].push;
  for (uint32_t consumer = 0; consumer < kUnits; consumer++) {
    if (push >> consumer & 1) {
      if (token_[consumer][unit]++ == kMaxTokens) overflow_ = instruction;
    }
  }
  if (trace_on_) trace_[instruction].retired = now_;
}

Outcome Pipeline::Loop(uint64_t max_cycles) {
  using Moves = MemoryTimeline::Moves;
  overflow_ = kNobody;
  // The first cycle of a run only starts the fetch.
  for (auto& unit : counters_.unit) unit[kIdle] = 1;
  memory_.Next(Moves());
  now_ = 1;
  fetch_.active = true;

  for (;;) {
    // ---- Combinational: what happens in this cycle, from registers alone.
    const bool r_valid = memory_.r_valid();
    const bool to_load = r_valid && memory_.r_owner() == 1;
    const bool b_valid = memory_.b_valid();

    // Fetch
    const bool insn_valid =
        insn_beats_ != 0 ? fetch_.have == insn_beats_ : fetch_.fifo != 0;
    const bool fetch_req = fetch_.chunks != 0 && fetch_.reserved + chunk_beats_ <= fetch_beats_;
    uint32_t push_unit = kUnits;
    bool at_finish = false;
    if (insn_valid) {
      const uint32_t unit = program_[fetch_.next].unit;
      at_finish = unit == kUnits;
      if (!at_finish && queue_[unit] < kQueueDepth) push_unit = unit;
    }
    const bool insn_pop = push_unit != kUnits;
    const bool beat_pop = insn_beats_ != 0 ? fetch_.fifo != 0 && (!insn_valid || insn_pop)
                          : insn_pop && (insn_parts_ == 1 || fetch_.have == insn_parts_ - 1);

    // Locks
    uint32_t gemm_lock = gemm_.tail_lock;
    if (gemm_.valid) gemm_lock |= program_[gemm_.current].banks;
    uint32_t vector_lock = vector_.alu_lock;
    if (vector_.state != Vector::kIdle) vector_lock |= program_[vector_.current].banks;

    // GEMM
    bool gemm_take = false, gemm_wait_banks = false, gemm_wait_tokens = false;
    const bool gemm_last = gemm_.valid && gemm_.left == 1;
    uint32_t gemm_head = 0, gemm_claim = 0;
    if (queue_[kGemm] != 0 && (!gemm_.valid || gemm_last)) {
      gemm_head = stream_[kGemm][popped_[kGemm]];
      const Instruction& head = program_[gemm_head];
      gemm_wait_tokens = !TokensHere(head, kGemm);
      gemm_wait_banks = (head.banks & (vector_lock | load_.lock)) != 0;
      gemm_take = !gemm_wait_tokens && !gemm_wait_banks;
      if (gemm_take) gemm_claim = head.banks;
    }
    const bool gemm_retire = gemm_.tail.count != 0 && gemm_.tail.Front().due == now_;
    const bool gemm_draining = gemm_.tail.count != 0;

    // VECTOR
    bool vector_take = false, vector_wait_banks = false, vector_wait_tokens = false;
    const bool vector_last =
        vector_.state == Vector::kRun && vector_.left == 1 && vector_.outer_left == 0;
    uint32_t vector_head = 0, vector_claim = 0;
    if (queue_[kVector] != 0 && (vector_.state == Vector::kIdle || vector_last)) {
      vector_head = stream_[kVector][popped_[kVector]];
      const Instruction& head = program_[vector_head];
      vector_wait_tokens = !TokensHere(head, kVector);
      vector_wait_banks = (head.banks & (gemm_lock | gemm_claim | load_.lock)) != 0;
      vector_take = !vector_wait_tokens && !vector_wait_banks;
      if (vector_take) vector_claim = head.banks;
    }
    const bool vector_retire = vector_.tail.count != 0 && vector_.tail.Front().due == now_;
    const bool vector_draining = now_ < vector_.drained;

    // LOAD
    const Instruction& load = program_[load_.current];
    bool load_take = false, load_wait_tokens = false;
    uint32_t load_head = 0;
    if (queue_[kLoad] != 0 && load_.state == Load::kIdle) {
      load_head = stream_[kLoad][popped_[kLoad]];
      const Instruction& head = program_[load_head];
      load_wait_tokens = !TokensHere(head, kLoad);
      const bool banks_busy = head.memory == kAccMemory &&
          (head.banks & (gemm_lock | gemm_claim | vector_lock | vector_claim)) != 0;
      load_take = !load_wait_tokens && !banks_busy && load_.flight.count < kFlightDepth;
    }
    const bool load_req = load_.bursts.state == Bursts::kBurst;
    const bool flight_push = load_.state == Load::kSetup && load.has_data;
    const bool pads_open = (load_.padding.state == Padding::kLeft ||
                            load_.padding.state == Padding::kRight) && load_.padding.run != 0;
    const bool pads_step = load_.padding.state != Padding::kIdle && !pads_open;
    const bool pads_wait = load_.in_flight[load.memory] != (load.has_data ? 1u : 0u);
    const bool write_pad = pads_open && !to_load && !pads_wait;
    const bool issue_done = load_.state == Load::kRun && load_.bursts.state == Bursts::kIdle &&
                            load_.padding.state == Padding::kIdle;
    const bool issue_finished = issue_done && load.has_data;
    const bool pad_retire = load_.state == Load::kFlush && !load_.active && load_.flight.count == 0;
    const bool all_placed = to_load && load_.beats_left == 1;
    const bool data_retire = load_.active && load_.credit != 0 && (load_.placed || all_placed);
    const bool flight_pop = load_.flight.count != 0 && (!load_.active || data_retire);
    const bool load_idle = load_.state == Load::kIdle && load_.flight.count == 0 &&
                           !load_.active && !load_.took_acc;

    // Read engine: fetch before load
    const bool ar_fire = read_.valid && memory_.ar_ready();
    const bool read_free = (!read_.valid || ar_fire) && read_.in_flight < hw_.read_outstanding;
    const bool accept_fetch = read_free && fetch_req;
    const bool accept_load = read_free && !fetch_req && load_req;
    const bool read_retire = r_valid && memory_.r_last();

    // STORE
    bool store_take = false, store_wait_tokens = false;
    uint32_t store_head = 0;
    if (queue_[kStore] != 0 && store_.state == Store::kIdle) {
      store_head = stream_[kStore][popped_[kStore]];
      store_wait_tokens = !TokensHere(program_[store_head], kStore);
      store_take = !store_wait_tokens && store_.flight.count < kFlightDepth;
    }
    const bool aw_fire = store_.aw_valid && memory_.aw_ready();
    const bool announce = store_.bursts.state == Bursts::kBurst &&
                          (!store_.aw_valid || aw_fire) &&
                          store_.tags.count < hw_.write_outstanding &&
                          store_.lengths.count < kLengthDepth;
    const bool w_valid = store_.fifo != 0;
    const bool w_fire = w_valid && memory_.w_ready();
    const bool read_out = store_.lengths.count != 0 && store_.active &&
                          store_.fifo + (store_.read ? 1u : 0u) < kBeatFifo;
    const bool burst_read = read_out && store_.beats + 1 == store_.lengths.Front();
    const bool all_read = read_out && store_.beats_left == 1;
    const bool store_flight_pop = store_.flight.count != 0 && (!store_.active || all_read);
    const bool bus_idle = !store_.aw_valid && store_.tags.count == 0 && !w_valid && !store_.read;
    const bool store_idle = store_.state == Store::kIdle && bus_idle &&
                            store_.flight.count == 0 && !store_.active;

    const bool finish = at_finish && read_.in_flight == 0 && load_idle && store_idle &&
                        !gemm_.valid && !gemm_draining && vector_.state == Vector::kIdle &&
                        !vector_draining &&
                        (queue_[0] | queue_[1] | queue_[2] | queue_[3]) == 0;

    // ---- What the counters see
    Wait wait[kUnits];
    if (to_load || write_pad || accept_load || load_.state == Load::kSetup || load_take) {
      wait[kLoad] = kBusy;
    } else if (load_wait_tokens) {
      wait[kLoad] = TokenWait(program_[load_head], kLoad);
    } else if (load_.state != Load::kIdle || load_.active || load_.flight.count != 0 ||
               queue_[kLoad] != 0) {
      wait[kLoad] = kMemory;
    } else {
      wait[kLoad] = kIdle;
    }
    if (gemm_.valid) {
      wait[kGemm] = kBusy;
    } else if (gemm_wait_tokens) {
      wait[kGemm] = TokenWait(program_[gemm_head], kGemm);
    } else if (gemm_wait_banks) {
      wait[kGemm] = kMemory;
    } else {
      wait[kGemm] = gemm_draining || queue_[kGemm] != 0 ? kBusy : kIdle;
    }
    if (vector_.state != Vector::kIdle) {
      wait[kVector] = kBusy;
    } else if (vector_wait_tokens) {
      wait[kVector] = TokenWait(program_[vector_head], kVector);
    } else if (vector_wait_banks) {
      wait[kVector] = kMemory;
    } else {
      wait[kVector] = vector_draining || queue_[kVector] != 0 ? kBusy : kIdle;
    }
    if (w_fire || announce || store_.state == Store::kSetup || store_take || store_.read) {
      wait[kStore] = kBusy;
    } else if (store_wait_tokens) {
      wait[kStore] = TokenWait(program_[store_head], kStore);
    } else {
      wait[kStore] = !store_idle || queue_[kStore] != 0 ? kMemory : kIdle;
    }

    // ---- Cycles in which every unit goes on with this are taken at once
    const bool event =
        finish || beat_pop || insn_pop || (r_valid && !to_load) || read_retire || ar_fire ||
        accept_fetch || accept_load || gemm_take || gemm_last || gemm_retire || vector_take ||
        vector_retire || load_take || load_.state == Load::kSetup || pads_step || issue_done ||
        pad_retire || all_placed || data_retire || flight_pop ||
        load_.bursts.state == Bursts::kRow || load_.took_acc ||
        store_take || store_.state == Store::kSetup || store_.bursts.state == Bursts::kRow ||
        announce || aw_fire || burst_read || all_read || store_flight_pop || b_valid ||
        (store_.state == Store::kRun && store_.bursts.state == Bursts::kIdle) ||
        read_out != store_.read || store_.read != w_fire ||
        (to_load || write_pad) != load_.wrote || (load_.lock != 0 && load_idle);
    uint64_t cycles = 1;
    if (!event) {
      uint64_t steady = memory_.Steady(w_fire);
      if (gemm_.valid) steady = std::min(steady, gemm_.left - 1);
      if (gemm_draining) steady = std::min(steady, gemm_.tail.Front().due - now_);
      if (vector_.tail.count != 0) steady = std::min(steady, vector_.tail.Front().due - now_);
      switch (vector_.state) {
        case Vector::kIdle:
          break;
        case Vector::kDrain:
          steady = vector_draining ? std::min(steady, vector_.drained - now_) : 0;
          break;
        case Vector::kParam:
          steady = std::min<uint64_t>(steady, param_rows_ - vector_.row);
          break;
        case Vector::kRun:
          steady = std::min(steady, vector_.left - 1);
          break;
      }
      if (vector_.alu.count != 0) steady = std::min(steady, vector_.alu.Front().due - now_);
      if (to_load) steady = std::min(steady, load_.beats_left - 1);
      if (write_pad) steady = std::min<uint64_t>(steady, load_.padding.run);
      if (read_out) {
        steady = std::min<uint64_t>(steady, store_.lengths.Front() - store_.beats - 1);
        steady = std::min(steady, store_.beats_left - 1);
      }
      if (steady >= kForever) return {Refusal::kDeadlock, fetch_.next};
      cycles = std::max<uint64_t>(steady, 1);
    }
    for (uint32_t u = 0; u < kUnits; u++) counters_.unit[u][wait[u]] += cycles;
    if (finish) {
      counters_.cycles = now_ + 1;
      return overflow_ == kNobody ? Outcome() : Outcome{Refusal::kTokenOverflow, overflow_};
    }
    if (cycles > 1) {
      const uint64_t more = cycles - 1;  // the last cycle is committed as any other
      if (gemm_.valid) gemm_.left -= more;
      if (vector_.state == Vector::kRun) vector_.left -= more;
      if (vector_.state == Vector::kParam) vector_.row += static_cast<uint32_t>(more);
      if (to_load) load_.beats_left -= more;
      if (write_pad) load_.padding.run -= static_cast<uint32_t>(more);
      if (read_out) {
        store_.beats += static_cast<uint32_t>(more);
        store_.beats_left -= more;
      }
      memory_.Skip(more, w_fire);
      now_ += more;
    }
    if (now_ >= max_cycles) return {Refusal::kCycleLimit, fetch_.next};

    // ---- Registers
    Moves moves;
    moves.ar = ar_fire;
    moves.ar_beats = read_.beats;
    moves.ar_owner = read_.owner;
    moves.aw = aw_fire;
    moves.aw_beats = store_.aw_beats;
    moves.w_valid = w_valid;

    // Fetch
    fetch_.fifo += (r_valid && !to_load) - beat_pop;
    fetch_.reserved += (accept_fetch ? chunk_beats_ : 0) - beat_pop;
    fetch_.chunks -= accept_fetch;
    if (insn_beats_ != 0) {
      fetch_.have = insn_pop ? beat_pop : fetch_.have + beat_pop;
    } else if (insn_pop) {
      fetch_.have = beat_pop ? 0 : fetch_.have + 1;
    }

    // Read engine
    if (accept_fetch || accept_load) {
      read_.valid = true;
      read_.owner = accept_load;
      read_.beats = accept_load ? load_.bursts.take : chunk_beats_;
      counters_.read_bursts += accept_load;
    } else if (ar_fire) {
      read_.valid = false;
    }
    read_.in_flight += (accept_fetch || accept_load) - read_retire;

    // LOAD: the lock sees the state before this cycle's changes
    if (load_take && program_[load_head].memory == kAccMemory) {
      load_.lock |= program_[load_head].banks;
    } else if (load_idle && !load_.wrote) {
      load_.lock = 0;
    }
    load_.took_acc = load_take && program_[load_head].memory == kAccMemory;
    load_.wrote = to_load || write_pad;
    if (write_pad) {
      --load_.padding.run;
    } else if (pads_step) {
      StepPadding(load);
    }
    if (load_.bursts.state == Bursts::kRow) {
      StepRow(load_.bursts);
    } else if (accept_load) {
      TakeBurst(load_.bursts);
    }
    load_.credit += issue_finished - data_retire;
    if (to_load) {
      --load_.beats_left;
      load_.placed = load_.placed || all_placed;
    }
    if (data_retire) {
      --load_.in_flight[program_[load_.filling].memory];
      Retire(kLoad, load_.filling);
      load_.active = false;
    }
    if (flight_pop) {
      load_.filling = load_.flight.Front();
      load_.flight.Pop();
      load_.active = true;
      load_.placed = false;
      load_.beats_left = program_[load_.filling].beats;
    }
    if (flight_push) {
      load_.flight.Push(load_.current);
      ++load_.in_flight[load.memory];
    }
    switch (load_.state) {
      case Load::kIdle:
        if (load_take) {
          load_.state = Load::kSetup;
          load_.current = load_head;
        }
        break;
      case Load::kSetup:
        load_.state = load.has_data || load.has_pad ? Load::kRun : Load::kFlush;
        if (load.has_data) StartBursts(load_.bursts, load);
        if (load.has_pad) StartPadding(load);
        break;
      case Load::kRun:
        if (issue_done) load_.state = load.has_data ? Load::kIdle : Load::kFlush;
        break;
      case Load::kFlush:
        if (pad_retire) {
          load_.state = Load::kIdle;
          Retire(kLoad, load_.current);
        }
        break;
    }

    // GEMM
    if (gemm_retire) {
      Retire(kGemm, gemm_.tail.Front().instruction);
      gemm_.tail.Pop();
      gemm_.tail_lock = gemm_.tail.Banks();
    }
    if (gemm_.valid) {
      if (--gemm_.left == 0) {
        const uint8_t banks = program_[gemm_.current].banks;
        gemm_.tail.Push({now_ + gemm_tail_, gemm_.current, banks});
        gemm_.tail_lock |= banks;
        gemm_.valid = false;
      }
    }
    if (gemm_take) {
      gemm_.valid = true;
      gemm_.current = gemm_head;
      gemm_.left = program_[gemm_head].length;
    }

    // VECTOR
    if (vector_retire) {
      Retire(kVector, vector_.tail.Front().instruction);
      vector_.tail.Pop();
    }
    if (vector_.alu.count != 0 && vector_.alu.Front().due == now_) {
      vector_.alu.Pop();
      vector_.alu_lock = vector_.alu.Banks();
    }
    switch (vector_.state) {
      case Vector::kIdle:
        break;
      case Vector::kDrain:
        if (!vector_draining) {
          vector_.state = Vector::kParam;
          vector_.row = 0;
        }
        break;
      case Vector::kParam:
        if (vector_.row++ == param_rows_) vector_.state = Vector::kRun;
        break;
      case Vector::kRun: {
        const Instruction& current = program_[vector_.current];
        vector_.drained = now_ + kVectorTail + 1;
        if (--vector_.left != 0) break;
        if (vector_last) {
          vector_.tail.Push({now_ + kVectorTail, vector_.current, current.banks});
          if (!current.requant) {
            vector_.alu.Push({now_ + kAluTail, vector_.current, current.banks});
            vector_.alu_lock |= current.banks;
          }
          vector_.state = Vector::kIdle;
        } else {
          --vector_.outer_left;
          vector_.left = current.length / current.outer;
          vector_.state = Vector::kDrain;
        }
        break;
      }
    }
    if (vector_take) {
      const Instruction& head = program_[vector_head];
      const bool reloads = head.requant && head.param_step;
      vector_.state = head.requant ? Vector::kDrain : Vector::kRun;
      vector_.current = vector_head;
      vector_.left = reloads ? head.length / head.outer : head.length;
      vector_.outer_left = reloads ? head.outer - 1 : 0;
    }

    // STORE
    if (b_valid) {
      const uint32_t tag = store_.tags.Front();
      store_.tags.Pop();
      if (tag & kLastBurst) Retire(kStore, tag & ~kLastBurst);
    }
    store_.fifo += store_.read - w_fire;
    store_.read = read_out;
    if (read_out) {
      store_.beats = burst_read ? 0 : store_.beats + 1;
      --store_.beats_left;
      if (burst_read) store_.lengths.Pop();
      if (all_read) store_.active = false;
    }
    if (store_flight_pop) {
      store_.beats_left = program_[store_.flight.Front()].beats;
      store_.flight.Pop();
      store_.active = true;
    }
    if (aw_fire) {
      store_.aw_valid = false;
      ++counters_.write_bursts;
    }
    const bool bursts_done = store_.bursts.state == Bursts::kIdle;
    if (store_.bursts.state == Bursts::kRow) {
      StepRow(store_.bursts);
    } else if (announce) {
      store_.aw_valid = true;
      store_.aw_beats = store_.bursts.take;
      store_.lengths.Push(store_.bursts.take);
      const bool last = TakeBurst(store_.bursts);
      store_.tags.Push(store_.current | (last ? kLastBurst : 0));
    }
    switch (store_.state) {
      case Store::kIdle:
        if (store_take) {
          store_.state = Store::kSetup;
          store_.current = store_head;
        }
        break;
      case Store::kSetup:
        store_.state = Store::kRun;
        store_.flight.Push(store_.current);
        StartBursts(store_.bursts, program_[store_.current]);
        break;
      case Store::kRun:
        if (bursts_done) store_.state = Store::kIdle;
        break;
    }

    // Queues and tokens last: what is pushed now is seen in the next cycle
    if (load_take) Take(kLoad, load_head);
    if (gemm_take) Take(kGemm, gemm_head);
    if (vector_take) Take(kVector, vector_head);
    if (store_take) Take(kStore, store_head);
    if (insn_pop) {
      ++queue_[push_unit];
      ++fetch_.next;
    }
    memory_.Next(moves);
    ++now_;
  }
}

}  // namespace tilewright::twin
