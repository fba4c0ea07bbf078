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
// Everything here also holds for lower bounds of the numbers in `DimCounts`.
#pragma once

#include <limits>

#include "tuner/mapping/native/cost.h"

namespace tw::mapping {

enum class Objective : int32_t { LATENCY, ENERGY, EDP, AREA };

inline double value_of(const Cost& cost, Objective objective) {
  if (objective == Objective::LATENCY) return cost.cycles;
  if (objective == Objective::ENERGY) return cost.energy;
  return objective == Objective::EDP ? cost.energy * cost.cycles : cost.area;
}

struct Orders {
  double value = std::numeric_limits<double>::infinity();
  int outer = WEIGHTS, inner = WEIGHTS;  // which tensor stays
};

inline unsigned irrelevant(const Nest& nest, int tensor) {
  return ((1u << DIMS) - 1) & ~nest.relevant(tensor);
}

// The best cost over all loop orders; infinite where a tile does not fit, or the area is above
// `area_limit`. `least_cycles`: another lower bound of the cycles of the busiest PE.
inline Orders best_orders(const Nest& nest, const Architecture& arch, const DimCounts d[DIMS],
                          double clusters, double cluster_size, Objective objective,
                          double area_limit, double least_cycles = 0) {
  constexpr unsigned ALL = (1u << DIMS) - 1;
  Orders best;
  Shape shape = shape_of(nest, arch, d, clusters, cluster_size);
  if (!fits(arch, shape)) return best;
  shape.mac_cycles = std::max(shape.mac_cycles, least_cycles);
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
    const double bytes = crossing(arch, shape, moved.dram).all();
    if (bytes < least) least = bytes, outer = t;
    moved.dram[t] = moves[t].dram;
  }
  moved.dram[outer] = stays[outer].dram;
  auto consider = [&](int outer_stays, int inner_stays) {
    const Cost cost = cost_of(arch, shape, moved);
    const double value = value_of(cost, objective);
    if (cost.area <= area_limit && value < best.value) best = {value, outer_stays, inner_stays};
  };
  for (int t = 0; t < TENSORS; ++t) {
    moved.noc[t] = stays[t].noc, moved.deliver[t] = stays[t].deliver;
    consider(outer, t);
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
    consider(held, held);
  }
  return best;
}

// Loops, outermost first, with those innermost that do not index the tensor that stays.
inline void write_order(const Nest& nest, int stays, int32_t order[DIMS]) {
  const unsigned inside = irrelevant(nest, stays);
  int at = 0;
  for (int i = 0; i < DIMS; ++i)
    if (!(inside & bit(i))) order[at++] = i;
  for (int i = 0; i < DIMS; ++i)
    if (inside & bit(i)) order[at++] = i;
}

}  // namespace tw::mapping
