// SPDX-License-Identifier: Apache-2.0
#include "data_path.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
#include <immintrin.h>
#endif

#include "generated/tilewright_isa.h"
#include "host/machine/generated/instructions.h"

namespace tilewright {
namespace {

// Weights are kept with an offset of 128, unsigned, as vector instructions multiply int8 by uint8.
constexpr uint8_t kFlip = 0x80;
constexpr uint32_t kParameterBytes = 16;

using isa::Memory;
using isa::VectorOp;

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
// Products of groups of four channels for `kWidth` output channels.
template <uint32_t kWidth>
struct Lanes;
template <>
struct Lanes<4> {
  using Vector = __m128i;
  static Vector Zero() { return _mm_setzero_si128(); }
  static Vector Load(const void* p) { return _mm_loadu_si128(static_cast<const Vector*>(p)); }
  static void Store(void* p, Vector v) { _mm_storeu_si128(static_cast<Vector*>(p), v); }
  static Vector Broadcast(int32_t x) { return _mm_set1_epi32(x); }
  static Vector Subtract(Vector a, Vector b) { return _mm_sub_epi32(a, b); }
  static Vector Dot(Vector s, Vector w, Vector x) { return _mm_dpbusd_epi32(s, w, x); }
};
template <>
struct Lanes<8> {
  using Vector = __m256i;
  static Vector Zero() { return _mm256_setzero_si256(); }
  static Vector Load(const void* p) { return _mm256_loadu_si256(static_cast<const Vector*>(p)); }
  static void Store(void* p, Vector v) { _mm256_storeu_si256(static_cast<Vector*>(p), v); }
  static Vector Broadcast(int32_t x) { return _mm256_set1_epi32(x); }
  static Vector Subtract(Vector a, Vector b) { return _mm256_sub_epi32(a, b); }
  static Vector Dot(Vector s, Vector w, Vector x) { return _mm256_dpbusd_epi32(s, w, x); }
};
template <>
struct Lanes<16> {
  using Vector = __m512i;
  static Vector Zero() { return _mm512_setzero_si512(); }
  static Vector Load(const void* p) { return _mm512_loadu_si512(p); }
  static void Store(void* p, Vector v) { _mm512_storeu_si512(p, v); }
  static Vector Broadcast(int32_t x) { return _mm512_set1_epi32(x); }
  static Vector Subtract(Vector a, Vector b) { return _mm512_sub_epi32(a, b); }
  static Vector Dot(Vector s, Vector w, Vector x) { return _mm512_dpbusd_epi32(s, w, x); }
};

// acc[o] = (fresh ? 0 : acc[o]) + sum of row[i] * (weight[i][o] - 128).
template <uint32_t kBlockOut>
void MultiplyRow(const int8_t* row, const uint8_t* weights, int32_t* acc, uint32_t groups,
                 bool fresh) {
  using L = Lanes<(kBlockOut < 16 ? kBlockOut : 16)>;
  constexpr uint32_t kVectors = kBlockOut < 16 ? 1 : kBlockOut / 16;
  constexpr uint32_t kWidth = kBlockOut / kVectors;
  typename L::Vector sum[kVectors];
  typename L::Vector excess = L::Zero();
  const typename L::Vector offset = L::Broadcast(static_cast<int32_t>(0x80808080u));
  for (uint32_t v = 0; v < kVectors; ++v) sum[v] = fresh ? L::Zero() : L::Load(acc + v * kWidth);
  for (uint32_t g = 0; g < groups; ++g) {
    int32_t four;
    std::memcpy(&four, row + 4 * g, sizeof four);
    const typename L::Vector x = L::Broadcast(four);
    excess = L::Dot(excess, offset, x);
    for (uint32_t v = 0; v < kVectors; ++v) {
      sum[v] = L::Dot(sum[v], L::Load(weights + 4 * (g * kBlockOut + v * kWidth)), x);
    }
  }
  for (uint32_t v = 0; v < kVectors; ++v) L::Store(acc + v * kWidth, L::Subtract(sum[v], excess));
}
#else
template <uint32_t kBlockOut>
void MultiplyRow(const int8_t* row, const uint8_t* weights, int32_t* acc, uint32_t groups,
                 bool fresh) {
  uint32_t sum[kBlockOut];
  for (uint32_t o = 0; o < kBlockOut; ++o) sum[o] = fresh ? 0 : static_cast<uint32_t>(acc[o]);
  for (uint32_t g = 0; g < groups; ++g) {
    const int8_t* x = row + 4 * g;
    const uint8_t* w = weights + 4 * g * kBlockOut;
    for (uint32_t o = 0; o < kBlockOut; ++o) {
      int32_t dot = 0;
      for (uint32_t k = 0; k < 4; ++k) dot += x[k] * static_cast<int8_t>(w[4 * o + k] ^ kFlip);
      sum[o] += static_cast<uint32_t>(dot);
    }
  }
  for (uint32_t o = 0; o < kBlockOut; ++o) acc[o] = static_cast<int32_t>(sum[o]);
}
#endif

int32_t Saturated(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(),
                                                  std::numeric_limits<int32_t>::max()));
}

