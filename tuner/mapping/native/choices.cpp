// SPDX-License-Identifier: Apache-2.0
#include "tuner/mapping/native/choices.h"

#include <algorithm>

namespace tw::mapping {
namespace {

constexpr double DimCounts::* FIELDS[] = {
    &DimCounts::trips2,   &DimCounts::trips1,    &DimCounts::most_trips1, &DimCounts::compute,
    &DimCounts::pe_tiles, &DimCounts::pe_visits, &DimCounts::pes,         &DimCounts::tile1,
    &DimCounts::span1,    &DimCounts::span2,     &DimCounts::strides1,    &DimCounts::strides2,
};
static_assert(sizeof(DimCounts) == sizeof(double) * (1 + sizeof(FIELDS) / sizeof(FIELDS[0])));

// `most_trips1` matters only by being one, and follows from the others: a choice that is as good
// has no larger chunk, so as many outer steps, and then no more inner ones.
bool compared(double DimCounts::* field, bool timed) {
  if (field == &DimCounts::compute || field == &DimCounts::span1) return timed;
  return field != &DimCounts::most_trips1;
}

double choices_in(const Box& box) {
  double out = 1;
  for (int i = 0; i < PARTS; ++i) out *= double(box.high[i] - box.low[i] + 1);
  return out;
}

}  // namespace

Choices::Choices(const Architecture& arch, int64_t size, int64_t stride, Box box, bool timed,
                 double listed, bool idle_clusters, bool idle_pes)
    : size_(size),
      stride_(stride),
      pes_(arch.pes),
      timed_(timed),
      idle_clusters_(idle_clusters),
      idle_pes_(idle_pes),
      listed_(listed) {
  if (!shrink(box)) return;
  nodes_.push_back({least_of(box), box, std::log(choices_in(box))});
}

// Drops choices that are illegal, or that leave a cluster or a PE idle in every step: one with
// fewer of them costs the same. False: nothing is left.
bool Choices::shrink(Box& box) const {
  auto& low = box.low;
  auto& high = box.high;
  auto at_most = [&](int part, int64_t limit) {
    high[part] = int32_t(std::min<int64_t>(high[part], limit));
  };
  for (int pass = 0; pass < 2; ++pass) {
    at_most(TILE1, high[TILE2]);
    low[TILE2] = std::max(low[TILE2], low[TILE1]);
    if (low[TILE1] < 1 || low[CLUSTERS] < 1 || low[CLUSTER_SIZE] < 1) return false;
    if (!idle_clusters_) {
      at_most(CLUSTERS, (size_ - 1) / low[TILE2] + 1);
      if (low[CLUSTERS] > 1) at_most(TILE2, (size_ - 1) / (low[CLUSTERS] - 1));
    }
    if (!idle_pes_) {
      at_most(CLUSTER_SIZE, (int64_t(high[TILE2]) - 1) / low[TILE1] + 1);
      if (low[CLUSTER_SIZE] > 1)
        at_most(TILE1, (int64_t(high[TILE2]) - 1) / (low[CLUSTER_SIZE] - 1));
    }
    at_most(CLUSTERS, pes_ / low[CLUSTER_SIZE]);
    at_most(CLUSTER_SIZE, pes_ / low[CLUSTERS]);
    for (int i = 0; i < PARTS; ++i)
      if (low[i] > high[i]) return false;
  }
  return true;
}

// A lower bound of every number over the choices of a box.
DimCounts Choices::least_of(const Box& box) const {
  const int64_t a2 = box.low[TILE2], b2 = box.high[TILE2], a1 = box.low[TILE1],
                b1 = box.high[TILE1], g0 = box.low[CLUSTERS], g1 = box.high[CLUSTERS],
                h0 = box.low[CLUSTER_SIZE], h1 = box.high[CLUSTER_SIZE], size = size_;
  if (choices_in(box) == 1) return count(size, a2, g0, a1, h0, stride_);
  const int64_t trips2 = ceil_div(size, std::min(b2 * g1, size));
  const int64_t steps = ceil_div(a2, b1 * h1);          // of the inner loop in a whole cluster tile
  const int64_t busy = std::min(h0, ceil_div(a2, b1));  // PEs with work in a whole cluster tile
  const int64_t clusters = std::min(g1, ceil_div(size, a2));
  const int64_t cluster_size = std::min(h1, ceil_div(b2, a1));
  const int64_t whole = std::min(g0, size / b2), some = std::min(g0, ceil_div(size, b2));
  DimCounts out;
  out.size = double(size);
  out.trips2 = double(trips2);
  out.trips1 =
      double(std::max(ceil_div(size, b1 * std::min(h1 * g1, pes_)), (trips2 - 1) * steps + 1));
  out.most_trips1 = double(steps);
  out.compute = double(std::max({ceil_div(size, std::min(clusters * cluster_size, pes_)), a1,
                                 (trips2 - 1) * ceil_div(a2, cluster_size) + 1}));
  out.pe_tiles = double(ceil_div(size, b1));
  out.pe_visits = double(size / b2 * busy + (size % b2 ? 1 : 0));
  out.pes = double(whole * busy + some - whole);
  out.tile1 = double(a1);
  out.span1 = double(whole * std::min(a1 * h0, a2) + some - whole);
  out.span2 = double(std::min(a2 * g0, size));
  out.strides1 = double(std::max(std::min(stride_, size), ceil_div(size, b1)));
  out.strides2 = double(std::max(std::min(stride_, size), trips2));
  return out;
}

void Choices::open(int32_t id) {
  if (node(id).children != ChoiceNode::UNKNOWN) return;
  nodes_[size_t(id)].children = 0;
  if (node(id).leaf()) return;
  if (choices_in(node(id).box) > listed_) return split_box(id);
  std::vector<Point> points;
  list(node(id).box, points);
  keep_undominated(points);
  if (!points.empty()) add_points(id, points.data(), points.data() + points.size());
}

void Choices::list(const Box& box, std::vector<Point>& points) const {
  for (int32_t g = box.low[CLUSTERS]; g <= box.high[CLUSTERS]; ++g)
    for (int32_t h = box.low[CLUSTER_SIZE]; h <= box.high[CLUSTER_SIZE]; ++h) {
      Box one = box;
      one.low[CLUSTERS] = one.high[CLUSTERS] = g;
      one.low[CLUSTER_SIZE] = one.high[CLUSTER_SIZE] = h;
      if (!shrink(one)) continue;
      for (int32_t tile2 = one.low[TILE2]; tile2 <= one.high[TILE2]; ++tile2)
        for (int32_t tile1 = one.low[TILE1]; tile1 <= std::min(tile2, one.high[TILE1]); ++tile1)
          if (idle_pes_ || int64_t(h - 1) * tile1 < tile2)
            points.push_back({{tile2, tile1, g, h}, count(size_, tile2, g, tile1, h, stride_)});
    }
}

bool Choices::dominates(const Point& a, const Point& b) const {
  if (a.part[CLUSTERS] > b.part[CLUSTERS] || a.part[CLUSTER_SIZE] > b.part[CLUSTER_SIZE])
    return false;
  for (auto field : FIELDS)
    if (a.counts.*field > b.counts.*field && compared(field, timed_)) return false;
  return true;
}

// Of choices that are nowhere better than another, none is needed: every cost rises with every
// number. Of equal ones the first stays.
void Choices::keep_undominated(std::vector<Point>& points) const {
  auto total = [&](const Point& point) {
    double sum = point.part[CLUSTERS] + point.part[CLUSTER_SIZE];
    for (auto field : FIELDS)
      if (compared(field, timed_)) sum += point.counts.*field;
    return sum;
  };
  std::sort(points.begin(), points.end(), [&](const Point& a, const Point& b) {
    const double x = total(a), y = total(b);
    return x != y ? x < y : a.part < b.part;
  });
  size_t kept = 0;
  for (const Point& point : points) {
    bool needed = true;
    for (size_t i = kept; needed && i-- > 0;) needed = !dominates(points[i], point);
    if (needed) points[kept++] = point;
  }
  points.resize(kept);
}

void Choices::split_box(int32_t id) {
  const Box box = nodes_[size_t(id)].box;
  int widest = 0;
  double width = 0;
  for (int i = 0; i < PARTS; ++i) {
    const double ratio = double(box.high[i] + 1) / double(box.low[i]);
    if (box.high[i] > box.low[i] && ratio > width) widest = i, width = ratio;
  }
  const int64_t low = box.low[widest], high = box.high[widest];
  int64_t middle = int64_t(std::sqrt(double(low) * double(high)));
  if (widest == TILE2 && box.low[CLUSTERS] == box.high[CLUSTERS]) {
    // The largest tile with as many outer steps.
    const int64_t wide = box.low[CLUSTERS], trips = ceil_div(size_, middle * wide);
    if (trips > 1) middle = (ceil_div(size_, trips - 1) - 1) / wide;
  }
  middle = std::clamp<int64_t>(middle, low, high - 1);
  Box small = box, large = box;
  small.high[widest] = int32_t(middle);
  large.low[widest] = int32_t(middle + 1);
  add_box(id, small);
  add_box(id, large);
}

void Choices::add(int32_t parent, const ChoiceNode& made) {
  ChoiceNode& above = nodes_[size_t(parent)];
  above.child[size_t(above.children++)] = int32_t(nodes_.size());
  nodes_.push_back(made);
}

void Choices::add_box(int32_t parent, Box box) {
  if (shrink(box)) add(parent, {least_of(box), box, std::log(choices_in(box))});
}

// Makes points the child of a node, as a tree that splits the number that differs most.
void Choices::add_points(int32_t parent, Point* first, Point* last) {
  ChoiceNode made{first->counts, {first->part, first->part}, std::log(double(last - first))};
  DimCounts most = first->counts;
  for (const Point* point = first; point < last; ++point) {
    for (auto field : FIELDS) {
      made.least.*field = std::min(made.least.*field, point->counts.*field);
      most.*field = std::max(most.*field, point->counts.*field);
    }
    for (size_t i = 0; i < PARTS; ++i) {
      made.box.low[i] = std::min(made.box.low[i], point->part[i]);
      made.box.high[i] = std::max(made.box.high[i], point->part[i]);
    }
  }
  const int32_t id = int32_t(nodes_.size());
  add(parent, made);
  if (last - first == 1) return;
  nodes_.back().children = 0;

  double DimCounts::* widest = nullptr;
  int widest_part = 0;
  double width = 1;
  for (auto field : FIELDS)
    if (compared(field, timed_) && most.*field > width * made.least.*field)
      widest = field, width = most.*field / made.least.*field;
  for (int i = CLUSTERS; i < PARTS; ++i)
    if (made.box.high[i] > width * made.box.low[i])
      widest = nullptr, widest_part = i, width = double(made.box.high[i]) / made.box.low[i];
  auto value = [&](const Point& point) {
    return widest ? point.counts.*widest : double(point.part[widest_part]);
  };
  const double low = widest ? made.least.*widest : made.box.low[widest_part];
  Point* middle = std::stable_partition(
      first, last, [&](const Point& point) { return value(point) < low * std::sqrt(width); });
  if (middle == first || middle == last) middle = first + (last - first) / 2;
  add_points(id, first, middle);
  add_points(id, middle, last);
}

}  // namespace tw::mapping
