// SPDX-License-Identifier: Apache-2.0
// The cost model's inside for tests: counts per loop, and the cost of counts that a test changed.
#include "tuner/mapping/native/cost.h"

using namespace tw::mapping;

#define SHOWN extern "C" __attribute__((visibility("default")))

SHOWN int32_t tw_counts_version() { return 1; }

SHOWN void tw_counts_of_point(const Nest* nest, const Point* point, DimCounts* counts,
                              Refetch* refetch) {
  count_all(*nest, *point, counts);
  *refetch = refetch_of(*nest, *point, counts);
}

SHOWN void tw_cost_of_counts(const Nest* nest, const Architecture* arch, const DimCounts* counts,
                             const Refetch* refetch, const Point* point, Cost* cost) {
  *cost = cost_of(*nest, *arch, counts, *refetch, point->clusters, point->cluster_size);
}
