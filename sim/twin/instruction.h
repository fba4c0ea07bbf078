// SPDX-License-Identifier: Apache-2.0
// An instruction as far as it shapes time, decoded from its 256 bits.
#ifndef TILEWRIGHT_SIM_TWIN_INSTRUCTION_H_
#define TILEWRIGHT_SIM_TWIN_INSTRUCTION_H_

#include <cstdint>
#include <cstring>

#include "generated/instructions.h"

namespace tilewright::twin {

// The little-endian words of an instruction.
struct Words {
  uint64_t word[4];

  explicit Words(const uint8_t* bytes) { std::memcpy(word, bytes, sizeof word); }

  uint64_t Get(isa::BitField field) const {
    const uint32_t index = field.low / 64, shift = field.low % 64;
    uint64_t value = word[index] >> shift;
    if (shift + field.bits > 64) value |= word[index + 1] << (64 - shift);
    return value & ((uint64_t{1} << field.bits) - 1);
  }
};

struct Instruction {
  isa::Opcode opcode;
  uint8_t unit;      // kUnits: FINISH
  uint8_t pop, push, banks;
  uint8_t memory;    // LOAD: scratchpad
  bool has_data;     // LOAD
  bool has_pad;      // LOAD
  bool requant;      // VECTOR
  bool param_step;   // VECTOR
  uint8_t pad_left, pad_right, pad_top, pad_bottom;
  // LOAD, STORE: the region, in DRAM bytes. GEMM, VECTOR: loops.
  uint32_t x_size, y_size, z_size;
  uint32_t tile_bytes;
  uint64_t dram_offset;
  uint64_t y_step, z_step;  // bytes
  uint64_t beats;           // LOAD, STORE: of the whole region
  uint64_t length;          // GEMM: products; VECTOR: parts
  uint32_t outer;           // VECTOR: outer iterations
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_INSTRUCTION_H_
