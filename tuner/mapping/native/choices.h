// SPDX-License-Identifier: Apache-2.0
// All choices for one loop (tiles, clusters, PEs per cluster) as a tree that grows where it is
// looked at. A node knows a lower bound of every number in `DimCounts`; a leaf knows them exactly.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <vector>

#include "tuner/mapping/native/cost.h"

namespace tw::mapping {

// What is chosen for a loop.
enum Part : int { TILE2, TILE1, CLUSTERS, CLUSTER_SIZE, PARTS };

struct Box {
  std::array<int32_t, PARTS> low, high;  // ends included
};

struct ChoiceNode {
  DimCounts least;  // of every choice below
  Box box;          // around every choice below; a leaf's ends are equal
  double weight;    // logarithm of the number of choices; 0: a leaf
  int32_t children = UNKNOWN;
  std::array<int32_t, 2> child{};
  static constexpr int32_t UNKNOWN = -1;

  bool leaf() const { return weight == 0; }
};

class Choices {
 public:
  // `timed`: cycles matter. `listed`: boxes with at most so many choices are listed, and those that
  // another one beats are dropped; larger boxes are split.
  // `idle_clusters`, `idle_pes`: their number is fixed, were it more than there are tiles.
  Choices(const Architecture& arch, int64_t size, int64_t stride, Box box, bool timed,
          double listed, bool idle_clusters = false, bool idle_pes = false);

  bool empty() const { return nodes_.empty(); }
  const ChoiceNode& node(int32_t id) const { return nodes_[size_t(id)]; }
  // Makes the children known: none (a leaf, or nothing is legal), one or two.
  void open(int32_t id);

 private:
  struct Point {
    std::array<int32_t, PARTS> part;
    DimCounts counts;
  };

  bool shrink(Box& box) const;
  DimCounts least_of(const Box& box) const;
  void list(const Box& box, std::vector<Point>& points) const;
  void keep_undominated(std::vector<Point>& points) const;
  bool dominates(const Point& a, const Point& b) const;
  void split_box(int32_t id);
  void add(int32_t parent, const ChoiceNode& made);
  void add_box(int32_t parent, Box box);
  void add_points(int32_t parent, Point* first, Point* last);

  const int64_t size_, stride_, pes_;
  const bool timed_, idle_clusters_, idle_pes_;
  const double listed_;
  std::deque<ChoiceNode> nodes_;
};

}  // namespace tw::mapping