// The lowest bits, as a signed number.
int64_t LowBits(int64_t value, uint32_t bits) {
  return static_cast<int64_t>(static_cast<uint64_t>(value) << (64 - bits)) >> (64 - bits);
}

// host/network/row_arithmetic.py: exp2 and log2.
int32_t Exp2(int32_t exponent) {
  if (exponent < 0) return 0;
  const uint32_t a = std::min<uint32_t>(exponent, (31u << 16) - 1);
  const uint32_t index = (a & 0xffff) >> (16 - isa::kExp2High - isa::kExp2Middle - isa::kExp2Low);
  const uint32_t low = index & ((1u << isa::kExp2Low) - 1);
  const uint32_t high = index >> (isa::kExp2Middle + isa::kExp2Low);
  const uint32_t power =
      isa::kExp2Coarse[index >> isa::kExp2Low] + isa::kExp2Fine[(high << isa::kExp2Low) + low];
  return static_cast<int32_t>((power << 16) >> (30 - (a >> 16)));
}

int32_t Log2(int64_t value) {
  if (value < 2) return 0;
  const int leading = 63 - __builtin_clzll(static_cast<uint64_t>(value));
  const uint64_t fraction = static_cast<uint64_t>(value) << (64 - leading);
  const auto index =
      static_cast<uint32_t>(fraction >> (64 - isa::kLog2High - isa::kLog2Middle - isa::kLog2Low));
  const uint32_t low = index & ((1u << isa::kLog2Low) - 1);
  const uint32_t high = index >> (isa::kLog2Middle + isa::kLog2Low);
  return (leading << 16) + isa::kLog2Coarse[index >> isa::kLog2Low] +
         isa::kLog2Fine[(high << isa::kLog2Low) + low];
}

template <typename T>
T ReadAs(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <typename T>
std::vector<T> Zeros(uint32_t tiles, uint32_t tile_shift) {
  return std::vector<T>((static_cast<size_t>(tiles) << tile_shift) / sizeof(T));
}

}  // namespace

DataPath::DataPath(const Geometry& geometry, uint32_t beat_bytes)
    : geometry_(geometry),
      beat_bytes_(beat_bytes),
      elements_(geometry.batch * geometry.block_out),
      lanes_(elements_ / geometry.vector_parts),
      inp_(Zeros<int8_t>(geometry.inp_depth, geometry.inp_shift)),
      wgt_(Zeros<uint8_t>(geometry.wgt_depth, geometry.wgt_shift)),
      acc_(Zeros<int32_t>(geometry.acc_depth, geometry.acc_shift)),
      out_(Zeros<int8_t>(geometry.out_depth, geometry.out_shift)),
      res_(Zeros<int8_t>(geometry.res_depth, geometry.out_shift)),
      param_(Zeros<uint8_t>(geometry.par_depth, geometry.par_shift)),
      parameters_(geometry.block_out),
      table_(geometry.table_depth * isa::kTableRowEntries),
      held_(elements_),
      totals_(geometry.batch),
      beats_(kBeats * kMaxBeat) {
  std::fill(wgt_.begin(), wgt_.end(), kFlip);
  switch (geometry.block_out) {
    case 4:
      gemm_ = &DataPath::GemmOf<4>;
      break;
    case 8:
      gemm_ = &DataPath::GemmOf<8>;
      break;
    case 16:
      gemm_ = &DataPath::GemmOf<16>;
      break;
    case 32:
      gemm_ = &DataPath::GemmOf<32>;
      break;
    case 64:
      gemm_ = &DataPath::GemmOf<64>;
      break;
    default:
      throw std::invalid_argument("block_out must be a power of two from 4 to 64");
  }
}

