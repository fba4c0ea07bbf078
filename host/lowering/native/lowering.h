// SPDX-License-Identifier: Apache-2.0
// Native lowering: from a schedule to the same bytes as host/lowering, without Python.
//
// host/lowering is the definition; this is its translation, file by file, for the inner loop of a
// search. Geometry (folding, blocks) comes from Python once a layer; everything that depends on
// the schedule is done here: spans, legality, the order of work, buffers, instructions, tokens.
// Tests compare instructions, micro-ops, layout and verdict on random layers and schedules.
#ifndef TILEWRIGHT_HOST_LOWERING_NATIVE_LOWERING_H_
#define TILEWRIGHT_HOST_LOWERING_NATIVE_LOWERING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "generated/records.h"
#include "words.h"

namespace tilewright::lowering {

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

#endif  // TILEWRIGHT_HOST_LOWERING_NATIVE_LOWERING_H_
