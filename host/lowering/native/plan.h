// SPDX-License-Identifier: Apache-2.0
// A schedule checked against a configuration, as host/lowering/plan.py and geometry.py.
#ifndef TILEWRIGHT_HOST_LOWERING_NATIVE_PLAN_H_
#define TILEWRIGHT_HOST_LOWERING_NATIVE_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels.h"
#include "lowering.h"
#include "transfers.h"

namespace tilewright::lowering {

// The region of `bytes` bytes at `end`, which moves behind it.
Extent PlaceRegion(int64_t bytes, int64_t& end);

// An axis cut into tiles without halo; only the last can be smaller.
struct Tiling {
  int64_t total = 1;
  int64_t tile = 1;
  int64_t count = 1;  // tiles
  int64_t last = 1;   // size of the last tile

  Tiling() = default;
  Tiling(int64_t total, int64_t tile)
      : total(total), tile(tile), count(BlocksOf(total, tile)), last(total - (count - 1) * tile) {}

  int64_t First(int64_t index) const { return index * tile; }
  int64_t Size(int64_t index) const { return index + 1 == count ? last : tile; }
  // 0 for a full tile, 1 for a smaller last one: what depends on a tile's size has two variants.
  size_t Variant(int64_t index) const { return index + 1 == count && last != tile; }
  size_t Variants() const { return last != tile ? 2 : 1; }
  int64_t VariantSize(size_t variant) const { return variant == 0 ? tile : last; }
};

// All tiles along one image axis.
struct Spans {
  Tiling tiling;
  std::vector<Span> tiles;  // filled by Fill
  int64_t loaded = 0;       // of a full tile
  int64_t max_pad = 0;
  int64_t max_size = 0;
  int64_t step = 0;

  // Tiles from the arguments of host/lowering/geometry.py `spans`; finds the largest of them.
  void Cut(int64_t extent, int64_t tile, int64_t stored, int64_t stride, int64_t pad,
           int64_t kernel, int64_t dilation, int64_t row_step);
  // Writes the tiles down.
  void Fill();

 private:
  Span At(int64_t index) const;

  int64_t stored_ = 0, stride_ = 0, pad_ = 0, reach_ = 0, row_step_ = 1;
};

// Output blocks of a co tile that one GEMM covers; blocks relative to the tile and its inputs.
struct Run {
  int64_t first;
  int64_t count;
  int64_t inp_block;
};

// One tile of output-channel blocks; inp_* is 0 unless depthwise.
struct ChannelTile {
  int64_t first;
  int64_t count;
  int64_t inp_first;
  int64_t inp_count;
};

// Output blocks of a tile that lie together in OUT and RES; host/lowering/outputs.py Part.
struct Part {
  int64_t first;
  int64_t blocks;

  int64_t End() const { return first + blocks; }
};

// Distinct shapes of a GEMM over output channels.
struct RunKind {
  int64_t count;
  int64_t inp_count;
};

// A schedule's tiles and buffers; see the Python class for every member.
class Plan {
 public:
  // Checks a schedule; the plan may be used only when the answer is kLegal.
  Rule Make(const Hardware& hardware, const Layer& layer, const Schedule& schedule);

  Hardware hw;
  Layer layer;
  Schedule schedule;
  int64_t taps;
  int inp_interleave_shift;   // log2 of layer.inp_interleave
  int64_t in_planes;          // stored blocks of the input
  int64_t stored_out_blocks;  // whole stored blocks
  Spans rows;
  Spans columns;
  Tiling batch_tiles;
  Tiling ci_tiles;
  Tiling co_tiles;
  int64_t max_inp_count;
  int64_t contexts;
  int64_t inp_slots;
  int64_t wgt_slots;
  int64_t inp_copies;
  int64_t wgt_copies;
  int64_t inp_members;
  int64_t wgt_members;
  int64_t param_slots;
  int64_t block_pixels;
  int64_t banks;
  bool by_block;
  Extent regions[kRegions];  // up to kOutRegion; the others follow from the program
  int64_t regions_end;

  int64_t InpTile() const;  // INP tiles of one operand tile
  int64_t WgtTile() const;
  int64_t InpSet() const;  // INP tiles of a spatial tile's whole reduction
  int64_t WgtSet() const;
  // Bytes of a weight tile in DRAM: of a depthwise layer only its diagonal.
  int64_t StoredWgtTile() const;
  int64_t AccBase(int64_t context, int64_t block, int64_t pixels) const;
  uint32_t AccBanks(int64_t first, int64_t count) const;

