// SPDX-License-Identifier: Apache-2.0
// Makespans of populations, timelines and annealing. Signatures are bound in
// tuner/multicore/allocation.py.
#include "tuner/multicore/native/allocation.h"

#include "tuner/multicore/native/annealing.h"

#define TW_EXPORT extern "C" __attribute__((visibility("default")))

using namespace tw::multicore;

namespace {

// Writes a timeline; counts segments beyond `room` without writing them.
struct Recorder {
  double* start;
  double* end;
  int64_t room;
  double* cycles;
  int32_t* running;
  double* granted;
  int32_t cores;
  int64_t count = 0;

  void begins(int32_t job, double time) { start[job] = time; }
  void ends(int32_t job, double time) { end[job] = time; }
  void segment(double length, const int32_t* jobs, const double* bytes) {
    if (count < room) {
      cycles[count] = length;
      std::copy(jobs, jobs + cores, running + count * cores);
      std::copy(bytes, bytes + cores, granted + count * cores);
    }
    ++count;
  }
};

}  // namespace

TW_EXPORT int32_t tw_multicore_version() { return 4; }

// `core` and `priority` are [population, jobs]; `makespans` is [population].
TW_EXPORT void tw_multicore_makespans(const Problem* problem, const int32_t* core,
                                      const double* priority, int64_t population,
                                      double* makespans) {
  Allocator allocator(*problem);
  for (int64_t i = 0; i < population; ++i, core += problem->jobs, priority += problem->jobs)
    makespans[i] = allocator.run(core, priority, Deaf{});
}

// Segments of the timeline of one mapping; no more than `room` of them are written.
TW_EXPORT int64_t tw_multicore_timeline(const Problem* problem, const int32_t* core,
                                        const double* priority, double* start, double* end,
                                        int64_t room, double* cycles, int32_t* running,
                                        double* granted) {
  Recorder recorder{start, end, room, cycles, running, granted, problem->cores};
  Allocator(*problem).run(core, priority, recorder);
  return recorder.count;
}

// `core` and `priority` are one mapping, in and out; arrays of what was tried have `steps` rows.
TW_EXPORT double tw_multicore_anneal(const Problem* problem, uint64_t seed, int32_t* core,
                                     double* priority, int64_t steps, const double* temperature,
                                     int32_t* tried_core, double* tried_priority,
                                     double* tried_makespan) {
  return Annealing(*problem, seed)
      .run(core, priority, steps, temperature, tried_core, tried_priority, tried_makespan);
}
