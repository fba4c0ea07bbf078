// SPDX-License-Identifier: Apache-2.0
// The best loop orders of a mapping whose tiles are known.
//
// No loop is irrelevant to two tensors (conv: Y X, K, C R S; depthwise: Y X, K, R S). So at one
// level at most one tensor stays while loops turn that do not index it: the tensor to which the
// innermost moving loop is irrelevant. It stays longest when all its irrelevant loops are
// innermost. Three orders per level are therefore enough, one per tensor. A tensor of which a PE
// tile is the whole share of a cluster tile is held at the inner level in every order; that saves
// something beyond these orders only where it also stays at the outer level.
//
// A fixed part of an order changes none of this: which loops are free to be innermost does. With
// fixed loops, all nine pairs of these orders are tried, as the rules of `around` count them.
//
// Everything here also holds for lower bounds of the numbers in `DimCounts`.
#pragma once

#include <limits>

#include "tuner/mapping/native/cost.h"

namespace tw::mapping {

// PARETO: energy times latency of those that no mapping of a `Front` is as good as in both.
enum class Objective : int32_t { LATENCY, ENERGY, EDP, AREA, PARETO };

inline double value_of(const Cost& cost, Objective objective) {
  if (objective == Objective::LATENCY) return cost.cycles;
  if (objective == Objective::ENERGY) return cost.energy;
  return objective == Objective::AREA ? cost.area : cost.energy * cost.cycles;
}

// What the user fixed; mirrors `CFixed` in fixed.py.
struct Fixed {
  int32_t tile2[DIMS], tile1[DIMS];    // 0: free
  int32_t order2[DIMS], order1[DIMS];  // -1: free
  int32_t clusters, cluster_size;      // 0: free
};

// The loop order of a level in which a tensor stays, by the tensor.
struct StayOrders {
  int32_t order[TENSORS][DIMS];
};

// Loops, outermost first, with those innermost that do not index the tensor that stays, around and
// inside the fixed ones.
inline StayOrders stay_orders(const Nest& nest, const int32_t fixed[DIMS]) {
  StayOrders out;
  unsigned given = 0;
  for (int i = 0; i < DIMS; ++i)
    if (fixed[i] >= 0) given |= bit(fixed[i]);
  for (int t = 0; t < TENSORS; ++t) {
    int free[DIMS], count = 0, next = 0;
    for (unsigned inside : {0u, 1u})
      for (int i = 0; i < DIMS; ++i)
        if (!(given & bit(i)) && (nest.relevant(t) & bit(i)) == (inside ? 0 : bit(i)))
          free[count++] = i;
    for (int i = 0; i < DIMS; ++i) out.order[t][i] = fixed[i] >= 0 ? fixed[i] : free[next++];
  }
  return out;
}

struct Orders {
  double value = std::numeric_limits<double>::infinity();
  int outer = WEIGHTS, inner = WEIGHTS;  // which tensor stays
};

inline unsigned irrelevant(const Nest& nest, int tensor) {
  return ((1u << DIMS) - 1) & ~nest.relevant(tensor);
}

// Calls `consider(cost, outer, inner)` for every pair of orders that can be the best one.
template <class Consider>
void each_order(const Nest& nest, const Architecture& arch, const DimCounts d[DIMS],
                const Shape& shape, Consider consider) {
  constexpr unsigned ALL = (1u << DIMS) - 1;
  TensorTraffic stays[TENSORS], moves[TENSORS];
  Traffic moved;
  for (int t = 0; t < TENSORS; ++t) {
    stays[t] = tensor_traffic(nest, d, t, 0, 0, false);
    moves[t] = tensor_traffic(nest, d, t, ALL, ALL, false);
    moved.set(t, moves[t]);
  }
  // Every cost rises with the bytes to and from DRAM, so those alone choose the outer order.
  int outer = WEIGHTS;
  double least = std::numeric_limits<double>::infinity();
  for (int t = 0; t < TENSORS; ++t) {
    moved.dram[t] = stays[t].dram;
    const double bytes = dram_crossing(shape, moved.dram).all();
    if (bytes < least) least = bytes, outer = t;
    moved.dram[t] = moves[t].dram;
  }
  moved.dram[outer] = stays[outer].dram;
  for (int t = 0; t < TENSORS; ++t) {
    moved.noc[t] = stays[t].noc, moved.deliver[t] = stays[t].deliver;
    consider(cost_of(arch, shape, moved), outer, t);
    moved.noc[t] = moves[t].noc, moved.deliver[t] = moves[t].deliver;
  }
  moved.dram[outer] = moves[outer].dram;
  for (int held = 0; held < TENSORS; ++held) {
    const unsigned relevant = nest.relevant(held);
    bool moving = false;
    for (int i = 0; i < DIMS; ++i) moving |= (relevant & bit(i)) && d[i].most_trips1 > 1;
    if (moving) continue;
    // Loops that are irrelevant to another tensor index this one, so they do not move.
    for (int t = 0; t < TENSORS; ++t) {
      moved.set(t, stays[t]);
      if (t != held) moved.dram[t] = moves[t].dram;
    }
    const TensorTraffic once = tensor_traffic(nest, d, held, 0, 0, true);
    moved.noc[held] = once.noc, moved.deliver[held] = once.deliver;
    consider(cost_of(arch, shape, moved), held, held);
  }
}

// The same where some loops have a fixed place.
template <class Consider>
void each_fixed_order(const Nest& nest, const Architecture& arch, const DimCounts d[DIMS],
                      const Shape& shape, const StayOrders& outer, const StayOrders& inner,
                      Consider consider) {
  unsigned moving2 = 0, moving1 = 0;
  for (int i = 0; i < DIMS; ++i) {
    if (d[i].trips2 > 1) moving2 |= bit(i);
    if (d[i].most_trips1 > 1) moving1 |= bit(i);
  }
  unsigned outside2[TENSORS][TENSORS], outside1[TENSORS][TENSORS];  // [order][tensor]
  for (int o = 0; o < TENSORS; ++o)
    for (int t = 0; t < TENSORS; ++t) {
      outside2[o][t] = around(outer.order[o], moving2, nest.relevant(t));
      outside1[o][t] = around(inner.order[o], moving1, nest.relevant(t));
    }
  auto seen = [](const unsigned outside[TENSORS][TENSORS], int o) {
    for (int before = 0; before < o; ++before)
      if (std::equal(outside[o], outside[o] + TENSORS, outside[before])) return true;
    return false;
  };
  for (int o = 0; o < TENSORS; ++o) {
    if (seen(outside2, o)) continue;
    for (int i = 0; i < TENSORS; ++i) {
      if (seen(outside1, i)) continue;
      Traffic moved;
      for (int t = 0; t < TENSORS; ++t)
        moved.set(t, tensor_traffic(nest, d, t, outside2[o][t], outside1[i][t],
                                    !(moving1 & nest.relevant(t))));
      consider(cost_of(arch, shape, moved), o, i);
    }
  }
}

// The best cost over all loop orders; infinite where a tile does not fit.
inline Orders best_orders(const Nest& nest, const Architecture& arch, const DimCounts d[DIMS],
                          double clusters, double cluster_size, Objective objective) {
  Orders best;
  const Shape shape = shape_of(nest, arch, d, clusters, cluster_size);
  if (!fits(arch, shape)) return best;
  each_order(nest, arch, d, shape, [&](const Cost& cost, int outer, int inner) {
    const double value = value_of(cost, objective);
    if (value < best.value) best = {value, outer, inner};
  });
  return best;
}

}  // namespace tw::mapping
