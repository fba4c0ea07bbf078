// SPDX-License-Identifier: Apache-2.0
#include "emit.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace tilewright::lowering {

using isa::Memory;
using isa::Opcode;
using isa::Unit;

namespace {

RawInstruction BlankLoad(Memory memory) {
  RawInstruction load = BlankInstruction(Opcode::kLoad);
  load.word[0] |= static_cast<uint64_t>(memory) << isa::load::kMemory.low;
  return load;
}

}  // namespace

void Emitter::Emit(const Plan& plan, Clip clip, Lowered& lowered) {
  Start(plan, clip, lowered);
  Ready* ready = &ready_[0];
  Ready* following = &ready_[1];
  walk_.Next(ready->item);
  Prepare(*ready);
  EmitLoads(*ready);
  for (;;) {
    if (ready->item.last) EpilogueLoads(*ready);
    const Ready* late = nullptr;
    const bool more = walk_.Next(following->item);
    if (more) {
      Prepare(*following);
      for (const Load& load : following->loads) {
        if (load.writes == InpKey(ready->inp_slot) || load.writes == WgtKey(ready->wgt_slot)) {
          late = following;
        }
      }
      if (late == nullptr) EmitLoads(*following);
    }
    Compute(*ready, late);
    if (!more) break;
    std::swap(ready, following);
  }
  Finish();
}

void Emitter::Start(const Plan& plan, Clip clip, Lowered& lowered) {
  plan_ = &plan;
  lowered_ = &lowered;
  const Hardware& hw = plan.hw;
  const Schedule& schedule = plan.schedule;
  const int64_t steps = plan.ci_tiles.count;
  inp_bytes_ = int64_t{hw.batch} * hw.block_in;
  wgt_bytes_ = plan.StoredWgtTile();
  out_bytes_ = int64_t{hw.batch} * hw.block_out;
  param_bytes_ = int64_t{hw.block_out} * isa::kParamBytesPerChannel;
  out_region_ = hw.out_depth / plan.contexts;
  res_region_ = hw.res_depth / plan.contexts;

  // A slot holds one operand tile, or a step's part of a resident set.
  if (plan.inp_copies != 0) {
    inp_.Reset(plan.inp_copies * plan.inp_members * steps);
    inp_stride_ = plan.InpSet();
    inp_step_ = schedule.tile_b * plan.rows.loaded * plan.columns.loaded;
  } else {
    inp_.Reset(plan.inp_slots);
    inp_stride_ = plan.InpTile();
  }
  if (plan.wgt_copies != 0) {
    wgt_.Reset(plan.wgt_copies * plan.wgt_members * steps);
    wgt_stride_ = plan.WgtSet();
    wgt_step_ = schedule.tile_co * plan.taps;
  } else {
    wgt_.Reset(plan.wgt_slots);
    wgt_stride_ = plan.WgtTile();
  }
  params_.assign(static_cast<size_t>(plan.param_slots), -1);
  gemm_words_.assign(plan.ShapeCount(), GemmWord{});
  placed_.assign(plan.kernels.size(), Placed{});

  wgt_keys_ = inp_.slots();
  param_keys_ = wgt_keys_ + wgt_.slots();
  res_keys_ = param_keys_ + plan.param_slots;
  kernel_keys_ = res_keys_ + plan.contexts;
  acc_keys_ = kernel_keys_ + static_cast<int64_t>(plan.kernels.size());
  keys_a_context_ = plan.by_block ? schedule.tile_co : 1;
  out_keys_ = acc_keys_ + plan.contexts * keys_a_context_;
  out_keys_a_context_ = plan.OutInterleaved() ? schedule.tile_co : keys_a_context_;
  const int64_t resources = out_keys_ + plan.contexts * out_keys_a_context_;
  stream_.Reset(&lowered.instructions, static_cast<size_t>(resources));
  fields_.Reset();

  lowered.uops.clear();
  lowered.macs_tiles = lowered.bytes_read = lowered.bytes_written = 0;
  vector_ = BlankInstruction(Opcode::kVector);
  fields_.Set(vector_, isa::vector::kOp, static_cast<int64_t>(isa::VectorOp::kRequant));
  fields_.Set(vector_, isa::vector::kParamStep, 1);
  fields_.Set(vector_, isa::vector::kImm, (clip.high & 0xFF) << 8 | (clip.low & 0xFF));
  fields_.Set(vector_, isa::vector::kSrcInner, 1);
  if (plan.layer.residual) {
    fields_.Set(vector_, isa::vector::kOperand, static_cast<int64_t>(isa::Operand::kRes));
  }
  prefetched_ = 0;
  walk_.Start(plan);
}

