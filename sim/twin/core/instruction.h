// SPDX-License-Identifier: Apache-2.0
// An instruction as far as it shapes time, decoded from its 256 bits.
#ifndef TILEWRIGHT_SIM_TWIN_CORE_INSTRUCTION_H_
#define TILEWRIGHT_SIM_TWIN_CORE_INSTRUCTION_H_

#include <cstdint>
#include <cstring>

#include "hardware.h"
#include "host/machine/generated/instructions.h"

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
  uint32_t index;  // in the stream
  uint8_t unit;    // kUnits: FINISH
  uint8_t pop, push, banks;
  uint8_t memory;   // LOAD: scratchpad
  bool diagonal;    // LOAD
  bool has_data;    // LOAD
  bool has_pad;     // LOAD
  bool requant;     // VECTOR
  bool reduces;     // VECTOR: rows, of the row unit
  bool takes_long;  // VECTOR: a product or a shift
  bool param_step;  // VECTOR
  uint8_t pad_left, pad_right, pad_top, pad_bottom;
  // LOAD, STORE: the region, in DRAM bytes.
  uint32_t x_size, y_size, z_size;
  uint32_t tile_bytes;
  uint64_t dram_offset;
  uint64_t y_step, z_step;  // bytes
  uint64_t tiles;           // GEMM: products; VECTOR: tiles
  uint64_t length;          // the cycles that issue them
  uint32_t outer;           // VECTOR: outer iterations
  uint64_t pushed;          // cycle in which it entered its unit's queue
};

class Decoder {
 public:
  explicit Decoder(const Hardware& hardware);

  // The unit of an instruction, kUnits for FINISH, kNobody for an illegal opcode.
  static uint32_t UnitOf(const uint8_t* bytes) {
    switch (static_cast<isa::Opcode>(bytes[0] & 15)) {
      case isa::Opcode::kLoad:
        return kLoad;
      case isa::Opcode::kGemm:
        return kGemm;
      case isa::Opcode::kVector:
        return kVector;
      case isa::Opcode::kStore:
        return kStore;
      case isa::Opcode::kFinish:
        return kUnits;
    }
    return kNobody;
  }

  static bool IsDiagonal(const uint8_t* load) {
    constexpr uint32_t kLow = isa::load::kDiagonal.low;
    return (load[kLow / 8] >> kLow % 8 & 1) != 0;
  }

  // Fills what the instruction's unit looks at. Its opcode is legal.
  void Decode(const uint8_t* bytes, Instruction& out) const;

 private:
  uint64_t ResultWaits(const Words& words) const;

  uint32_t vector_parts_;  // of a tile
  uint32_t diagonal_bytes_;
  uint32_t int4_bytes_;     // of a WGT tile in DRAM
  uint32_t tile_bytes_[8];  // by memory
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_CORE_INSTRUCTION_H_
