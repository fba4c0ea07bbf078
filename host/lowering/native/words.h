// SPDX-License-Identifier: Apache-2.0
// Instructions as 256-bit words, packed field by field.
#ifndef TILEWRIGHT_HOST_LOWERING_NATIVE_WORDS_H_
#define TILEWRIGHT_HOST_LOWERING_NATIVE_WORDS_H_

#include <cstdint>

#include "host/machine/generated/instructions.h"

namespace tilewright::lowering {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "programs are written as they lie in DRAM");

// An instruction as it lies in DRAM.
struct RawInstruction {
  uint64_t word[isa::kInstructionBytes / 8];
};
static_assert(sizeof(RawInstruction) == isa::kInstructionBytes);

// Ors values into the fields of words; fields must be zero before. Remembers whether a value was
// too large for its field.
class FieldWriter {
 public:
  // `field` is a constant wherever this is called, so that only shifts are left.
  [[gnu::always_inline]] void Set(RawInstruction& to, isa::BitField field, int64_t value) {
    const uint64_t raw = static_cast<uint64_t>(value);
    overflow_ |= raw >> field.bits;
    const uint32_t index = field.low / 64, shift = field.low % 64;
    to.word[index] |= raw << shift;
    if (shift + field.bits > 64) to.word[index + 1] |= raw >> (64 - shift);
  }

  bool overflowed() const { return overflow_ != 0; }
  void Reset() { overflow_ = 0; }

 private:
  uint64_t overflow_ = 0;
};

// An instruction with its opcode and otherwise zero.
inline RawInstruction BlankInstruction(isa::Opcode opcode) {
  return {{static_cast<uint64_t>(opcode) << isa::header::kOpcode.low}};
}

}  // namespace tilewright::lowering

#endif  // TILEWRIGHT_HOST_LOWERING_NATIVE_WORDS_H_