void Emitter::Finish() {
  Lowered& lowered = *lowered_;
  if (fields_.overflowed()) throw std::logic_error("a value does not fit its instruction field");
  lowered.instructions.push_back(BlankInstruction(Opcode::kFinish));
  int64_t end = plan_->regions_end;
  std::copy(plan_->regions, plan_->regions + kUopRegion, lowered.regions);
  const auto uops = static_cast<int64_t>(lowered.uops.size());
  const auto instructions = static_cast<int64_t>(lowered.instructions.size());
  lowered.regions[kUopRegion] = PlaceRegion(uops * isa::kUopBytes, end);
  lowered.regions[kInsnRegion] = PlaceRegion(instructions * isa::kInstructionBytes, end);
  lowered.memory_bytes = end;
}

// -- operands -------------------------------------------------------------------------------------

// Gives the walk's last item slots for its operands; collects the loads that this takes, and those
// of stationary tiles of the next group, spread evenly over this one after its first item: until
// then their set may still be in use.
void Emitter::Prepare(Ready& ready) {
  const Plan& plan = *plan_;
  const Item& item = ready.item;
  ready.channels = plan.Channels(item.co);
  ready.loads.clear();
  ready.shapes =
      plan.ShapeIndex(plan.batch_tiles.Variant(item.batch), plan.rows.tiling.Variant(item.row),
                      plan.columns.tiling.Variant(item.column), plan.ci_tiles.Variant(item.ci), 0);
  int64_t last_count = 0;
  plan.ForEachRun(ready.channels, [&](const Run& run) {
    if (run.count == last_count) return;  // the same kernel
    last_count = run.count;
    const size_t index = ready.shapes + plan.KindIndex(run.count, ready.channels.inp_count);
    if (!gemm_words_[index].made) MakeGemmWord(index, ready.loads);
  });
  PlaceInput(ready, item, ready.channels, ready.inp_slot);
  PlaceWeights(ready, item, ready.channels, ready.wgt_slot);
  const int64_t upcoming = walk_.upcoming();
  if (walk_.position() == 0) prefetched_ = 0;
  if (upcoming == 0 || walk_.position() == 0) return;
  const int64_t room = walk_.outer_items() - 1;
  while (prefetched_ < upcoming && 1 + prefetched_ * room / upcoming == walk_.position()) {
    const Item ahead = walk_.Upcoming(prefetched_++);
    const ChannelTile channels = plan.Channels(ahead.co);
    int32_t slot = 0;
    if (plan.wgt_copies != 0) {
      PlaceWeights(ready, ahead, channels, slot);
    } else {
      PlaceInput(ready, ahead, channels, slot);
    }
  }
}

void Emitter::EmitLoads(const Ready& ready) {
  for (const Load& load : ready.loads) stream_.Emit(Unit::kLoad, load.instruction, {}, load.writes);
}

RawInstruction& Emitter::AddLoad(std::vector<Load>& loads, Memory memory, int32_t writes) {
  Load& load = loads.emplace_back();
  load.instruction = BlankLoad(memory);
  load.writes = writes;
  return load.instruction;
}

