// SPDX-License-Identifier: Apache-2.0
// The exact mapper's choices for tests: what a tree tells of a box, against all of the box.
#include <algorithm>
#include <limits>
#include <vector>

#include "tuner/mapping/native/choices.h"

using namespace tw::mapping;

#define SHOWN extern "C" __attribute__((visibility("default")))

namespace {

constexpr double DimCounts::* COUNTS[] = {
    &DimCounts::trips2,   &DimCounts::trips1,    &DimCounts::most_trips1, &DimCounts::compute,
    &DimCounts::pe_tiles, &DimCounts::pe_visits, &DimCounts::pes,         &DimCounts::tile1,
    &DimCounts::span1,    &DimCounts::span2,     &DimCounts::strides1,    &DimCounts::strides2,
};

// Whether a leaf can stand in for a choice in every mapping.
bool replaces(const ChoiceNode& leaf, const DimCounts& counts, int clusters, int pes, bool timed) {
  if (leaf.box.low[CLUSTERS] > clusters || leaf.box.low[CLUSTER_SIZE] > pes) return false;
  for (auto count : COUNTS) {
    const bool moves = count == &DimCounts::most_trips1;
    if (!timed && (count == &DimCounts::compute || count == &DimCounts::span1)) continue;
    const double cap = moves ? 1 : std::numeric_limits<double>::infinity();
    if (std::min(leaf.least.*count - moves, cap) > std::min(counts.*count - moves, cap))
      return false;
  }
  return true;
}

}  // namespace

SHOWN int32_t tw_choices_version() { return 1; }

// Writes the root's lower bounds and the least counts of all choices of the box. Gives the number
// of choices that no leaf of the tree replaces.
SHOWN int64_t tw_choices_check(const Architecture* arch, int64_t size, int64_t stride,
                               const Box* box, int32_t timed, int64_t listed, double* bounds,
                               double* least) {
  Choices choices(*arch, size, stride, *box, timed != 0, double(listed));
  const size_t n = sizeof(COUNTS) / sizeof(COUNTS[0]);
  std::fill(least, least + n, std::numeric_limits<double>::infinity());
  std::fill(bounds, bounds + n, 0.0);
  std::vector<ChoiceNode> leaves;
  std::vector<int32_t> open;
  if (!choices.empty()) open.push_back(0);
  for (size_t i = 0; !choices.empty() && i < n; ++i) bounds[i] = choices.node(0).least.*COUNTS[i];
  while (!open.empty()) {
    const int32_t id = open.back();
    open.pop_back();
    choices.open(id);
    const ChoiceNode& node = choices.node(id);
    if (node.leaf()) leaves.push_back(node);
    for (int c = 0; c < node.children; ++c) open.push_back(node.child[size_t(c)]);
  }
  int64_t missed = 0;
  const auto &low = box->low, &high = box->high;
  for (int g = low[CLUSTERS]; g <= high[CLUSTERS]; ++g)
    for (int h = low[CLUSTER_SIZE]; h <= std::min(high[CLUSTER_SIZE], arch->pes / g); ++h)
      for (int tile2 = low[TILE2]; tile2 <= high[TILE2]; ++tile2)
        for (int tile1 = low[TILE1]; tile1 <= std::min(high[TILE1], tile2); ++tile1) {
          // Idle clusters and PEs are left out: fewer of them may be below the box.
          if (int64_t(g - 1) * tile2 >= size || int64_t(h - 1) * tile1 >= tile2) continue;
          const DimCounts counts = count(size, tile2, g, tile1, h, stride);
          for (size_t i = 0; i < n; ++i) least[i] = std::min(least[i], counts.*COUNTS[i]);
          missed += std::none_of(leaves.begin(), leaves.end(), [&](const ChoiceNode& leaf) {
            return replaces(leaf, counts, g, h, timed != 0);
          });
        }
  return missed;
}
