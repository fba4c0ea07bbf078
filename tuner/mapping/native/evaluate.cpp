// SPDX-License-Identifier: Apache-2.0
// Costs of a batch of mappings. Signatures are bound in tuner/mapping/cost.py.
#include "tuner/mapping/native/cost.h"
#include "tuner/mapping/native/orders.h"

#define TW_EXPORT extern "C" __attribute__((visibility("default")))

using namespace tw::mapping;

namespace {

// Rules of a mapping; the order of `Rule` in cost.py.
enum Verdict : int32_t { LEGAL, TILE, ORDER, PARALLEL, PES, L1_CAPACITY, L2_CAPACITY };

bool permutation(const int32_t order[DIMS]) {
  unsigned seen = 0;
  for (int i = 0; i < DIMS; ++i) {
    if (order[i] < 0 || order[i] >= DIMS) return false;
    seen |= bit(order[i]);
  }
  return seen == (1u << DIMS) - 1;
}

Verdict before_cost(const Nest& nest, const Architecture& arch, const Point& p) {
  for (int i = 0; i < DIMS; ++i)
    if (p.tile1[i] < 1 || p.tile1[i] > p.tile2[i] || p.tile2[i] > nest.size[i]) return TILE;
  if (!permutation(p.order2) || !permutation(p.order1)) return ORDER;
  auto allowed = [](uint32_t mask, int32_t dim) {
    return dim >= 0 && dim < DIMS && (mask & bit(dim));
  };
  if (!allowed(arch.outer_parallel, p.parallel2) || !allowed(arch.inner_parallel, p.parallel1))
    return PARALLEL;
  return arch.has(p.clusters, p.cluster_size) ? LEGAL : PES;
}

}  // namespace

TW_EXPORT int32_t tw_mapping_version() { return 2; }

// `verdicts[i]` is 0 for a legal row; `costs[i]` is written unless the row has no cost at all.
TW_EXPORT void tw_mapping_evaluate(const Nest* nest, const Architecture* arch, const Point* points,
                                   int64_t n, int32_t* verdicts, Cost* costs) {
  for (int64_t i = 0; i < n; ++i) {
    const Point& p = points[i];
    verdicts[i] = before_cost(*nest, *arch, p);
    if (verdicts[i] != LEGAL) {
      costs[i] = Cost{};
      continue;
    }
    DimCounts d[DIMS];
    count_all(*nest, p, d);
    const Refetch refetch = refetch_of(*nest, p, d);
    costs[i] = cost_of(*nest, *arch, d, refetch, p.clusters, p.cluster_size);
    if (arch->l1_bytes > 0 && costs[i].l1_bytes > arch->l1_bytes) verdicts[i] = L1_CAPACITY;
    if (arch->l2_bytes > 0 && costs[i].l2_bytes > arch->l2_bytes) verdicts[i] = L2_CAPACITY;
  }
}

// Gives legal points the loop orders that cost least.
TW_EXPORT void tw_mapping_order(const Nest* nest, const Architecture* arch, int32_t objective,
                                Point* points, int64_t n) {
  const int32_t free[DIMS] = {-1, -1, -1, -1, -1, -1};
  const StayOrders stays = stay_orders(*nest, free);
  for (int64_t i = 0; i < n; ++i) {
    Point& p = points[i];
    DimCounts d[DIMS];
    count_all(*nest, p, d);
    const Orders orders =
        best_orders(*nest, *arch, d, p.clusters, p.cluster_size, Objective(objective));
    std::copy_n(stays.order[orders.outer], DIMS, p.order2);
    std::copy_n(stays.order[orders.inner], DIMS, p.order1);
  }
}