// The slot of the item's stationary operand (weights or inputs, as the plan says).
int64_t Emitter::ResidentSlot(const Item& item) const {
  const Plan& plan = *plan_;
  const int64_t member =
      plan.wgt_copies != 0
          ? (plan.wgt_copies == 2 ? item.outer & 1 : 0) * plan.wgt_members + item.co_member
          : (plan.inp_copies == 2 ? item.outer & 1 : 0) * plan.inp_members + item.row_member;
  return member * plan.ci_tiles.count + item.ci;
}

int64_t Emitter::InpBase(int32_t slot) const {
  if (plan_->inp_copies == 0) return slot * inp_stride_;
  const int64_t steps = plan_->ci_tiles.count;
  return slot / steps * inp_stride_ + plan_->ci_tiles.First(slot % steps) * inp_step_;
}

int64_t Emitter::WgtBase(int32_t slot) const {
  if (plan_->wgt_copies == 0) return slot * wgt_stride_;
  const int64_t steps = plan_->ci_tiles.count;
  return slot / steps * wgt_stride_ + plan_->ci_tiles.First(slot % steps) * wgt_step_;
}

void Emitter::SetLoadBox(RawInstruction& load, const Box& box) {
  fields_.Set(load, isa::load::kXSize, box.x_size);
  fields_.Set(load, isa::load::kYSize, box.y_size);
  fields_.Set(load, isa::load::kZSize, box.z_size);
  fields_.Set(load, isa::load::kYStride, box.y_stride);
  fields_.Set(load, isa::load::kZStride, box.z_stride);
}

void Emitter::PlaceInput(Ready& ready, const Item& item, const ChannelTile& channels,
                         int32_t& slot_out) {
  const Plan& plan = *plan_;
  const int64_t parts = plan.layer.depthwise ? plan.co_tiles.count : plan.ci_tiles.count;
  const int64_t image =
      (item.batch * plan.rows.tiling.count + item.row) * plan.columns.tiling.count + item.column;
  const int64_t tile = image * parts + (plan.layer.depthwise ? item.co : item.ci);
  int64_t slot = 0;
  bool fresh = false;
  if (plan.inp_copies != 0) {
    slot = ResidentSlot(item);
    fresh = inp_.Place(slot, tile);
  } else {
    std::tie(slot, fresh) = inp_.Stream(tile);
  }
  slot_out = static_cast<int32_t>(slot);
  if (fresh) LoadInput(ready, item, channels, slot_out);
}

// LOADs of an input tile: all batch tiles at once if their blocks are contiguous.
void Emitter::LoadInput(Ready& ready, const Item& item, const ChannelTile& channels, int32_t slot) {
  const Plan& plan = *plan_;
  const Layer& layer = plan.layer;
  const int64_t first = layer.depthwise ? channels.inp_first : plan.ci_tiles.First(item.ci);
  const int64_t count = layer.depthwise ? channels.inp_count : plan.ci_tiles.Size(item.ci);
  const int64_t interleave = layer.inp_interleave;
  int64_t planes = (count + interleave - 1) >> plan.inp_interleave_shift;
  const int64_t batch = plan.batch_tiles.First(item.batch);
  int64_t batches = plan.batch_tiles.Size(item.batch);
  const Span& row = plan.rows.tiles[static_cast<size_t>(item.row)];
  const Span& column = plan.columns.tiles[static_cast<size_t>(item.column)];
  if (planes == plan.in_planes && batches * planes <= kRowMax) {
    planes *= batches;
    batches = 1;
  }
  const int64_t line = layer.width * interleave;
  const PaddedBox padded =
      InputBox(row, column, planes, layer.row_step * line, layer.height * line, interleave);
  const Box& box = padded.box;
  int64_t base = InpBase(slot);
  const int64_t tiles = box.Tiles();
  for (int64_t index = batch; index < batch + batches; ++index) {
    int64_t offset = plan.regions[kInpRegion].offset;
    if (tiles != 0) {
      const int64_t plane = index * plan.in_planes + (first >> plan.inp_interleave_shift);
      const int64_t pixel = (plane * layer.height + row.source) * layer.width + column.source;
      offset += pixel * interleave * inp_bytes_;
    }
    RawInstruction& load = AddLoad(ready.loads, Memory::kInp, InpKey(slot));
    fields_.Set(load, isa::load::kDramOffset, offset);
    fields_.Set(load, isa::load::kSramBase, base);
    SetLoadBox(load, box);
    fields_.Set(load, isa::load::kPadLeft, padded.pad_left);
    fields_.Set(load, isa::load::kPadRight, padded.pad_right);
    fields_.Set(load, isa::load::kPadTop, padded.pad_top);
    fields_.Set(load, isa::load::kPadBottom, padded.pad_bottom);
    base += planes * row.loaded * column.loaded * interleave;
  }
  lowered_->bytes_read += batches * tiles * inp_bytes_;
}