void DataPath::Load(uint32_t memories, uint32_t tile, uint32_t slice, uint32_t lane, uint32_t count,
                    bool pad, const uint8_t* beat) {
  const auto write = [&](Memory memory, uint32_t tile_shift, uint8_t* bytes, bool weights) {
    if (!((memories >> static_cast<uint32_t>(memory)) & 1)) return;
    const uint32_t tile_bytes = 1u << tile_shift;
    uint64_t offset = static_cast<uint64_t>(tile) << tile_shift;
    uint32_t size = beat_bytes_;
    const uint8_t* source = beat;
    uint32_t repeats = 1;
    if (tile_bytes < beat_bytes_) {
      source += lane << tile_shift;
      size = count << tile_shift;
    } else if (pad) {
      repeats = tile_bytes / beat_bytes_;
    } else {
      offset += static_cast<uint64_t>(slice) * beat_bytes_;
    }
    for (uint32_t r = 0; r < repeats; ++r, offset += size) {
      if (weights) {
        WriteWeights(offset, source, size);
      } else {
        std::memcpy(bytes + offset, source, size);
      }
    }
  };
  write(Memory::kInp, geometry_.inp_shift, reinterpret_cast<uint8_t*>(inp_.data()), false);
  write(Memory::kWgt, geometry_.wgt_shift, wgt_.data(), true);
  write(Memory::kAcc, geometry_.acc_shift, reinterpret_cast<uint8_t*>(acc_.data()), false);
  write(Memory::kParam, geometry_.par_shift, param_.data(), false);
  write(Memory::kRes, geometry_.out_shift, reinterpret_cast<uint8_t*>(res_.data()), false);
  if ((memories >> static_cast<uint32_t>(Memory::kTable)) & 1) {
    std::memcpy(&table_[tile * isa::kTableRowEntries], beat, isa::kTableRowEntries);
  }
}

void DataPath::WriteWeights(uint64_t offset, const uint8_t* bytes, uint32_t size) {
  const uint32_t mask = (1u << geometry_.wgt_shift) - 1;
  for (uint32_t i = 0; i < size; i += 4) {
    uint8_t* tile = &wgt_[(offset + i) & ~static_cast<uint64_t>(mask)];
    const uint32_t within = static_cast<uint32_t>(offset + i) & mask;
    const uint32_t row = within / geometry_.block_in;
    const uint32_t group = within % geometry_.block_in / 4;
    const uint32_t four = ReadAs<uint32_t>(bytes + i) ^ 0x80808080u;
    std::memcpy(tile + 4 * (group * geometry_.block_out + row), &four, sizeof four);
  }
}

void DataPath::LoadDiagonal(uint32_t tile, uint32_t slice, uint32_t lane, uint32_t phase,
                            const uint8_t* beat) {
  const uint32_t length = 1u << geometry_.diag_shift;
  const uint32_t part = std::min(length, beat_bytes_);
  const uint32_t blocks_in = geometry_.block_in / length;
  const uint32_t block = phase % (blocks_in * (geometry_.block_out / length));
  const uint8_t* bytes = length < beat_bytes_ ? beat + lane * length : beat;
  for (uint32_t row = 0; row < geometry_.block_out; ++row) {
    if (row % length / part != slice) continue;
    uint8_t line[64] = {};                               // block_in bytes
    const uint32_t block_column = block - row / length;  // wraps where it is not in this row
    if (block_column < blocks_in) line[block_column * length + row % length] = bytes[row % part];
    const uint64_t offset = (static_cast<uint64_t>(tile) << geometry_.wgt_shift) +
                            static_cast<uint64_t>(row) * geometry_.block_in;
    WriteWeights(offset, line, geometry_.block_in);
  }
}

