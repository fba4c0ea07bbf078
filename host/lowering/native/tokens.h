// SPDX-License-Identifier: Apache-2.0
// The instruction stream with dependency tokens, as ProgramBuilder of
// host/lowering/program_builder.py, which argues why tokens match and which may be left out.
#ifndef TILEWRIGHT_HOST_LOWERING_NATIVE_TOKENS_H_
#define TILEWRIGHT_HOST_LOWERING_NATIVE_TOKENS_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "words.h"

namespace tilewright::lowering {

// Collects instructions and adds a push and a pop bit where one depends on another unit's.
//
// Instructions are known by their index in the stream. Resources (buffer slots, accumulator
// regions) are small numbers that the caller chooses.
class TokenStream {
 public:
  static constexpr int32_t kNothing = -1;  // no resource

  // Resources that follow each other.
  struct Range {
    int32_t first = kNothing;
    int32_t count = 0;
  };

  // Starts an empty stream in `instructions`, which outlives it.
  void Reset(std::vector<RawInstruction>* instructions, size_t resources) {
    instructions_ = instructions;
    instructions_->clear();
    clocks_.clear();
    uses_.assign(resources, Use{kNever, kNever});
    for (Lanes& known : known_) known = kNever;
  }

  // Appends an instruction whose pop and push fields are zero. More fields can be set in the one
  // that is returned, until the next call.
  [[gnu::always_inline]] RawInstruction& Emit(isa::Unit unit_of, const RawInstruction& instruction,
                                              std::initializer_list<int32_t> reads, int32_t write) {
    Lanes needs = kNever;
    for (const int32_t resource : reads) {
      if (resource != kNothing) Read(resource, unit_of, needs);
    }
    if (write != kNothing) Write(write, unit_of, needs);
    return Append(unit_of, instruction, needs);
  }

  // The same with a range of resources that it reads besides, and one that it writes.
  RawInstruction& EmitRanges(isa::Unit unit_of, const RawInstruction& instruction,
                             std::initializer_list<int32_t> reads, Range also_reads, Range writes) {
    Lanes needs = kNever;
    for (const int32_t resource : reads) {
      if (resource != kNothing) Read(resource, unit_of, needs);
    }
    for (int32_t i = 0; i < also_reads.count; ++i) Read(also_reads.first + i, unit_of, needs);
    for (int32_t i = 0; i < writes.count; ++i) Write(writes.first + i, unit_of, needs);
    return Append(unit_of, instruction, needs);
  }

 private:
  // A stream index for each unit; -1: none.
  using Lanes [[gnu::vector_size(16)]] = int32_t;
  static_assert(sizeof(Lanes) == isa::kUnits * sizeof(int32_t));

  static constexpr Lanes kNever = {-1, -1, -1, -1};
  static constexpr uint64_t kPushBit = uint64_t{1} << isa::header::kPush.low;
  static_assert(isa::header::kPush.low + isa::kUnits <= 64 &&
                isa::header::kPop.low + isa::kUnits <= 64);

  // Both note the use of a resource by the next instruction, and in `needs` the last instruction of
  // each unit that this one must follow.
  [[gnu::always_inline]] void Read(int32_t resource, isa::Unit unit, Lanes& needs) {
    Use& use = uses_[static_cast<size_t>(resource)];
    needs = Later(needs, use.writer);
    use.readers = WithLane(use.readers, static_cast<uint32_t>(unit), NextIndex());
  }

  [[gnu::always_inline]] void Write(int32_t resource, isa::Unit unit, Lanes& needs) {
    Use& use = uses_[static_cast<size_t>(resource)];
    needs = Later(needs, Later(use.writer, use.readers));
    use.writer = WithLane(kNever, static_cast<uint32_t>(unit), NextIndex());
    use.readers = kNever;
  }

  int32_t NextIndex() const { return static_cast<int32_t>(instructions_->size()); }

  [[gnu::always_inline]] RawInstruction& Append(isa::Unit unit_of,
                                                const RawInstruction& instruction, Lanes needs) {
    const auto unit = static_cast<uint32_t>(unit_of);
    const int32_t index = NextIndex();
    instructions_->push_back(instruction);
    Lanes known = known_[unit];
    uint32_t sources = LanesOf(needs > known) & ~(1U << unit);
    if ((sources & (sources - 1)) != 0) sources = WithoutImplied(sources, needs);
    for (uint32_t left = sources; left != 0; left &= left - 1) {
      const int32_t producer = needs[__builtin_ctz(left)];
      (*instructions_)[static_cast<size_t>(producer)].word[0] |= kPushBit << unit;
      known = Later(known, clocks_[static_cast<size_t>(producer)]);
    }
    known = WithLane(known, unit, index);
    known_[unit] = known;
    clocks_.push_back(known);
    RawInstruction& appended = instructions_->back();
    appended.word[0] |= uint64_t{sources} << isa::header::kPop.low;
    return appended;
  }

  struct Use {
    Lanes writer;   // -1 but for the unit that wrote last
    Lanes readers;  // since then
  };

  static Lanes Later(Lanes a, Lanes b) { return a > b ? a : b; }

  // Whole vectors are read and written: a lane written alone would delay the next read of all.
  static Lanes WithLane(Lanes lanes, uint32_t unit, int32_t index) {
    constexpr Lanes kOne[] = {{-1, 0, 0, 0}, {0, -1, 0, 0}, {0, 0, -1, 0}, {0, 0, 0, -1}};
    return kOne[unit] ? Lanes{index, index, index, index} : lanes;
  }

  // The units whose lane of a comparison holds, one bit each.
  static uint32_t LanesOf(Lanes holds) {
    const Lanes bits = holds & Lanes{1, 2, 4, 8};
    return static_cast<uint32_t>((bits[0] | bits[1]) | (bits[2] | bits[3]));
  }

  // Sources whose instruction no other source has waited for.
  uint32_t WithoutImplied(uint32_t sources, const Lanes& needs) const {
    uint32_t kept = sources;
    for (uint32_t left = sources; left != 0; left &= left - 1) {
      const int u = __builtin_ctz(left);
      for (uint32_t others = sources & ~(1U << u); others != 0; others &= others - 1) {
        const int32_t other = needs[__builtin_ctz(others)];
        if (clocks_[static_cast<size_t>(other)][u] >= needs[u]) kept &= ~(1U << u);
      }
    }
    return kept;
  }

  std::vector<RawInstruction>* instructions_ = nullptr;
  std::vector<Lanes> clocks_;  // what each instruction knew of every unit when it started
  std::vector<Use> uses_;
  Lanes known_[isa::kUnits] = {};
};

}  // namespace tilewright::lowering

#endif  // TILEWRIGHT_HOST_LOWERING_NATIVE_TOKENS_H_
