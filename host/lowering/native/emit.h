// SPDX-License-Identifier: Apache-2.0
// From a plan to instructions, as host/lowering/emit.py.
#ifndef TILEWRIGHT_HOST_LOWERING_NATIVE_EMIT_H_
#define TILEWRIGHT_HOST_LOWERING_NATIVE_EMIT_H_

#include <cstdint>
#include <vector>

#include "plan.h"
#include "tokens.h"
#include "walk.h"

namespace tilewright::lowering {

// Emits the program of one plan after another; keeps its buffers in between.
//
// Emission of an item: the epilogue's loads, the operand loads of the next item (unless they
// overwrite what this item still reads: then after its GEMM), GEMM, VECTOR, STORE.
class Emitter {
 public:
  // Throws std::logic_error on a value that does not fit its field.
  void Emit(const Plan& plan, Clip clip, Lowered& lowered);

 private:
  struct Load {
    RawInstruction instruction;
    int32_t writes;
  };

  // An item whose operands have slots: what its GEMM needs, and the loads before it.
  struct Ready {
    Item item;
    ChannelTile channels;
    size_t shapes;  // index of its GEMM words, before the kind of run
    int32_t inp_slot;
    int32_t wgt_slot;
    std::vector<Load> loads;
  };

  // A GEMM of one shape of tile, without bases.
  struct GemmWord {
    RawInstruction instruction;
    int64_t macs;
    int32_t kernel;  // resource of its micro-ops
    bool made;
  };

  // Micro-ops that lie in UOP.
  struct Placed {
    int64_t begin;
    int64_t length;  // 0: not there yet
  };

  void Start(const Plan& plan, Clip clip, Lowered& lowered);
  void Finish();
  void Prepare(Ready& ready);
  void EmitLoads(const Ready& ready);
  void PlaceInput(Ready& ready, const Item& item, const ChannelTile& channels, int32_t& slot_out);
  void LoadInput(Ready& ready, const Item& item, const ChannelTile& channels, int32_t slot);
  void PlaceWeights(Ready& ready, const Item& item, const ChannelTile& channels, int32_t& slot_out);
  int64_t ResidentSlot(const Item& item) const;
  int64_t InpBase(int32_t slot) const;
  int64_t WgtBase(int32_t slot) const;
  void MakeGemmWord(size_t index, std::vector<Load>& loads);
  void Compute(const Ready& ready, const Ready* late);
  void EpilogueLoads(const Ready& ready);
  void Epilogue(const Ready& ready, int64_t first, int64_t count, int64_t pixels);
  void Vector(const Ready& ready, const Part& part, int64_t first, int64_t count, int64_t pixels);
  static RawInstruction& AddLoad(std::vector<Load>& loads, isa::Memory memory, int32_t writes);
  void SetLoadBox(RawInstruction& load, const Box& box);
  template <typename Visit>
  void ForEachOutBox(const Ready& ready, const Part& part, Visit visit) const;

  // Numbers of resources.
  int32_t InpKey(int64_t slot) const { return static_cast<int32_t>(slot); }
  int32_t WgtKey(int64_t slot) const { return static_cast<int32_t>(wgt_keys_ + slot); }
  int32_t ParamKey(int64_t slot) const { return static_cast<int32_t>(param_keys_ + slot); }
  int32_t ResKey(int64_t context) const { return static_cast<int32_t>(res_keys_ + context); }
  int32_t KernelKey(int64_t kernel) const { return static_cast<int32_t>(kernel_keys_ + kernel); }
  int32_t AccKey(const Item& item, int64_t block) const {
    return static_cast<int32_t>(acc_keys_ + item.context * keys_a_context_ + block);
  }
  // A part's place in OUT: one resource is enough where places of different tiles are equal or
  // disjoint.
  TokenStream::Range OutKeys(const Item& item, const Part& part) const {
    const int64_t first = out_keys_ + item.context * out_keys_a_context_ + part.first;
    const int64_t count = plan_->OutInterleaved() ? part.blocks : 1;
    return {static_cast<int32_t>(first), static_cast<int32_t>(count)};
  }

  const Plan* plan_ = nullptr;
  Lowered* lowered_ = nullptr;
  TokenStream stream_;
  FieldWriter fields_;
  Walk walk_;
  Residency inp_, wgt_;
  std::vector<int64_t> params_;  // co tile whose parameters a slot holds; -1: none
  std::vector<GemmWord> gemm_words_;
  std::vector<Placed> placed_;
  Ready ready_[2];
  int64_t prefetched_ = 0;  // of the walk's upcoming tiles

  // Constants of the program.
  int64_t inp_bytes_ = 0, wgt_bytes_ = 0, out_bytes_ = 0, param_bytes_ = 0;  // of a tile in DRAM
  int64_t inp_stride_ = 0, inp_step_ = 0, wgt_stride_ = 0, wgt_step_ = 0;    // of slots
  int64_t out_region_ = 0, res_region_ = 0;                                  // of a context
  int64_t wgt_keys_ = 0, param_keys_ = 0, res_keys_ = 0, kernel_keys_ = 0, acc_keys_ = 0,
          out_keys_ = 0, keys_a_context_ = 1, out_keys_a_context_ = 1;
  RawInstruction vector_{};  // the fields that all VECTOR instructions share
};

}  // namespace tilewright::lowering

#endif  // TILEWRIGHT_HOST_LOWERING_NATIVE_EMIT_H_
