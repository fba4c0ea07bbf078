// SPDX-License-Identifier: Apache-2.0
// Native lowering: from a schedule to the same bytes as host/lowering, without Python.
//
// host/lowering is the definition; this is its translation, file by file, for the inner loop of a
// search. Geometry (folding, blocks) comes from Python once a layer; everything that depends on
// the schedule is done here: spans, legality, the order of work, buffers, instructions, tokens.
// Tests compare instructions, micro-ops, layout and verdict on random layers and schedules.
#ifndef TILEWRIGHT_SIM_TWIN_LOWERING_H_
#define TILEWRIGHT_SIM_TWIN_LOWERING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "lowering_words.h"

namespace tilewright::lowering {

// What lowering needs of a HwConfig; depths in tiles. This and the next two structures have plain
// C layout: sim/twin/library.py mirrors them.
struct Hardware {
  int32_t batch;
  int32_t block_in;
  int32_t block_out;
  int32_t inp_depth;
  int32_t wgt_depth;
  int32_t acc_depth;
  int32_t out_depth;
  int32_t res_depth;
  int32_t param_depth;
  int32_t uop_depth;
  int32_t acc_banks;
};

// Geometry of host/lowering/geometry.py: the workload in blocks, after folding.
struct Layer {
  int32_t depthwise;
  int32_t residual;
  int32_t batches;
  int32_t in_blocks;
  int32_t out_blocks;
  int32_t reduce_blocks;
  int32_t share;
  int32_t inp_interleave;
  int32_t out_interleave;
  int32_t height;
  int32_t width;
  int32_t out_height;
  int32_t out_width;
  int32_t kernel_h;
  int32_t kernel_w;
  int32_t stride_h;
  int32_t stride_w;
  int32_t dilation_h;
  int32_t dilation_w;
  int32_t pad_top;
  int32_t pad_left;
  int32_t row_step;
};

enum class LoopOrder : int32_t { kOutputStationary, kWeightStationary, kInputStationary };
enum class Fusion : int32_t { kTile, kBlock };

// Schedule of host/network/schedule.py.
struct Schedule {
  int32_t tile_b;
  int32_t tile_h;
  int32_t tile_w;
  int32_t tile_ci;
  int32_t tile_co;
  int32_t h_threading;
  int32_t oc_threading;
  LoopOrder loop_order;
  Fusion fusion;
};

// int8 bounds of the output.
struct Clip {
  int32_t low;
  int32_t high;
};

// The rule that a schedule breaks first; host/lowering/plan.py has their texts. Mirrored by name,
// in this order, in sim/twin/library.py.
enum class Rule : int32_t {
  kLegal,
  kTileBExtent,
  kTileHExtent,
  kTileWExtent,
  kTileCoExtent,
  kTileCiExtent,
  kTileCiInterleave,
  kDepthwiseLoopOrder,
  kProgramLength,
  kFieldPadRows,
  kFieldInputRows,
  kFieldPadColumns,
  kFieldInputColumns,
  kFieldPixels,
  kFieldOutputColumns,
  kFieldBlocks,
  kFieldPlanes,
  kFieldWeightRow,
  kFieldRowStride,
  kFieldPlaneStride,
  kFieldImageStride,
  kMemory,
  kInpCapacity,
  kWgtCapacity,
  kAccCapacity,
  kOutCapacity,
  kResCapacity,
  kParamCapacity,
  kUopCapacity,
};

// Regions of a program's memory, in memory order.
enum Region : int32_t {
  kInpRegion,
  kWgtRegion,
  kParamRegion,
  kResRegion,  // absent without a residual
  kOutRegion,
  kUopRegion,
  kInsnRegion,
  kRegions,
};

// Bytes from the start of the program's memory; size is 0 for an absent region.
struct Extent {
  int64_t offset = 0;
  int64_t size = 0;
};

// A lowered layer. When rule is not kLegal, nothing else means anything.
struct Lowered {
  Rule rule = Rule::kLegal;
  std::vector<RawInstruction> instructions;  // FINISH included
  std::vector<uint64_t> uops;
  Extent regions[kRegions];
  int64_t memory_bytes = 0;
  int64_t macs_tiles = 0;
  int64_t bytes_read = 0;  // by LOAD, micro-ops included, instruction fetch not
  int64_t bytes_written = 0;
};

// Lowers one schedule after another and keeps its buffers in between: after a few calls nothing is
// allocated any more. Use one object a thread.
class Lowerer {
 public:
  Lowerer();
  ~Lowerer();

  // The rule that the schedule breaks, or kLegal.
  Rule Check(const Hardware& hardware, const Layer& layer, const Schedule& schedule);

  // The result is valid until the next call. Throws std::logic_error if a legal schedule needs a
  // value that an instruction field cannot hold, which would be a gap in the rules.
  const Lowered& Lower(const Hardware& hardware, const Layer& layer, const Schedule& schedule,
                       Clip clip);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tilewright::lowering

#endif  // TILEWRIGHT_SIM_TWIN_LOWERING_H_
