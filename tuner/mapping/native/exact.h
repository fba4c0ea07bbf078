// SPDX-License-Identifier: Apache-2.0
// Branch and bound over all mappings of a nest. A node is one `ChoiceNode` per loop; its bound is
// the cost of the least numbers of each, in the best loop orders. Deterministic; knows no clock.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "tuner/mapping/native/choices.h"
#include "tuner/mapping/native/orders.h"

namespace tw::mapping {

// Mirrors `_CProgress` in exact.py.
struct Progress {
  double best, bound;  // infinite: no legal mapping is known, or there is none
  int64_t nodes;       // of which a bound was computed
  int64_t open;        // nodes that are neither split nor ruled out
  int32_t done;
};

// A mapping that no other one is as good as in cycles and energy.
struct FrontPoint {
  double cycles, energy;
  Point point;
};

class Search {
 public:
  // `area_limit`: mappings of a larger area are not legal. `listed`: see `Choices`. `gap`: a
  // mapping need not be on the front if one there is worse by at most this share in both.
  // `value_limit`: mappings that cost as much or more are not looked for.
  Search(const Nest& nest, const Architecture& arch, Objective objective, double area_limit,
         double listed, const Fixed& fixed, double gap, double value_limit);

  // Looks at about so many nodes more. `gap`: a relative gap at which the search may end.
  void run(int64_t nodes, double gap);
  Progress progress() const;
  const Point& best() const { return best_point_; }
  const std::vector<FrontPoint>& front() const { return front_; }

 private:
  struct Config {
    int parallel2, parallel1;
    std::array<Choices*, DIMS> choices;
    bool mirrored = false;  // swapping Y R with X S changes nothing
    // least_cycles[j][i]: least cycles of the busiest PE with i .. i + 2^j - 1 clusters.
    std::vector<std::vector<double>> least_cycles;
  };
  struct Node {
    double bound;
    int32_t config;
    std::array<int32_t, DIMS> at;
  };

  template <class Consider>
  void consider_orders(const Shape& shape, const DimCounts d[DIMS], Consider consider) const;
  bool surpassed(double cycles, double energy) const;
  Orders best_of(const DimCounts d[DIMS], double clusters, double cluster_size,
                 double least_cycles) const;
  void add_to_front(const DimCounts d[DIMS], Point point);
  Choices* choices_for(int dim, bool outer, bool inner, bool one_cluster, bool one_pe);
  void make_configs();
  void add_least_cycles(Config& config) const;
  double least_cycles(const Config& config, const Box& outer) const;
  double bound_of(const Config& config, const Node& node, const DimCounts d[DIMS]);
  void split(const Node& node, std::vector<Node>& out);
  void solve(const Node& root, int64_t nodes);
  void found(const Config& config, const Node& node, const DimCounts d[DIMS]);
  void improve();
  void push(const Node& node);

  const Nest nest_;
  Architecture arch_;  // with no more PEs than the area allows
  const Objective objective_;
  const double area_limit_, listed_;
  const Fixed fixed_;
  const double gap_;
  const StayOrders outer_orders_, inner_orders_;
  bool orders_fixed_ = false, pixels_fixed_ = false;
  std::vector<FrontPoint> front_;  // fewest cycles first, so most energy first
  std::map<std::array<int64_t, 8>, std::unique_ptr<Choices>> choices_;
  std::vector<Config> configs_;
  std::vector<Node> heap_;   // the least bound first
  std::vector<Node> stack_;  // below one node of the heap, when the heap is full
  double stack_bound_ = std::numeric_limits<double>::infinity();
  size_t next_config_ = 0;
  int64_t nodes_ = 0, popped_ = 0;
  double best_;  // of the best mapping, or the limit
  bool found_ = false;
  Node best_node_{};
  Point best_point_{};
};

}  // namespace tw::mapping
