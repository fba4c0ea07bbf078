// SPDX-License-Identifier: Apache-2.0
#include "tuner/mapping/native/exact.h"

#include <algorithm>
#include <cmath>

namespace tw::mapping {
namespace {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr size_t HEAP_LIMIT = 20'000;     // small enough to stay in a cache
constexpr int64_t FIRST_NODES = 2'000;    // to find a first mapping of a pair of parallel loops
constexpr int64_t IMPROVE_NODES = 4'000;  // to improve a mapping in two loops
constexpr int64_t DIVE_EVERY = 256, DIVE_NODES = 1'000;

// Loops of the input's columns take the place of the loops of its rows.
int mirrored(int dim) {
  if (dim == Y) return X;
  if (dim == X) return Y;
  if (dim == R) return S;
  return dim == S ? R : dim;
}

}  // namespace

Search::Search(const Nest& nest, const Architecture& arch, Objective objective, double area_limit,
               double listed, const Fixed& fixed, double gap, double value_limit)
    : nest_(nest),
      arch_(arch),
      objective_(objective),
      area_limit_(area_limit),
      listed_(listed),
      fixed_(fixed),
      gap_(gap),
      outer_orders_(stay_orders(nest, fixed.order2)),
      inner_orders_(stay_orders(nest, fixed.order1)),
      best_(value_limit) {
  for (int i = 0; i < DIMS; ++i) {
    orders_fixed_ |= fixed.order2[i] >= 0 || fixed.order1[i] >= 0;
    pixels_fixed_ |= i != K && i != C && (fixed.tile2[i] || fixed.tile1[i]);
  }
  // PEs that alone exceed the area are none.
  const double shared = arch.l2_bytes * arch.l2_area + arch.noc_bandwidth * arch.noc_area;
  const double of_pe = arch.pe_area + arch.l1_bytes * arch.l1_area;
  auto exceeds = [&](int32_t pes) { return pes * of_pe + shared > area_limit * (1 + 1e-9); };
  if (exceeds(arch.pes)) {
    int32_t most = 1;
    for (int32_t above = arch.pes; above - most > 1;) {
      const int32_t middle = most + (above - most) / 2;
      (exceeds(middle) ? above : most) = middle;
    }
    arch_.pes = most;
  }
  make_configs();
}

// Equal loops share one tree, so that mirrored mappings are made of the same choices.
Choices* Search::choices_for(int dim, bool outer, bool inner, bool one_cluster, bool one_pe) {
  const int64_t size = nest_.size[dim];
  const int64_t stride = dim == R ? nest_.stride[0] : dim == S ? nest_.stride[1] : 1;
  const int32_t tile2 = fixed_.tile2[dim], tile1 = fixed_.tile1[dim];
  auto& made = choices_[{size, stride, outer, inner, one_cluster, one_pe, tile2, tile1}];
  if (!made) {
    auto at_most = [&](int32_t limit) {
      return limit > 0 ? std::min(limit, arch_.pes) : arch_.pes;
    };
    const int32_t length = int32_t(size);
    Box box{{1, 1, outer && !one_cluster ? 2 : 1, inner && !one_pe ? 2 : 1},
            {length, length, outer ? at_most(arch_.max_clusters) : 1,
             inner ? at_most(arch_.max_cluster_size) : 1}};
    auto fix = [&](int part, int32_t value) {
      if (value <= 0) return;
      box.low[size_t(part)] = std::max(box.low[size_t(part)], value);
      box.high[size_t(part)] = std::min(box.high[size_t(part)], value);
    };
    fix(TILE2, tile2), fix(TILE1, tile1);
    if (outer) fix(CLUSTERS, fixed_.clusters);
    if (inner) fix(CLUSTER_SIZE, fixed_.cluster_size);
    const bool timed = objective_ != Objective::ENERGY && objective_ != Objective::AREA;
    made =
        std::make_unique<Choices>(arch_, size, stride, box, timed, listed_,
                                  outer && fixed_.clusters > 1, inner && fixed_.cluster_size > 1);
  }
  return made.get();
}

// One cluster (one PE) is the same for every parallel loop: only the first one may have it.
void Search::make_configs() {
  auto swapped = [](unsigned mask) {
    unsigned out = 0;
    for (int i = 0; i < DIMS; ++i)
      if (mask & bit(i)) out |= bit(mirrored(i));
    return out;
  };
  const bool mirror = !orders_fixed_ && !pixels_fixed_ && nest_.size[Y] == nest_.size[X] &&
                      nest_.size[R] == nest_.size[S] && nest_.stride[0] == nest_.stride[1] &&
                      swapped(arch_.outer_parallel) == arch_.outer_parallel &&
                      swapped(arch_.inner_parallel) == arch_.inner_parallel;
  int first2 = 0, first1 = 0;
  while (!(arch_.outer_parallel & bit(first2))) ++first2;
  while (!(arch_.inner_parallel & bit(first1))) ++first1;
  for (int p2 = 0; p2 < DIMS; ++p2)
    for (int p1 = 0; p1 < DIMS; ++p1) {
      if (!(arch_.outer_parallel & bit(p2)) || !(arch_.inner_parallel & bit(p1))) continue;
      Config config;
      config.parallel2 = p2, config.parallel1 = p1;
      bool empty = false;
      for (int i = 0; i < DIMS; ++i) {
        config.choices[size_t(i)] = choices_for(i, p2 == i, p1 == i, first2 == i, first1 == i);
        empty |= config.choices[size_t(i)]->empty();
      }
      if (empty) continue;
      auto same = [&](int a, int b) {
        return config.choices[size_t(a)] == config.choices[size_t(b)];
      };
      config.mirrored = mirror && same(Y, X) && same(R, S);
      add_least_cycles(config);
      configs_.push_back(std::move(config));
    }
}

// Clusters and PEs per cluster share the PEs of the architecture. The bounds of two loops do not
// know of each other, so this one joins them.
void Search::add_least_cycles(Config& config) const {
  const int64_t size2 = nest_.size[config.parallel2], size1 = nest_.size[config.parallel1];
  double others = 1;
  for (int i = 0; i < DIMS; ++i)
    if (i != config.parallel2 && i != config.parallel1) others *= double(nest_.size[i]);
  const int64_t most = std::min<int64_t>(size2, arch_.pes);
  std::vector<double> row(size_t(most) + 1, INFINITE);
  for (int64_t clusters = 1; clusters <= most; ++clusters) {
    int64_t pes = arch_.pes / clusters;
    if (arch_.max_cluster_size > 0) pes = std::min<int64_t>(pes, arch_.max_cluster_size);
    row[size_t(clusters)] =
        others * double(config.parallel2 == config.parallel1
                            ? ceil_div(size2, clusters * pes)
                            : ceil_div(size2, clusters) * ceil_div(size1, std::min(pes, size1)));
  }
  config.least_cycles.push_back(row);
  for (size_t step = 1; 2 * step <= size_t(most); step *= 2) {
    const std::vector<double>& half = config.least_cycles.back();
    std::vector<double> next(half.size() - step, INFINITE);
    for (size_t i = 1; i < next.size(); ++i) next[i] = std::min(half[i], half[i + step]);
    config.least_cycles.push_back(std::move(next));
  }
}

double Search::least_cycles(const Config& config, const Box& outer) const {
  const size_t most = config.least_cycles[0].size() - 1;  // more clusters than iterations idle
  const size_t low = std::min(size_t(outer.low[CLUSTERS]), most);
  const size_t high = std::min(size_t(outer.high[CLUSTERS]), most);
  size_t level = 0;
  while ((size_t(2) << level) <= high - low + 1) ++level;
  const std::vector<double>& row = config.least_cycles[level];
  return std::min(row[low], row[high + 1 - (size_t(1) << level)]);
}

double Search::bound_of(const Config& config, const Node& node, const DimCounts d[DIMS]) {
  ++nodes_;
  auto box = [&](int dim) -> const Box& {
    return config.choices[size_t(dim)]->node(node.at[size_t(dim)]).box;
  };
  const Box &outer = box(config.parallel2), &inner = box(config.parallel1);
  const int32_t clusters = outer.low[CLUSTERS], cluster_size = inner.low[CLUSTER_SIZE];
  if (!arch_.has(clusters, cluster_size)) return INFINITE;
  if (config.mirrored && box(Y).high[TILE2] < box(X).low[TILE2]) return INFINITE;
  return best_of(d, clusters, cluster_size, least_cycles(config, outer)).value;
}

template <class Consider>
void Search::consider_orders(const Shape& shape, const DimCounts d[DIMS], Consider consider) const {
  if (orders_fixed_)
    each_fixed_order(nest_, arch_, d, shape, outer_orders_, inner_orders_, consider);
  else
    each_order(nest_, arch_, d, shape, consider);
}

// Whether a mapping of the front is as good, but for the gap.
bool Search::surpassed(double cycles, double energy) const {
  const double keep = 1 - gap_;
  auto slower = [&](double least, const FrontPoint& one) { return least < one.cycles * keep; };
  const auto after = std::upper_bound(front_.begin(), front_.end(), cycles, slower);
  return after != front_.begin() && std::prev(after)->energy * keep <= energy;
}

// The best cost over all loop orders; infinite where a tile does not fit, or the area is above the
// limit. `least_cycles`: another lower bound of the cycles of the busiest PE.
Orders Search::best_of(const DimCounts d[DIMS], double clusters, double cluster_size,
                       double least_cycles) const {
  Orders best;
  Shape shape = shape_of(nest_, arch_, d, clusters, cluster_size);
  if (!fits(arch_, shape)) return best;
  shape.mac_cycles = std::max(shape.mac_cycles, least_cycles);
  consider_orders(shape, d, [&](const Cost& cost, int outer, int inner) {
    const double value = value_of(cost, objective_);
    if (cost.area > area_limit_ || value >= best.value) return;
    if (objective_ == Objective::PARETO && surpassed(cost.cycles, cost.energy)) return;
    best = {value, outer, inner};
  });
  return best;
}

void Search::add_to_front(const DimCounts d[DIMS], Point point) {
  const Shape shape = shape_of(nest_, arch_, d, point.clusters, point.cluster_size);
  consider_orders(shape, d, [&](const Cost& assumed, int outer, int inner) {
    if (surpassed(assumed.cycles, assumed.energy)) return;
    std::copy_n(outer_orders_.order[outer], DIMS, point.order2);
    std::copy_n(inner_orders_.order[inner], DIMS, point.order1);
    // Other tensors may stay, too, so that these orders cost less.
    const Cost cost = cost_of(arch_, shape, traffic_of(nest_, d, refetch_of(nest_, point, d)));
    auto beaten = [&](const FrontPoint& one) {
      return one.cycles >= cost.cycles && one.energy >= cost.energy;
    };
    front_.erase(std::remove_if(front_.begin(), front_.end(), beaten), front_.end());
    auto slower = [](double cycles, const FrontPoint& one) { return cycles < one.cycles; };
    front_.insert(std::upper_bound(front_.begin(), front_.end(), cost.cycles, slower),
                  {cost.cycles, cost.energy, point});
  });
}

void Search::found(const Config& config, const Node& node, const DimCounts d[DIMS]) {
  auto part = [&](int dim, int which) {
    return config.choices[size_t(dim)]->node(node.at[size_t(dim)]).box.low[size_t(which)];
  };
  Point point;
  for (int i = 0; i < DIMS; ++i) point.tile2[i] = part(i, TILE2), point.tile1[i] = part(i, TILE1);
  point.parallel2 = config.parallel2, point.parallel1 = config.parallel1;
  point.clusters = part(config.parallel2, CLUSTERS);
  point.cluster_size = part(config.parallel1, CLUSTER_SIZE);
  if (objective_ == Objective::PARETO) return add_to_front(d, point);
  const Orders orders = best_of(d, point.clusters, point.cluster_size, 0);
  std::copy_n(outer_orders_.order[orders.outer], DIMS, point.order2);
  std::copy_n(inner_orders_.order[orders.inner], DIMS, point.order1);
  best_point_ = point;
  best_ = orders.value;
  found_ = true;
  best_node_ = node;
}

// Splits a node at the loop where that rules out most; a loop with one child that can still be
// better is narrowed to it at once. What remains is appended; a leaf becomes the best mapping.
void Search::split(const Node& given, std::vector<Node>& out) {
  Node node = given;
  const Config& config = configs_[size_t(node.config)];
  DimCounts d[DIMS];
  auto load = [&](size_t i) { d[i] = config.choices[i]->node(node.at[i]).least; };
  for (size_t i = 0; i < DIMS; ++i) load(i);
  while (true) {
    bool narrowed = false, leaf = true;
    double best_score = -1;
    size_t chosen = 0;
    double bounds[2] = {INFINITE, INFINITE};
    for (size_t i = 0; i < DIMS; ++i) {
      Choices& choices = *config.choices[i];
      const int32_t at = node.at[i];
      if (choices.node(at).leaf()) continue;
      leaf = false;
      choices.open(at);
      const ChoiceNode& above = choices.node(at);
      double values[2] = {INFINITE, INFINITE};
      int alive = 0, last = 0;
      for (int c = 0; c < above.children; ++c) {
        node.at[i] = above.child[size_t(c)];
        load(i);
        values[c] = std::max(node.bound, bound_of(config, node, d));
        if (values[c] < best_) ++alive, last = c;
      }
      if (alive == 0) return;
      if (alive == 1) {
        node.at[i] = above.child[size_t(last)];
        node.bound = values[last];
        load(i);
        narrowed = true;
        continue;
      }
      node.at[i] = at;
      load(i);
      // The product of what both sides gain; where nothing is gained, the widest loop.
      const double small = 1e-9 * node.bound;
      const double score = (values[0] - node.bound + small) * (values[1] - node.bound + small) *
                           (1 + 1e-3 * above.weight);
      if (score > best_score) {
        best_score = score, chosen = i;
        bounds[0] = values[0], bounds[1] = values[1];
      }
    }
    if (leaf) {
      const double value = bound_of(config, node, d);
      if (value < best_) found(config, node, d);
      return;
    }
    if (narrowed) continue;
    const ChoiceNode& above = config.choices[chosen]->node(node.at[chosen]);
    const int better = bounds[1] < bounds[0];
    for (int c : {1 - better, better}) {  // the better one last: a stack takes it first
      Node child = node;
      child.at[chosen] = above.child[size_t(c)];
      child.bound = bounds[c];
      out.push_back(child);
    }
    return;
  }
}

// Depth first below a node, at most so many nodes: finds mappings, proves nothing.
void Search::solve(const Node& root, int64_t nodes) {
  std::vector<Node> open{root};
  const int64_t limit = nodes_ + nodes;
  while (!open.empty() && nodes_ < limit) {
    const Node node = open.back();
    open.pop_back();
    if (node.bound < best_) split(node, open);
  }
}

// Looks for better choices of two loops at a time, the others as in the best mapping.
void Search::improve() {
  for (double before = INFINITE; best_ < before;) {
    before = best_;
    for (size_t i = 0; i < DIMS; ++i)
      for (size_t j = i + 1; j < DIMS; ++j) {
        Node node = best_node_;
        node.at[i] = node.at[j] = 0;
        node.bound = 0;
        solve(node, IMPROVE_NODES);
      }
  }
}

void Search::push(const Node& node) {
  auto later = [](const Node& a, const Node& b) { return a.bound > b.bound; };
  heap_.push_back(node);
  std::push_heap(heap_.begin(), heap_.end(), later);
}

void Search::run(int64_t nodes, double gap) {
  const int64_t limit = nodes_ + nodes;
  auto later = [](const Node& a, const Node& b) { return a.bound > b.bound; };
  std::vector<Node> children;
  while (nodes_ < limit) {
    if (next_config_ < configs_.size()) {
      Node root{0, int32_t(next_config_++), {}};
      DimCounts d[DIMS];
      const Config& config = configs_[size_t(root.config)];
      for (size_t i = 0; i < DIMS; ++i) d[i] = config.choices[i]->node(0).least;
      root.bound = bound_of(config, root, d);
      push(root);
      if (root.bound < best_) solve(root, FIRST_NODES);
      if (next_config_ == configs_.size() && found_) improve();
      continue;
    }
    if (!stack_.empty()) {
      const Node node = stack_.back();
      stack_.pop_back();
      if (node.bound < best_) split(node, stack_);
      continue;
    }
    stack_bound_ = INFINITE;
    if (heap_.empty() || heap_.front().bound >= best_ * (1 - gap)) return;
    const Node node = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    if (heap_.size() > HEAP_LIMIT) {
      stack_bound_ = node.bound;
      stack_.push_back(node);
      continue;
    }
    if (++popped_ % DIVE_EVERY == 0) {
      const double before = best_;
      solve(node, DIVE_NODES);
      if (best_ < before) improve();
    }
    children.clear();
    split(node, children);
    for (const Node& child : children) push(child);
  }
}

Progress Search::progress() const {
  const bool rooted = next_config_ == configs_.size();
  double bound = std::min(best_, stack_.empty() ? INFINITE : stack_bound_);
  if (!heap_.empty()) bound = std::min(bound, heap_.front().bound);
  if (!rooted) bound = 0;
  return {found_ ? best_ : INFINITE, bound, nodes_, int64_t(heap_.size() + stack_.size()),
          rooted && bound >= best_};
}

}  // namespace tw::mapping

using namespace tw::mapping;

#define TW_EXPORT extern "C" __attribute__((visibility("default")))

TW_EXPORT void* tw_mapping_exact_new(const Nest* nest, const Architecture* arch, int32_t objective,
                                     double area_limit, int64_t listed, const Fixed* fixed,
                                     double gap, double value_limit) {
  return new Search(*nest, *arch, Objective(objective), area_limit, double(listed), *fixed, gap,
                    value_limit);
}

// The front by now, fewest cycles first: how many, and as many of them as there is room for.
TW_EXPORT int64_t tw_mapping_exact_front(const void* search, Point* points, int64_t room) {
  const std::vector<FrontPoint>& front = static_cast<const Search*>(search)->front();
  for (int64_t i = 0; i < std::min(room, int64_t(front.size())); ++i)
    points[i] = front[size_t(i)].point;
  return int64_t(front.size());
}

TW_EXPORT void tw_mapping_exact_run(void* search, int64_t nodes, double gap, Progress* progress,
                                    Point* best) {
  auto* of = static_cast<Search*>(search);
  of->run(nodes, gap);
  *progress = of->progress();
  *best = of->best();
}

TW_EXPORT void tw_mapping_exact_free(void* search) { delete static_cast<Search*>(search); }