void Emitter::PlaceWeights(Ready& ready, const Item& item, const ChannelTile& channels,
                           int32_t& slot_out) {
  const Plan& plan = *plan_;
  const int64_t tile = item.co * plan.ci_tiles.count + item.ci;
  int64_t slot = 0;
  bool fresh = false;
  if (plan.wgt_copies != 0) {
    slot = ResidentSlot(item);
    fresh = wgt_.Place(slot, tile);
  } else {
    std::tie(slot, fresh) = wgt_.Stream(tile);
  }
  slot_out = static_cast<int32_t>(slot);
  if (!fresh) return;
  const int64_t first = plan.ci_tiles.First(item.ci), count = plan.ci_tiles.Size(item.ci);
  const Layer& layer = plan.layer;
  const int64_t reduction = layer.reduce_blocks * plan.taps;
  const int64_t start = channels.first * reduction + first * plan.taps;
  Box box;
  if (!layer.depthwise) {
    box = JoinedBox(count * plan.taps, channels.count, 1, reduction, 0);
  } else if (layer.reduce_blocks > 1 || layer.share > 1) {
    // Blocks differ in size: the diagonal moves on with each row of the LOAD.
    box = {plan.taps, channels.count * layer.reduce_blocks, 1, plan.taps, 0};
  } else {
    box = JoinedBox(plan.taps, channels.count, 1, plan.taps, 0);
  }
  RawInstruction& load = AddLoad(ready.loads, Memory::kWgt, WgtKey(slot));
  fields_.Set(load, isa::load::kSramBase, WgtBase(slot_out));
  fields_.Set(load, isa::load::kDramOffset, plan.regions[kWgtRegion].offset + start * wgt_bytes_);
  if (layer.depthwise) {
    fields_.Set(load, isa::load::kDiagonal, 1);
    fields_.Set(load, isa::load::kPhase, channels.first % layer.share);
  }
  fields_.Set(load, isa::load::kInt4, layer.int4);
  SetLoadBox(load, box);
  lowered_->bytes_read += box.Tiles() * wgt_bytes_;
}

// -- GEMM -----------------------------------------------------------------------------------------

