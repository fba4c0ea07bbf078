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
      return;
    default:
      return;
  }
}

}  // namespace tilewright::twin
