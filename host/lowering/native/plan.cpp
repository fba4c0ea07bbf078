// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

namespace tilewright::lowering {
namespace {

using Wide = __int128;  // products of tile counts, before a rule bounds them

constexpr int64_t kMemoryMax = int64_t{1} << isa::load::kDramOffset.bits;  // bytes
constexpr int64_t kInstructionsMax = (int64_t{128} << 20) / isa::kInstructionBytes;

int64_t UpTo2(int64_t count) { return std::min<int64_t>(count, 2); }

int64_t FloorDivide(int64_t value, int64_t by) {
  if (by == 1) return value;
  const int64_t quotient = value / by;
  return quotient - (value % by < 0);
}

}  // namespace

Extent PlaceRegion(int64_t bytes, int64_t& end) {
  const Extent region{end, bytes};
  const int64_t blocks = BlocksOf(std::max<int64_t>(bytes, 1), isa::kRegionAlignment);
  end += blocks * isa::kRegionAlignment;
  return region;
}

void Spans::Cut(int64_t extent, int64_t tile, int64_t stored, int64_t stride, int64_t pad,
                int64_t kernel, int64_t dilation, int64_t row_step) {
  tiling = Tiling(extent, tile);
  stored_ = stored;
  stride_ = stride;
  pad_ = pad;
  row_step_ = row_step;
  step = stride / row_step;
  reach_ = (kernel - 1) * dilation + 1;
  loaded = At(0).loaded;
  max_pad = max_size = 0;
  for (int64_t index = 0; index < tiling.count; ++index) {
    const Span span = At(index);
    max_pad = std::max({max_pad, span.pad_low, span.pad_high});
    max_size = std::max(max_size, span.size);
  }
}

void Spans::Fill() {
  tiles.clear();
  for (int64_t index = 0; index < tiling.count; ++index) tiles.push_back(At(index));
}

Span Spans::At(int64_t index) const {
  const int64_t out = tiling.First(index), count = tiling.Size(index);
  const int64_t loaded = (count - 1) * step + reach_;
  const int64_t first = out * stride_ - pad_;
  const int64_t low = std::clamp<int64_t>(-FloorDivide(first, row_step_), 0, loaded);
  const int64_t end = std::clamp<int64_t>(-FloorDivide(first - stored_, row_step_), 0, loaded);
  return {out, count, loaded, low, loaded - end, first + low * row_step_, end - low};
}

Rule Plan::Make(const Hardware& hardware, const Layer& shape, const Schedule& choices) {
  hw = hardware;
  layer = shape;
  schedule = choices;
  taps = int64_t{layer.kernel_h} * layer.kernel_w;
  inp_interleave_shift = __builtin_ctz(static_cast<uint32_t>(layer.inp_interleave));
  in_planes = layer.in_blocks >> inp_interleave_shift;
  stored_out_blocks = BlocksOf(layer.out_blocks, layer.out_interleave) * layer.out_interleave;
  if (const Rule rule = CheckTiles(); rule != Rule::kLegal) return rule;
  Place();
  if (const Rule rule = CheckFields(); rule != Rule::kLegal) return rule;
  if (const Rule rule = CheckCapacity(); rule != Rule::kLegal) return rule;
  return CheckKernels();
}

Rule Plan::CheckTiles() const {
  if (schedule.tile_b > layer.batches) return Rule::kTileBExtent;
  if (schedule.tile_h > layer.out_height) return Rule::kTileHExtent;
  if (schedule.tile_w > layer.out_width) return Rule::kTileWExtent;
  if (schedule.tile_co > layer.out_blocks) return Rule::kTileCoExtent;
  if (schedule.tile_ci > (layer.depthwise ? 1 : layer.reduce_blocks)) return Rule::kTileCiExtent;
  const int32_t unit = layer.depthwise ? 1 : layer.inp_interleave;
  if (schedule.tile_ci % unit != 0 && schedule.tile_ci < layer.reduce_blocks) {
    return Rule::kTileCiInterleave;
  }
  if (layer.depthwise && schedule.loop_order == LoopOrder::kInputStationary) {
    return Rule::kDepthwiseLoopOrder;
  }
  return CheckLength();
}

// A program that can be made in reasonable time and memory: what it must hold at least.
Rule Plan::CheckLength() const {
  const Wide tiles = Wide{BlocksOf(layer.batches, schedule.tile_b)} *
                     BlocksOf(layer.out_height, schedule.tile_h) *
                     BlocksOf(layer.out_width, schedule.tile_w);
  const int64_t channels = BlocksOf(layer.out_blocks, schedule.tile_co);
  const int64_t steps = layer.depthwise ? 1 : BlocksOf(layer.reduce_blocks, schedule.tile_ci);
  const int64_t runs = schedule.fusion == Fusion::kBlock ? layer.out_blocks : channels;
  if (tiles * (Wide{steps} * runs + 2 * channels) > kInstructionsMax) return Rule::kProgramLength;
  return Rule::kLegal;
}

void Plan::Place() {
  rows.Cut(layer.out_height, schedule.tile_h, layer.height, layer.stride_h, layer.pad_top,
           layer.kernel_h, layer.dilation_h, layer.row_step);
  columns.Cut(layer.out_width, schedule.tile_w, layer.width, layer.stride_w, layer.pad_left,
              layer.kernel_w, layer.dilation_w, 1);
  batch_tiles = Tiling(layer.batches, schedule.tile_b);
  ci_tiles = Tiling(layer.reduce_blocks, layer.depthwise ? layer.reduce_blocks : schedule.tile_ci);
  co_tiles = Tiling(layer.out_blocks, schedule.tile_co);
  by_block = schedule.fusion == Fusion::kBlock;
  FindKinds();

  contexts = int64_t{schedule.h_threading} * schedule.oc_threading;
  const int64_t depth = contexts > 1 ? 2 : 1;
  const int64_t co = co_tiles.count, steps = ci_tiles.count;
  const int64_t row_tiles = rows.tiling.count;
  // Of these counts only "one or more than one" matters; so bounded, no product can overflow.
  const int64_t image_tiles = UpTo2(batch_tiles.count) * UpTo2(columns.tiling.count);
  const int64_t spatial_groups = image_tiles * UpTo2(BlocksOf(row_tiles, schedule.h_threading));
  const bool weights_stay = schedule.loop_order == LoopOrder::kWeightStationary;
  const bool inputs_stay = schedule.loop_order == LoopOrder::kInputStationary;
  // Parameters visited once stream through slots; otherwise every co tile keeps its own.
  param_slots = co;
  if (weights_stay || spatial_groups == 1)
    param_slots = std::min(co, depth * schedule.oc_threading);
  inp_slots = std::min(depth, image_tiles * UpTo2(row_tiles) * (layer.depthwise ? co : steps));
  wgt_slots = std::min(depth, co * steps);
  inp_copies = inputs_stay ? std::min(depth, spatial_groups) : 0;
  wgt_copies = weights_stay ? std::min(depth, BlocksOf(co, schedule.oc_threading)) : 0;
  inp_members = std::min<int64_t>(schedule.h_threading, row_tiles);
  wgt_members = std::min<int64_t>(schedule.oc_threading, co);
  banks = std::max<int64_t>(1, hw.acc_banks / contexts);
  acc_region_ = hw.acc_depth / contexts;
  acc_bank_shift_ = __builtin_ctz(static_cast<uint32_t>(hw.acc_depth / hw.acc_banks));
}

void Plan::FindKinds() {
  kinds.clear();
  max_inp_count = 0;
  const auto look_at = [this](int64_t co) {
    const ChannelTile tile = Channels(co);
    max_inp_count = std::max(max_inp_count, tile.inp_count);
    const auto add = [&](const Run& run) {
      if (KindIndex(run.count, tile.inp_count) == kinds.size()) {
        kinds.push_back({run.count, tile.inp_count});
      }
    };
    if (by_block) {
      add({0, 1, 0});
    } else {
      ForEachTileRun(tile, add);
    }
  };
  // Full tiles differ only in where they start in an input block: `share` of them show all kinds.
  const int64_t full = std::min<int64_t>(co_tiles.count, layer.share);
  for (int64_t co = 0; co < full; ++co) look_at(co);
  look_at(co_tiles.count - 1);
}

// Values that an instruction field bounds.
Rule Plan::CheckFields() {
  if (rows.max_pad > kPadMax) return Rule::kFieldPadRows;
  if (rows.max_size > kRowMax) return Rule::kFieldInputRows;
  const int64_t interleave = layer.inp_interleave;
  if (columns.max_pad * interleave > kPadMax) return Rule::kFieldPadColumns;
  if (columns.max_size * interleave > kRowMax) return Rule::kFieldInputColumns;
  const Wide pixels = Wide{schedule.tile_b} * schedule.tile_h * schedule.tile_w;
  if (pixels > kRowMax) return Rule::kFieldPixels;
  block_pixels = static_cast<int64_t>(pixels);
  if (int64_t{schedule.tile_w} * layer.out_interleave > kRowMax) return Rule::kFieldOutputColumns;
  if (schedule.tile_co > kRowMax) return Rule::kFieldBlocks;
  if (max_inp_count > kRowMax) return Rule::kFieldPlanes;
  const Wide step = layer.depthwise ? layer.reduce_blocks : schedule.tile_ci;
  if (step * taps > kRowMax) return Rule::kFieldWeightRow;
  if (Wide{layer.row_step} * layer.width * interleave > kStrideMax) return Rule::kFieldRowStride;
  const int64_t plane = int64_t{layer.height} * layer.width;
  const int64_t out_plane = int64_t{layer.out_height} * layer.out_width;
  if (std::max(Wide{plane} * interleave, Wide{out_plane} * layer.out_interleave) > kStrideMax) {
    return Rule::kFieldPlaneStride;
  }
  if (schedule.tile_b > 1 && stored_out_blocks * out_plane > kStrideMax) {
    return Rule::kFieldImageStride;
  }

  const Wide out_tiles = Wide{layer.batches} * stored_out_blocks * out_plane;
  const Wide out_bytes = out_tiles * hw.batch * hw.block_out;
  const Wide sizes[] = {
      Wide{layer.batches} * layer.in_blocks * plane * hw.batch * hw.block_in,
      Wide{layer.out_blocks} * layer.reduce_blocks * taps * StoredWgtTile(),
      Wide{layer.out_blocks} * hw.block_out * isa::kParamBytesPerChannel,
      layer.residual ? out_bytes : 0,
      out_bytes,
  };
  Wide total = 0;
  for (const Wide size : sizes) total += size;
  if (total > kMemoryMax / 2) return Rule::kMemory;
  regions_end = 0;
  for (int region = kInpRegion; region <= kOutRegion; ++region) {
    if (region == kResRegion && !layer.residual) {
      regions[region] = {};
      continue;
    }
    regions[region] = PlaceRegion(static_cast<int64_t>(sizes[region]), regions_end);
  }
  return Rule::kLegal;
}

int64_t Plan::InpTileBlocks() const {
  if (max_inp_count != 0) return max_inp_count;
  return BlocksOf(schedule.tile_ci, layer.inp_interleave) * layer.inp_interleave;
}

int64_t Plan::InpTile() const {
  return schedule.tile_b * InpTileBlocks() * rows.loaded * columns.loaded;
}

int64_t Plan::WgtTile() const {
  return schedule.tile_co * (layer.depthwise ? layer.reduce_blocks : schedule.tile_ci) * taps;
}

int64_t Plan::InpSet() const {
  return int64_t{schedule.tile_b} * layer.in_blocks * rows.loaded * columns.loaded;
}

int64_t Plan::WgtSet() const { return schedule.tile_co * layer.reduce_blocks * taps; }

int64_t Plan::StoredWgtTile() const {
  if (layer.depthwise) return std::min(hw.block_in, hw.block_out);
  if (layer.int4) return hw.int4_tile_bytes;
  return int64_t{hw.block_in} * hw.block_out;
}

// Scratchpad tiles that the schedule holds at once.
Rule Plan::CheckCapacity() const {
  const Wide image = Wide{rows.loaded} * columns.loaded * schedule.tile_b;
  const Wide inp = inp_copies != 0 ? image * layer.in_blocks * (inp_copies * inp_members)
                                   : image * InpTileBlocks() * inp_slots;
  if (inp > hw.inp_depth) return Rule::kInpCapacity;
  const int64_t wgt_blocks = layer.depthwise ? layer.reduce_blocks : schedule.tile_ci;
  const Wide weights = Wide{schedule.tile_co} * taps;
  const Wide wgt = wgt_copies != 0 ? weights * layer.reduce_blocks * (wgt_copies * wgt_members)
                                   : weights * wgt_blocks * wgt_slots;
  if (wgt > hw.wgt_depth) return Rule::kWgtCapacity;
  const int64_t blocks = schedule.tile_co;
  const int64_t parts = by_block ? contexts * banks : contexts;
  const int64_t acc = (by_block ? BlocksOf(blocks, banks) : blocks) * block_pixels;
  if (acc > hw.acc_depth / parts) return Rule::kAccCapacity;
  if (blocks * block_pixels > hw.out_depth / contexts) return Rule::kOutCapacity;
  if (layer.residual && blocks * block_pixels > hw.res_depth / contexts) return Rule::kResCapacity;
  if (std::min<int64_t>(param_slots * blocks, layer.out_blocks) > hw.param_depth) {
    return Rule::kParamCapacity;
  }
  return Rule::kLegal;
}

// All distinct kernels in UOP at once.
Rule Plan::CheckKernels() {
  kernels.clear();
  shapes_.resize(16 * kinds.size());
  int64_t needed = 0;
  for (size_t b = 0; b < batch_tiles.Variants(); ++b) {
    for (size_t r = 0; r < rows.tiling.Variants(); ++r) {
      for (size_t c = 0; c < columns.tiling.Variants(); ++c) {
        for (size_t i = 0; i < ci_tiles.Variants(); ++i) {
          for (size_t k = 0; k < kinds.size(); ++k) {
            const int64_t ci = ci_tiles.VariantSize(i);
            const Gemm gemm = GemmLoops({
                kinds[k].count,
                ci,
                batch_tiles.VariantSize(b),
                rows.tiling.VariantSize(r),
                columns.tiling.VariantSize(c),
                layer.kernel_h,
                layer.kernel_w,
                rows.step,
                columns.step,
                layer.dilation_h,
                layer.dilation_w,
                kinds[k].inp_count != 0 ? kinds[k].inp_count : ci,
                layer.depthwise && layer.share == 1 ? layer.reduce_blocks : 0,
                layer.inp_interleave,
            });
            const auto known = std::find(kernels.begin(), kernels.end(), gemm.kernel);
            const auto kernel = static_cast<int32_t>(known - kernels.begin());
            if (known == kernels.end()) {
              kernels.push_back(gemm.kernel);
              needed += gemm.kernel.Length();
            }
            shapes_[ShapeIndex(b, r, c, i, k)] = {gemm.outer, gemm.inner, kernel};
          }
        }
      }
    }
  }
  return needed > hw.uop_depth ? Rule::kUopCapacity : Rule::kLegal;
}

// Fused by block, neighbours lie in different banks.
int64_t Plan::AccBase(int64_t context, int64_t block, int64_t pixels) const {
  if (!by_block) return context * acc_region_ + block * pixels;
  const int64_t bank = block % banks, rank = block / banks;
  return context * acc_region_ + bank * (acc_region_ / banks) + rank * block_pixels;
}

uint32_t Plan::AccBanks(int64_t first, int64_t count) const {
  const int64_t low = first >> acc_bank_shift_, high = (first + count - 1) >> acc_bank_shift_;
  return ((1U << (high - low + 1)) - 1) << low;
}

}  // namespace tilewright::lowering