// A kernel that was not used before is loaded first.
void Emitter::MakeGemmWord(size_t index, std::vector<Load>& loads) {
  Lowered& lowered = *lowered_;
  GemmWord& word = gemm_words_[index];
  const Plan::Shape& shape = plan_->ShapeAt(index);
  Placed& placed = placed_[static_cast<size_t>(shape.kernel)];
  const int32_t key = KernelKey(shape.kernel);
  if (placed.length == 0) {
    placed.begin = static_cast<int64_t>(lowered.uops.size());
    AppendMicroOps(plan_->kernels[static_cast<size_t>(shape.kernel)], lowered.uops);
    placed.length = static_cast<int64_t>(lowered.uops.size()) - placed.begin;
    for (int64_t first = 0; first < placed.length; first += kRowMax) {
      const int64_t begin = placed.begin + first;
      RawInstruction& load = AddLoad(loads, Memory::kUop, key);
      fields_.Set(load, isa::load::kSramBase, begin);
      fields_.Set(load, isa::load::kDramOffset, plan_->regions_end + begin * isa::kUopBytes);
      fields_.Set(load, isa::load::kXSize, std::min(kRowMax, placed.length - first));
      fields_.Set(load, isa::load::kYSize, 1);
      fields_.Set(load, isa::load::kZSize, 1);
    }
    lowered.bytes_read += placed.length * isa::kUopBytes;
  }
  word.made = true;
  word.kernel = key;
  word.macs = placed.length * shape.outer.trips * shape.inner.trips;
  word.instruction = BlankInstruction(Opcode::kGemm);
  RawInstruction& gemm = word.instruction;
  fields_.Set(gemm, isa::gemm::kUopBegin, placed.begin);
  fields_.Set(gemm, isa::gemm::kUopCount, placed.length);
  fields_.Set(gemm, isa::gemm::kIterOuter, shape.outer.trips);
  fields_.Set(gemm, isa::gemm::kIterInner, shape.inner.trips);
  fields_.Set(gemm, isa::gemm::kAccOuter, shape.outer.acc);
  fields_.Set(gemm, isa::gemm::kInpOuter, shape.outer.inp);
  fields_.Set(gemm, isa::gemm::kWgtOuter, shape.outer.wgt);
  fields_.Set(gemm, isa::gemm::kAccInner, shape.inner.acc);
  fields_.Set(gemm, isa::gemm::kInpInner, shape.inner.inp);
  fields_.Set(gemm, isa::gemm::kWgtInner, shape.inner.wgt);
}

// GEMM of an item, the loads that had to wait for it, and its epilogue.
void Emitter::Compute(const Ready& ready, const Ready* late) {
  const Plan& plan = *plan_;
  const Item& item = ready.item;
  const int64_t ci = plan.ci_tiles.Size(item.ci);
  const Span& row = plan.rows.tiles[static_cast<size_t>(item.row)];
  const Span& column = plan.columns.tiles[static_cast<size_t>(item.column)];
  const int64_t pixels = plan.batch_tiles.Size(item.batch) * row.count * column.count;
  const int64_t plane = row.loaded * column.loaded;
  const int64_t inp_base = InpBase(ready.inp_slot), wgt_base = WgtBase(ready.wgt_slot);
  const int32_t inp_key = InpKey(ready.inp_slot), wgt_key = WgtKey(ready.wgt_slot);
  const GemmWord* word = nullptr;
  int64_t last_count = 0;
  plan.ForEachRun(ready.channels, [&](const Run& run) {
    if (run.count != last_count) {
      word = &gemm_words_[ready.shapes + plan.KindIndex(run.count, ready.channels.inp_count)];
      last_count = run.count;
    }
    const int64_t base = plan.AccBase(item.context, run.first, pixels);
    const int32_t acc_key = AccKey(item, plan.by_block ? run.first : 0);
    RawInstruction& gemm =
        stream_.Emit(Unit::kGemm, word->instruction, {inp_key, wgt_key, word->kernel}, acc_key);
    fields_.Set(gemm, isa::gemm::kAccBanks, plan.AccBanks(base, run.count * pixels));
    fields_.Set(gemm, isa::gemm::kOverwrite, item.first);
    fields_.Set(gemm, isa::gemm::kAccBase, base);
    fields_.Set(gemm, isa::gemm::kInpBase, inp_base + run.inp_block * plane);
    fields_.Set(gemm, isa::gemm::kWgtBase, wgt_base + run.first * ci * plan.taps);
    lowered_->macs_tiles += word->macs;
    const bool last_run = run.first + run.count == ready.channels.count;
    if (late != nullptr && last_run) EmitLoads(*late);
    if (item.last && plan.by_block) Epilogue(ready, run.first, 1, pixels);
  });
  if (item.last && !plan.by_block) Epilogue(ready, 0, ready.channels.count, pixels);
}

// -- epilogue -------------------------------------------------------------------------------------

