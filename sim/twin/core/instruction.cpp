// SPDX-License-Identifier: Apache-2.0
#include "instruction.h"

#include <algorithm>

#include "latency.h"

namespace tilewright::twin {

Decoder::Decoder(const Hardware& hardware)
    : vector_parts_(hardware.batch * hardware.block_out / hardware.vector_lanes),
      diagonal_bytes_(std::min(hardware.block_in, hardware.block_out)),
      int4_bytes_(hardware.int4_tile_bytes) {
  const uint32_t out_tile = hardware.batch * hardware.block_out;
  tile_bytes_[0] = hardware.batch * hardware.block_in;
  tile_bytes_[1] = hardware.block_in * hardware.block_out;
  tile_bytes_[2] = 4 * out_tile;
  tile_bytes_[3] = isa::kUopBytes;
  tile_bytes_[4] = latency::kParamBytesPerChannel * hardware.block_out;
  tile_bytes_[5] = out_tile;
  tile_bytes_[6] = out_tile;
  tile_bytes_[7] = hardware.axi_bytes;
}

// Cycles in which a long operation waits for a result on its way that it reads.
uint64_t Decoder::ResultWaits(const Words& words) const {
  const auto get = [&](isa::BitField field) { return words.Get(field); };
  const uint64_t outer = get(isa::vector::kIterOuter), inner = get(isa::vector::kIterInner);
  const uint64_t dst_base = get(isa::vector::kDstBase), src_base = get(isa::vector::kSrcBase);
  const uint64_t dst_inner = get(isa::vector::kDstInner), src_inner = get(isa::vector::kSrcInner);
  const uint64_t dst_outer = get(isa::vector::kDstOuter), src_outer = get(isa::vector::kSrcOuter);
  const uint64_t opd_base = get(isa::vector::kOpdBase), opd_outer = get(isa::vector::kOpdOuter);
  const bool holds = get(isa::vector::kHold) != 0;
  // Each tile once, in place.
  if (outer == 1 && !holds && src_base == dst_base && src_inner == dst_inner && dst_inner != 0) {
    return 0;
  }
  // What is read lies before or behind what is written.
  const uint64_t dst_end = dst_base + (outer - 1) * dst_outer + (inner - 1) * dst_inner;
  const auto apart = [&](uint64_t first, uint64_t last) {
    return last < dst_base || first > dst_end;
  };
  if (apart(src_base, src_base + (outer - 1) * src_outer + (inner - 1) * src_inner) &&
      (!holds || apart(opd_base, opd_base + (outer - 1) * opd_outer))) {
    return 0;
  }
  // The last results: their tiles, and the first cycles in which these can be read.
  constexpr uint32_t kLast = latency::kLongTail;
  uint64_t tile[kLast], read_at[kLast] = {};
  uint64_t now = 0, waits = 0, results = 0;
  const auto read = [&](uint64_t address) {
    uint64_t ready = now;
    for (uint64_t i = 0; i < std::min<uint64_t>(results, kLast); i++) {
      if (tile[i] == address) ready = std::max(ready, read_at[i]);
    }
    waits += ready - now;
    now = ready;
  };
  for (uint64_t o = 0; o < outer; o++) {
    if (holds) {
      read(opd_base + o * opd_outer);
      now += vector_parts_;
    }
    for (uint64_t i = 0; i < inner; i++) {
      read(src_base + o * src_outer + i * src_inner);
      tile[results % kLast] = dst_base + o * dst_outer + i * dst_inner;
      read_at[results++ % kLast] = now + latency::kLongTail + 1;
      now += vector_parts_;
    }
  }
  return waits;
}

void Decoder::Decode(const uint8_t* bytes, Instruction& out) const {
  const Words words(bytes);
  const auto get = [&](isa::BitField field) { return static_cast<uint32_t>(words.Get(field)); };
  out.pop = static_cast<uint8_t>(get(isa::header::kPop));
  out.push = static_cast<uint8_t>(get(isa::header::kPush));
  out.banks = static_cast<uint8_t>(get(isa::header::kAccBanks));
  out.unit = static_cast<uint8_t>(UnitOf(bytes));
  switch (out.unit) {
    case kLoad:
      out.memory = static_cast<uint8_t>(get(isa::load::kMemory));
      out.diagonal = get(isa::load::kDiagonal) != 0;
      out.tile_bytes = out.diagonal                 ? diagonal_bytes_
                       : get(isa::load::kInt4) != 0 ? int4_bytes_
                                                    : tile_bytes_[out.memory];
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
      return;
    case kStore:
      out.tile_bytes = tile_bytes_[static_cast<uint32_t>(isa::Memory::kOut)];
      out.dram_offset = words.Get(isa::store::kDramOffset);
      out.x_size = get(isa::store::kXSize);
      out.y_size = get(isa::store::kYSize);
      out.z_size = get(isa::store::kZSize);
      out.y_step = uint64_t{get(isa::store::kYStride)} * out.tile_bytes;
      out.z_step = uint64_t{get(isa::store::kZStride)} * out.tile_bytes;
      return;
    case kGemm:
      out.tiles = out.length = uint64_t{get(isa::gemm::kUopCount)} * get(isa::gemm::kIterOuter) *
                               get(isa::gemm::kIterInner);
      return;
    case kVector:
      out.outer = get(isa::vector::kIterOuter);
      out.reduces = get(isa::vector::kReduce) != 0;
      // A held operand and a reduced row take a tile's time each, once per outer iteration.
      out.tiles = uint64_t{out.outer} *
                  (uint64_t{get(isa::vector::kIterInner)} + get(isa::vector::kHold) + out.reduces);
      out.length = out.tiles * vector_parts_;
      out.requant = static_cast<isa::VectorOp>(get(isa::vector::kOp)) == isa::VectorOp::kRequant;
      out.param_step = get(isa::vector::kParamStep) != 0;
      switch (static_cast<isa::VectorOp>(get(isa::vector::kOp))) {
        case isa::VectorOp::kMul:
        case isa::VectorOp::kShr:
        case isa::VectorOp::kSquare:
        case isa::VectorOp::kExp2:
          out.takes_long = true;
          if (!out.reduces) out.length += ResultWaits(words);
          break;
        default:
          out.takes_long = false;
      }
      return;
    default:
      return;
  }
}

}  // namespace tilewright::twin