  ChannelTile Channels(int64_t co) const {
    const int64_t first = co_tiles.First(co), count = co_tiles.Size(co);
    if (!layer.depthwise) return {first, count, 0, 0};
    if (layer.share == 1) {
      return {first, count, first * layer.reduce_blocks, count * layer.reduce_blocks};
    }
    const int64_t low = first / layer.share;
    return {first, count, low, (first + count - 1) / layer.share - low + 1};
  }

  bool OutInterleaved() const { return layer.out_interleave > 1; }

  // Calls visit(Part) for the parts that hold output blocks first to first + count - 1 of a tile.
  template <typename Visit>
  void ForEachPart(const ChannelTile& tile, int64_t first, int64_t count, Visit visit) const {
    if (!OutInterleaved()) {
      visit(Part{first, count});
      return;
    }
    const int64_t size = layer.out_interleave, tile_end = tile.first + tile.count;
    for (int64_t block = tile.first + first; block < tile.first + first + count;) {
      const int64_t stored = block & -size;  // sizes are powers of two
      const int64_t low = std::max(stored, tile.first);
      const int64_t high = std::min(stored + size, tile_end);
      visit(Part{low - tile.first, high - low});
      block = high;
    }
  }

  // Calls visit(Run) for the output blocks of each GEMM instruction of a co tile.
  template <typename Visit>
  void ForEachRun(const ChannelTile& tile, Visit visit) const {
    if (by_block) {
      for (int64_t block = 0; block < tile.count; ++block) {
        visit(Run{block, 1, InpBlock(tile, block)});
      }
    } else {
      ForEachTileRun(tile, visit);
    }
  }

  // GEMM shapes: the distinct kernels, and for each shape of tile the loops and its kernel.
  struct Shape {
    Axis outer;
    Axis inner;
    int32_t kernel;
  };
  std::vector<RunKind> kinds;
  std::vector<Kernel> kernels;

  const Shape& ShapeAt(size_t index) const { return shapes_[index]; }
  size_t ShapeCount() const { return shapes_.size(); }
  // `run_kind` is an index into `kinds`, the others are Tiling variants.
  size_t ShapeIndex(size_t batch, size_t row, size_t column, size_t ci, size_t run_kind) const {
    return (((batch * 2 + row) * 2 + column) * 2 + ci) * kinds.size() + run_kind;
  }
  // kinds.size() if there is no such kind.
  size_t KindIndex(int64_t count, int64_t inp_count) const {
    size_t index = 0;
    while (index < kinds.size() &&
           (kinds[index].count != count || kinds[index].inp_count != inp_count)) {
      ++index;
    }
    return index;
  }

 private:
  template <typename Visit>
  void ForEachTileRun(const ChannelTile& tile, Visit visit) const {
    if (!layer.depthwise || layer.share == 1) {
      visit(Run{0, tile.count, 0});
      return;
    }
    const int64_t end = tile.first + tile.count;
    for (int64_t low = tile.first; low < end;) {
      const int64_t input = low / layer.share;
      const int64_t high = std::min(end, (input + 1) * layer.share);
      visit(Run{low - tile.first, high - low, input - tile.inp_first});
      low = high;
    }
  }

  int64_t InpBlock(const ChannelTile& tile, int64_t block) const {
    if (!layer.depthwise) return 0;
    if (layer.share == 1) return block * layer.reduce_blocks;
    return (tile.first + block) / layer.share - tile.inp_first;
  }

  int64_t InpTileBlocks() const;  // input blocks of one operand tile, whole stored blocks
  Rule CheckTiles() const;
  Rule CheckLength() const;
  void Place();
  void FindKinds();
  Rule CheckFields();
  Rule CheckCapacity() const;
  Rule CheckKernels();

  std::vector<Shape> shapes_;
  int64_t acc_region_;  // tiles of a context
  int acc_bank_shift_;  // log2 of the tiles of a bank
};

}  // namespace tilewright::lowering

#endif  // TILEWRIGHT_HOST_LOWERING_NATIVE_PLAN_H_