// Parameters of the co tile, unless they are there, and the residual tile.
void Emitter::EpilogueLoads(const Ready& ready) {
  const Plan& plan = *plan_;
  const Item& item = ready.item;
  const int64_t slot = item.co % plan.param_slots;
  if (std::exchange(params_[static_cast<size_t>(slot)], item.co) != item.co) {
    const int64_t start = ready.channels.first * param_bytes_;
    RawInstruction& load = stream_.Emit(Unit::kLoad, BlankLoad(Memory::kParam), {}, ParamKey(slot));
    fields_.Set(load, isa::load::kSramBase, slot * plan.schedule.tile_co);
    fields_.Set(load, isa::load::kDramOffset, plan.regions[kParamRegion].offset + start);
    fields_.Set(load, isa::load::kXSize, ready.channels.count);
    fields_.Set(load, isa::load::kYSize, 1);
    fields_.Set(load, isa::load::kZSize, 1);
    lowered_->bytes_read += ready.channels.count * param_bytes_;
  }
  if (!plan.layer.residual) return;
  const int64_t pixels = plan.batch_tiles.Size(item.batch) *
                         plan.rows.tiles[static_cast<size_t>(item.row)].count *
                         plan.columns.tiles[static_cast<size_t>(item.column)].count;
  plan.ForEachPart(ready.channels, 0, ready.channels.count, [&](const Part& part) {
    const int64_t base = item.context * res_region_ + part.first * pixels;
    ForEachOutBox(ready, part, [&](int64_t offset, int64_t start, const Box& box) {
      RawInstruction& load =
          stream_.Emit(Unit::kLoad, BlankLoad(Memory::kRes), {}, ResKey(item.context));
      fields_.Set(load, isa::load::kSramBase, base + start);
      fields_.Set(load, isa::load::kDramOffset, plan.regions[kResRegion].offset + offset);
      SetLoadBox(load, box);
      lowered_->bytes_read += box.Tiles() * out_bytes_;
    });
  });
}

// Calls visit(byte offset in the tensor, first scratchpad tile after the part's first, box) for the
// regions of the output (or residual) tensor that a part of a tile fills.
template <typename Visit>
void Emitter::ForEachOutBox(const Ready& ready, const Part& part, Visit visit) const {
  const Plan& plan = *plan_;
  const Layer& layer = plan.layer;
  const Item& item = ready.item;
  const int64_t batch = plan.batch_tiles.First(item.batch);
  const int64_t batches = plan.batch_tiles.Size(item.batch);
  const Span& row = plan.rows.tiles[static_cast<size_t>(item.row)];
  const Span& column = plan.columns.tiles[static_cast<size_t>(item.column)];
  const int64_t interleave = layer.out_interleave, count = part.blocks;
  const int64_t line = layer.out_width * interleave;
  const int64_t plane = int64_t{layer.out_height} * layer.out_width;
  const int64_t image = plan.stored_out_blocks * plane;
  const int64_t block = ready.channels.first + part.first, within = block & (interleave - 1);
  const int64_t start =
      batch * image + (block - within) * plane + within + row.out * line + column.out * interleave;
  const int64_t pixels = row.count * column.count;
  if (!plan.OutInterleaved()) {
    if (batches == 1) {
      visit(start * out_bytes_, 0, JoinedBox(column.count, row.count, count, line, plane));
      return;
    }
    const Box box = JoinedBox(column.count, row.count, batches, line, image);
    for (int64_t i = 0; i < count; ++i) {
      visit((start + i * plane) * out_bytes_, i * batches * pixels, box);
    }
  } else if (count == interleave) {
    visit(start * out_bytes_, 0, JoinedBox(column.count * count, row.count, batches, line, image));
  } else {
    const Box box = JoinedBox(count, column.count, row.count, interleave, line);
    for (int64_t i = 0; i < batches; ++i) {
      visit((start + i * image) * out_bytes_, i * pixels * count, box);
    }
  }
}