void DataPath::LoadInt4(uint32_t tile, uint32_t slice, uint32_t scale, const uint8_t* beat) {
  const auto scaled = [scale](uint8_t bits) {
    return static_cast<uint8_t>(LowBits(bits, 4) * static_cast<int32_t>(scale + 1));
  };
  uint8_t weights[2 * kMaxBeat];
  for (uint32_t i = 0; i < beat_bytes_; ++i) {
    weights[2 * i] = scaled(beat[i]);
    weights[2 * i + 1] = scaled(beat[i] >> 4);
  }
  const uint64_t offset = (static_cast<uint64_t>(tile) << geometry_.wgt_shift) +
                          static_cast<uint64_t>(slice) * 2 * beat_bytes_;
  WriteWeights(offset, weights, 2 * beat_bytes_);
}

template <uint32_t kBlockOut>
void DataPath::GemmOf(uint32_t inp, uint32_t wgt, uint32_t acc, bool fresh) {
  const int8_t* row = &inp_[static_cast<size_t>(inp) << geometry_.inp_shift];
  const uint8_t* weights = &wgt_[static_cast<size_t>(wgt) << geometry_.wgt_shift];
  int32_t* sums = &acc_[static_cast<size_t>(acc) * elements_];
  for (uint32_t b = 0; b < geometry_.batch; ++b) {
    MultiplyRow<kBlockOut>(row, weights, sums, geometry_.block_in / 4, fresh);
    row += geometry_.block_in;
    sums += kBlockOut;
  }
}

void DataPath::ReadParameters(uint32_t tile, uint32_t row) {
  const uint32_t channels = geometry_.block_out / geometry_.par_rows;
  const uint8_t* bytes = &param_[(static_cast<size_t>(tile) << geometry_.par_shift) +
                                 static_cast<size_t>(row) * channels * kParameterBytes];
  for (uint32_t c = 0; c < channels; ++c, bytes += kParameterBytes) {
    parameters_[row * channels + c] = {ReadAs<int32_t>(bytes), ReadAs<int16_t>(bytes + 4),
                                       ReadAs<int16_t>(bytes + 6), bytes[8] & 0x3fu,
                                       ReadAs<int8_t>(bytes + 9)};
  }
}

void DataPath::Vector(const VectorPart& work) {
  const uint32_t first = work.part * lanes_;
  if (work.slot == VectorSlot::kFetch) {
    const int32_t* source = &acc_[static_cast<size_t>(work.source) * elements_];
    std::copy(source + first, source + first + lanes_, &held_[first]);
  } else if (work.slot == VectorSlot::kPut) {
    Put(work, first);
  } else if (work.operation == static_cast<uint32_t>(VectorOp::kRequant)) {
    Requantise(work, first);
  } else {
    Compute(work, first);
  }
}

void DataPath::Compute(const VectorPart& work, uint32_t first) {
  const auto operation = static_cast<VectorOp>(work.operation);
  const int8_t* operand =
      &res_[static_cast<size_t>(work.has_operand ? work.operand : 0) * elements_];
  const bool reads = operation != VectorOp::kMov;
  const int32_t* source = &acc_[static_cast<size_t>(reads ? work.source : 0) * elements_];
  int32_t* target = &acc_[static_cast<size_t>(work.destination) * elements_];
  for (uint32_t e = first; e < first + lanes_; ++e) {
    const int32_t a = source[e];
    const int32_t b = work.hold ? held_[e] : work.has_operand ? operand[e] : work.immediate;
    int32_t result = b;
    switch (operation) {
      case VectorOp::kMin:
        result = std::min(a, b);
        break;
      case VectorOp::kMax:
        result = std::max(a, b);
        break;
      case VectorOp::kAdd:
        result = Saturated(static_cast<int64_t>(a) + b);
        break;
      case VectorOp::kMul:
        result = Saturated(a * LowBits(b, isa::kHeldBits));
        break;
      case VectorOp::kSub:
        result = Saturated(static_cast<int64_t>(a) - b);
        break;
      case VectorOp::kSquare:
        result = Saturated(a * LowBits(a, isa::kHeldBits));
        break;
      case VectorOp::kExp2:
        result = Exp2(a);
        break;
      case VectorOp::kShr:
        result = a >> std::clamp(b, 0, 31);
        break;
      default:
        break;
    }
    if (work.reduce != 0) {
      Reduce(work, e, result);
    } else {
      target[e] = result;
    }
  }
}

