// SPDX-License-Identifier: Apache-2.0
// Scratchpads and arithmetic of the accelerator in C++: what the `dpi` fidelity has in place of the
// RTL's. The RTL's control decides what happens in which cycle; sim/verilator/runtime/tw_data.sv
// tells it here. An operation takes effect in the cycle that issues it, ahead of the RTL's by the
// length of a pipeline: bank locks and tokens keep every other unit away from the operands
// meanwhile, so that all programs without races give equal results.
#ifndef TILEWRIGHT_SIM_HARNESS_DATA_PATH_H_
#define TILEWRIGHT_SIM_HARNESS_DATA_PATH_H_

#include <cstdint>
#include <vector>

#include "generated/geometry.h"

namespace tilewright {

// What VECTOR does with a tile (tw_vector's slot_e).
enum class VectorSlot : uint32_t { kWork = 0, kFetch = 1, kPut = 2 };

// A part of a tile in VECTOR; indices are tiles.
struct VectorPart {
  uint32_t operation;  // tw_pkg::vector_op_e
  uint32_t destination;
  uint32_t source;
  uint32_t operand;   // RES tile
  bool has_operand;   // RES, not the immediate
  int32_t immediate;  // requantise: clip bounds in its two bytes
  uint32_t part;
  bool lookup;  // requantise: results are looked up
  VectorSlot slot;
  bool hold;        // the operand is what was fetched
  uint32_t reduce;  // tw_pkg::reduce_e
  bool first;       // of the tiles that are reduced
  uint32_t lanes;   // channels that count; 0: all
};

class DataPath {
 public:
  // beat_bytes: width of the data bus. Memories start as zeros.
  DataPath(const Geometry& geometry, uint32_t beat_bytes);

  // LOAD: one beat (`count` tiles from `lane` on where tiles are narrower than a beat), or with
  // `pad` a whole tile of its first byte. memories: mask by memory number.
  void Load(uint32_t memories, uint32_t tile, uint32_t slice, uint32_t lane, uint32_t count,
            bool pad, const uint8_t* beat);

  // LOAD of a diagonal: beat `slice` of it, or of a longer beat the one in `lane`; `phase` is the
  // block of the tile that has it. The rows that it lies in are zero beside it.
  void LoadDiagonal(uint32_t tile, uint32_t slice, uint32_t lane, uint32_t phase,
                    const uint8_t* beat);

  // LOAD of weights of 4 bits: beat `slice` of a tile in DRAM, for two beats of the tile.
  void LoadInt4(uint32_t tile, uint32_t slice, uint32_t scale, const uint8_t* beat);

  // GEMM: acc = (fresh ? 0 : acc) + inp x wgt.
  void Gemm(uint32_t inp, uint32_t wgt, uint32_t acc, bool fresh) {
    (this->*gemm_)(inp, wgt, acc, fresh);
  }

  // VECTOR: one row of a PARAM tile into the registers; one part of a tile.
  void ReadParameters(uint32_t tile, uint32_t row);
  void Vector(const VectorPart& work);

  // STORE: the beat that it reads joins a queue, from which the bus takes them.
  void ReadOut(uint32_t tile, uint32_t slice, uint32_t lane);
  const uint8_t* FrontBeat() const { return &beats_[front_ % kBeats * kMaxBeat]; }
  void PopBeat() {
    if (front_ != back_) ++front_;
  }
  void ClearBeats() { front_ = back_ = 0; }

 private:
  static constexpr uint32_t kBeats = 16;  // more than STORE has in flight
  static constexpr uint32_t kMaxBeat = 64;

  struct Parameter {
    int64_t bias;
    int64_t m1;
    int64_t m2;
    uint32_t shift;
    int32_t zero_point;
  };

  template <uint32_t kBlockOut>
  void GemmOf(uint32_t inp, uint32_t wgt, uint32_t acc, bool fresh);
  void Requantise(const VectorPart& work, uint32_t first);
  void Compute(const VectorPart& work, uint32_t first);
  void Reduce(const VectorPart& work, uint32_t element, int32_t result);
  void Put(const VectorPart& work, uint32_t first);
  void WriteWeights(uint64_t offset, const uint8_t* bytes, uint32_t size);

  const Geometry geometry_;
  const uint32_t beat_bytes_;
  const uint32_t elements_;  // of an OUT tile
  const uint32_t lanes_;
  std::vector<int8_t> inp_;            // [tile][batch][block_in]
  std::vector<uint8_t> wgt_;           // [tile][block_in / 4][block_out][4], top bits flipped
  std::vector<int32_t> acc_;           // [tile][batch][block_out]
  std::vector<int8_t> out_;            // [tile][batch][block_out]
  std::vector<int8_t> res_;            // [tile][batch][block_out]
  std::vector<uint8_t> param_;         // [tile][block_out][16]
  std::vector<Parameter> parameters_;  // [block_out]: the registers
  std::vector<int8_t> table_;          // [256], or empty where there is none
  std::vector<int32_t> held_;          // [batch][block_out]: the operand that VECTOR holds
  std::vector<int64_t> totals_;        // [batch]: of rows that are reduced
  std::vector<uint8_t> beats_;
  uint32_t front_ = 0;
  uint32_t back_ = 0;
  void (DataPath::*gemm_)(uint32_t, uint32_t, uint32_t, bool);
};

}  // namespace tilewright

#endif  // TILEWRIGHT_SIM_HARNESS_DATA_PATH_H_