// VECTOR of output blocks first to first + count - 1 of a tile, and STORE of what they complete.
void Emitter::Epilogue(const Ready& ready, int64_t first, int64_t count, int64_t pixels) {
  const Plan& plan = *plan_;
  const Item& item = ready.item;
  plan.ForEachPart(ready.channels, first, count, [&](const Part& part) {
    const int64_t low = std::max(first, part.first), high = std::min(first + count, part.End());
    Vector(ready, part, low, high - low, pixels);
    if (high < part.End()) return;
    const int64_t out = item.context * out_region_ + part.first * plan.block_pixels;
    const TokenStream::Range keys = OutKeys(item, part);
    ForEachOutBox(ready, part, [&](int64_t offset, int64_t start, const Box& box) {
      RawInstruction& store =
          keys.count == 1
              ? stream_.Emit(Unit::kStore, BlankInstruction(Opcode::kStore), {keys.first},
                             TokenStream::kNothing)
              : stream_.EmitRanges(Unit::kStore, BlankInstruction(Opcode::kStore), {}, keys, {});
      fields_.Set(store, isa::store::kSramBase, out + start);
      fields_.Set(store, isa::store::kDramOffset, plan.regions[kOutRegion].offset + offset);
      fields_.Set(store, isa::store::kXSize, box.x_size);
      fields_.Set(store, isa::store::kYSize, box.y_size);
      fields_.Set(store, isa::store::kZSize, box.z_size);
      fields_.Set(store, isa::store::kYStride, box.y_stride);
      fields_.Set(store, isa::store::kZStride, box.z_stride);
      lowered_->bytes_written += box.Tiles() * out_bytes_;
    });
  });
}

// Requantises some output blocks of a part into its place in OUT.
void Emitter::Vector(const Ready& ready, const Part& part, int64_t first, int64_t count,
                     int64_t pixels) {
  const Plan& plan = *plan_;
  const Item& item = ready.item;
  const int64_t slot = item.co % plan.param_slots;
  const int64_t src = plan.AccBase(item.context, first, pixels);
  const int64_t out = item.context * out_region_ + part.first * plan.block_pixels;
  const int64_t next_block = plan.OutInterleaved() ? 1 : pixels;
  const int64_t next_pixel = plan.OutInterleaved() ? part.blocks : 1;
  const int64_t skipped = (first - part.first) * next_block;
  const int64_t step = count > 1 ? next_block : 0;
  const int32_t acc = AccKey(item, plan.by_block ? first : 0);
  const int32_t residual = plan.layer.residual ? ResKey(item.context) : TokenStream::kNothing;
  const int32_t params = ParamKey(slot);
  const TokenStream::Range keys = OutKeys(item, part);
  RawInstruction& vector =
      keys.count == 1
          ? stream_.Emit(Unit::kVector, vector_, {acc, params, residual}, keys.first)
          : stream_.EmitRanges(Unit::kVector, vector_, {acc, params, residual}, {}, keys);
  fields_.Set(vector, isa::vector::kAccBanks, plan.AccBanks(src, count * pixels));
  fields_.Set(vector, isa::vector::kParamBase, slot * plan.schedule.tile_co + first);
  fields_.Set(vector, isa::vector::kIterOuter, count);
  fields_.Set(vector, isa::vector::kIterInner, pixels);
  fields_.Set(vector, isa::vector::kDstBase, out + skipped);
  fields_.Set(vector, isa::vector::kSrcBase, src);
  fields_.Set(vector, isa::vector::kDstOuter, step);
  fields_.Set(vector, isa::vector::kSrcOuter, count > 1 ? pixels : 0);
  fields_.Set(vector, isa::vector::kDstInner, next_pixel);
  if (plan.layer.residual) {
    const int64_t opd = item.context * res_region_ + part.first * pixels + skipped;
    fields_.Set(vector, isa::vector::kOpdBase, opd);
    fields_.Set(vector, isa::vector::kOpdOuter, step);
    fields_.Set(vector, isa::vector::kOpdInner, next_pixel);
  }
}

}  // namespace tilewright::lowering