void DataPath::Reduce(const VectorPart& work, uint32_t element, int32_t result) {
  const bool maximum = work.reduce == static_cast<uint32_t>(isa::Reduce::kMax);
  const uint32_t channel = element % geometry_.block_out;
  int64_t& total = totals_[element / geometry_.block_out];
  if (work.first && channel == 0) total = maximum ? std::numeric_limits<int32_t>::min() : 0;
  if (work.lanes != 0 && channel >= work.lanes) return;
  total = maximum ? std::max<int64_t>(total, result) : total + result;
}

void DataPath::Put(const VectorPart& work, uint32_t first) {
  int32_t* target = &acc_[static_cast<size_t>(work.destination) * elements_];
  const bool log = work.reduce == static_cast<uint32_t>(isa::Reduce::kLogSum);
  for (uint32_t e = first; e < first + lanes_; ++e) {
    const int64_t total = LowBits(totals_[e / geometry_.block_out], isa::kSumBits);
    target[e] = log ? Log2(total) : Saturated(total);
  }
}

void DataPath::Requantise(const VectorPart& work, uint32_t first) {
  const int32_t* source = &acc_[static_cast<size_t>(work.source) * elements_];
  const int8_t* operand =
      &res_[static_cast<size_t>(work.has_operand ? work.operand : 0) * elements_];
  int8_t* target = &out_[static_cast<size_t>(work.destination) * elements_];
  const int64_t low = static_cast<int8_t>(work.immediate);
  const int64_t high = static_cast<int8_t>(work.immediate >> 8);
  for (uint32_t e = first; e < first + lanes_; ++e) {
    const Parameter& p = parameters_[e % geometry_.block_out];
    const int64_t residual = work.has_operand ? operand[e] : 0;
    const int64_t total =
        (source[e] + p.bias) * p.m1 + residual * p.m2 * (int64_t{1} << kResidualShift);
    // Round half to even: the quotient with one more bit, and whether any lower bit is set.
    const int64_t scaled = (total * 2) >> p.shift;
    const uint64_t under = p.shift > 1 ? (uint64_t{1} << (p.shift - 1)) - 1 : 0;
    const bool rest = (static_cast<uint64_t>(total) & under) != 0;
    const int64_t quotient = scaled >> 1;
    const int64_t rounded = quotient + ((scaled & 1) && ((quotient & 1) || rest));
    target[e] = static_cast<int8_t>(std::min(high, std::max(low, rounded + p.zero_point)));
    if (work.lookup) target[e] = table_[static_cast<uint8_t>(target[e])];
  }
}

void DataPath::ReadOut(uint32_t tile, uint32_t slice, uint32_t lane) {
  uint8_t* beat = &beats_[back_++ % kBeats * kMaxBeat];
  const auto* out = reinterpret_cast<const uint8_t*>(out_.data());
  const uint32_t tile_bytes = 1u << geometry_.out_shift;
  const size_t offset = static_cast<size_t>(tile) << geometry_.out_shift;
  if (tile_bytes >= beat_bytes_) {
    std::memcpy(beat, out + offset + static_cast<size_t>(slice) * beat_bytes_, beat_bytes_);
    return;
  }
  const size_t start = static_cast<size_t>(lane) << geometry_.out_shift;
  const size_t size = std::min<size_t>(beat_bytes_ - start, out_.size() - offset);
  std::memcpy(beat + start, out + offset, size);
}

}  // namespace tilewright
