// SPDX-License-Identifier: Apache-2.0
// The cost of a mapping. docs/explanation/mapping-model.md derives every formula.
//
// All quantities are exact integers until they meet a bandwidth or an energy. Every total is a
// product, over the six loops, of one number per loop (`DimCounts`), and never falls when one of
// those numbers rises: the exact mapper rests on that.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tw::mapping {

enum Dim : int { K, C, Y, X, R, S, DIMS };
enum Tensor : int { WEIGHTS, INPUTS, OUTPUTS, TENSORS };

// Masks over loops: bit d is loop d.
constexpr unsigned bit(int dim) { return 1u << dim; }

// SUMS: partial sums, which the nest goes on with and leaves as such. RESULTS: complete outputs.
enum Resident : int { HELD_WEIGHTS, HELD_INPUTS, HELD_SUMS, HELD_RESULTS };

struct Nest {
  int32_t size[DIMS];
  int32_t stride[2];  // of Y and X
  int32_t depthwise;
  uint32_t resident;  // bits of `Resident`: what L2 holds whole and does not exchange with DRAM

  bool holds(int part) const { return resident & (1u << part); }
  unsigned relevant(int tensor) const {
    const unsigned kernel = bit(R) | bit(S), pixels = bit(Y) | bit(X);
    if (tensor == WEIGHTS) return bit(K) | bit(C) | kernel;
    if (tensor == INPUTS) return bit(C) | pixels | kernel;
    return bit(K) | pixels | (depthwise ? bit(C) : 0u);
  }
};

// Mirrors `Architecture`; bytes, bytes per cycle, picojoules per byte, square micrometres.
struct Architecture {
  double bytes[TENSORS];  // of one element
  double partial_bytes;   // of an output that is not complete
  double noc_bandwidth, dram_bandwidth;
  double pass_cycles;  // of a PE tile, beyond its MACs
  double mac_energy, l1_energy, l2_energy, noc_energy, dram_energy;
  double pe_area, l1_area, l2_area, noc_area;
  double l1_bytes, l2_bytes;  // capacity per PE, and shared; 0: as large as the mapping asks for
  double buffers;             // copies of a tile: 2 where the next one loads meanwhile
  int32_t pes;
  int32_t max_clusters, max_cluster_size;   // 0: any
  uint32_t outer_parallel, inner_parallel;  // masks of the loops that may be spread

  bool has(int64_t clusters, int64_t cluster_size) const {
    return clusters >= 1 && cluster_size >= 1 && clusters * cluster_size <= pes &&
           (max_clusters == 0 || clusters <= max_clusters) &&
           (max_cluster_size == 0 || cluster_size <= max_cluster_size);
  }
};

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// What one loop contributes. `tile2` and `tile1` are its tiles, `wide2` and `wide1` the clusters
// and PEs that it is spread over (1: not parallel).
struct DimCounts {
  double size;
  double trips2;        // steps of the outer loop
  double trips1;        // steps of the inner loop, over all outer steps
  double most_trips1;   // steps of the inner loop in the first (longest) outer step
  double compute;       // iterations of the busiest PE, over all steps
  double pe_tiles;      // PE tiles, over all steps and PEs
  double pe_visits;     // PEs with work, over all outer steps
  double pes;           // PEs with work in the first outer step
  double tile1, span1;  // of the first step: one PE's iterations, all PEs' iterations
  double span2;         // of the first outer step: all clusters' iterations
  double strides1;      // sum over PE tiles of min(stride, tile)
  double strides2;      // sum over outer steps of min(stride, span)
};

inline double tiles_of(int64_t extent, int64_t tile) { return double(ceil_div(extent, tile)); }

// Iterations of the first PE, over the inner steps of a cluster tile of `extent` iterations.
inline int64_t busiest(int64_t extent, int64_t tile, int64_t wide, int64_t trips) {
  return (trips - 1) * tile + std::min(tile, extent - (trips - 1) * tile * wide);
}

// Sum of min(stride, length) over the tiles of `extent` iterations.
inline int64_t stride_sum(int64_t extent, int64_t tile, int64_t stride) {
  const int64_t full = extent / tile, rest = extent - full * tile;
  return full * std::min(stride, tile) + std::min(stride, rest);
}

inline DimCounts count(int64_t size, int64_t tile2, int64_t wide2, int64_t tile1, int64_t wide1,
                       int64_t stride) {
  DimCounts out;
  const int64_t chunk = std::min(tile2 * wide2, size), trips2 = ceil_div(size, chunk);
  const int64_t rest = size - (trips2 - 1) * chunk;  // of the last outer step
  const int64_t first = std::min(tile2, size), last = std::min(tile2, rest);
  const int64_t step = tile1 * wide1;
  const int64_t trips_first = ceil_div(first, step), trips_last = ceil_div(last, step);
  out.size = double(size);
  out.trips2 = double(trips2);
  out.trips1 = double((trips2 - 1) * trips_first + trips_last);
  out.most_trips1 = double(trips2 > 1 ? trips_first : trips_last);
  out.compute = double((trips2 - 1) * busiest(first, tile1, wide1, trips_first) +
                       busiest(last, tile1, wide1, trips_last));
  // Clusters of an outer step: whole ones of tile2 iterations, then one with what is left.
  auto whole = [&](int64_t extent) { return extent / tile2; };
  auto left = [&](int64_t extent) { return extent % tile2; };
  const int64_t full_tiles = ceil_div(tile2, tile1);
  auto pe_tiles = [&](int64_t extent) {
    return whole(extent) * full_tiles + ceil_div(left(extent), tile1);
  };
  auto active = [&](int64_t extent) {
    return whole(extent) * std::min(wide1, full_tiles) +
           std::min(wide1, ceil_div(left(extent), tile1));
  };
  auto span = [&](int64_t extent) {
    return whole(extent) * std::min(step, tile2) + std::min(step, left(extent));
  };
  out.pe_tiles = double((trips2 - 1) * pe_tiles(chunk) + pe_tiles(rest));
  out.pe_visits = double((trips2 - 1) * active(chunk) + active(rest));
  out.pes = double(active(chunk));
  out.tile1 = double(std::min(tile1, first));
  out.span1 = double(span(chunk));
  out.span2 = double(chunk);
  auto strides = [&](int64_t extent) {
    return whole(extent) * stride_sum(tile2, tile1, stride) +
           stride_sum(left(extent), tile1, stride);
  };
  out.strides1 = double((trips2 - 1) * strides(chunk) + strides(rest));
  out.strides2 = double((trips2 - 1) * std::min(stride, chunk) + std::min(stride, rest));
  return out;
}

// Rows of input under `outputs` rows of output and `kernel` taps.
inline double window(double outputs, double kernel, double stride) {
  return (outputs - 1) * std::min(stride, kernel) + kernel;
}

// Which loops fetch a tensor's tile anew. Bit d of a mask: loop d counts, though it does not index
// the tensor. `held`: the PE tile is the whole of the cluster tile's share, and stays.
struct Refetch {
  unsigned outer[TENSORS];
  unsigned inner[TENSORS];
  bool held[TENSORS];
};

struct TensorTraffic {
  double dram;     // elements between DRAM and L2; outputs: visits
  double noc;      // elements that leave or enter L2; one multicast counts once
  double deliver;  // elements that PEs take in or give out, copies counted
};

struct Traffic {
  double dram[TENSORS], noc[TENSORS], deliver[TENSORS];

  void set(int tensor, const TensorTraffic& of) {
    dram[tensor] = of.dram, noc[tensor] = of.noc, deliver[tensor] = of.deliver;
  }
};

// Input elements: `rows` and `columns` count tiles times window, halos included each time.
inline double halo(const DimCounts& out, const DimCounts& kernel, double tiles_out,
                   double tiles_kernel_strides) {
  return (out.size - tiles_out) * tiles_kernel_strides + kernel.size * tiles_out;
}

// Traffic of one tensor. Loops of the masks that index it do not matter.
inline TensorTraffic tensor_traffic(const Nest& nest, const DimCounts d[DIMS], int t,
                                    unsigned refetch_outer, unsigned refetch_inner, bool held) {
  const unsigned relevant = nest.relevant(t);
  double dram = 1, noc = 1, deliver = 1;
  for (int i = 0; i < DIMS; ++i) {
    if (relevant & bit(i)) {
      if (t == INPUTS && i != C) continue;  // halos, below
      dram *= d[i].size, noc *= d[i].size, deliver *= d[i].size;
      continue;
    }
    const bool outer = refetch_outer & bit(i), inner = refetch_inner & bit(i);
    if (outer) dram *= d[i].trips2;
    if (held) {
      noc *= outer ? d[i].trips2 : 1;
      deliver *= outer ? d[i].pe_visits : d[i].pes;
    } else {
      noc *= inner ? d[i].trips1 : d[i].trips2;
      deliver *= inner ? d[i].pe_tiles : d[i].pe_visits;
    }
  }
  if (t == INPUTS) {
    const double rows2 = halo(d[Y], d[R], d[Y].trips2, d[R].strides2);
    const double columns2 = halo(d[X], d[S], d[X].trips2, d[S].strides2);
    const double rows1 = halo(d[Y], d[R], d[Y].pe_tiles, d[R].strides1);
    const double columns1 = halo(d[X], d[S], d[X].pe_tiles, d[S].strides1);
    dram *= rows2 * columns2;
    noc *= rows1 * columns1, deliver *= rows1 * columns1;
  }
  return {dram, noc, deliver};
}

inline Traffic traffic_of(const Nest& nest, const DimCounts d[DIMS], const Refetch& refetch) {
  Traffic out;
  for (int t = 0; t < TENSORS; ++t)
    out.set(t, tensor_traffic(nest, d, t, refetch.outer[t], refetch.inner[t], refetch.held[t]));
  return out;
}

// Elements of a tensor's tile, one number per loop given by `extent(d)`.
template <class Extent>
double tile_elements(const Nest& nest, int tensor, Extent extent) {
  if (tensor == WEIGHTS) return extent(K) * extent(C) * extent(R) * extent(S);
  if (tensor == OUTPUTS)
    return extent(K) * extent(Y) * extent(X) * (nest.depthwise ? extent(C) : 1);
  return extent(C) * window(extent(Y), extent(R), nest.stride[0]) *
         window(extent(X), extent(S), nest.stride[1]);
}

struct Cost {
  double cycles, energy, area;
  double compute_cycles, noc_in_bytes, noc_out_bytes, dram_bytes[TENSORS];
  double l2_bytes_moved, delivered_bytes;
  double l1_bytes, l2_bytes;  // that the tiles need
  double pes;
};

inline double product(const DimCounts d[DIMS], double DimCounts::* field) {
  return (d[K].*field * d[C].*field) * (d[Y].*field * d[X].*field) * (d[R].*field * d[S].*field);
}

// What no refetch changes: what tiles need, and cycles of the PEs.
struct Shape {
  double outputs, macs;       // of the nest
  double l1_bytes, l2_bytes;  // that the tiles need
  double fill_cycles, pes;
  double width[TENSORS], partial_width;  // of what crosses to DRAM: bytes; 0: it does not
  double begun;                          // outputs that begin without earlier sums
  double results, results_away;          // bytes of complete outputs, by the NoC and to DRAM
  double mac_cycles, pass_cycles;        // of the busiest PE: its MACs, and beyond them
};

inline Shape shape_of(const Nest& nest, const Architecture& arch, const DimCounts d[DIMS],
                      double clusters, double cluster_size) {
  const double* bytes = arch.bytes;
  auto of_pe = [&](int i) { return d[i].tile1; };
  auto of_pes = [&](int i) { return d[i].span1; };
  auto of_l2 = [&](int i) { return d[i].span2; };
  auto footprint = [&](auto extent) {
    return tile_elements(nest, WEIGHTS, extent) * bytes[WEIGHTS] +
           tile_elements(nest, INPUTS, extent) * bytes[INPUTS];
  };
  Shape out;
  double first2 = footprint(of_l2), results2 = tile_elements(nest, OUTPUTS, of_l2);
  double held2 = 0, tiles2 = first2 + results2 * arch.partial_bytes;
  results2 *= bytes[OUTPUTS];
  const double first1 = footprint(of_pes);
  const double results1 = tile_elements(nest, OUTPUTS, of_pes) * bytes[OUTPUTS];
  out.outputs = d[K].size * d[Y].size * d[X].size * (nest.depthwise ? d[C].size : 1);
  out.macs = product(d, &DimCounts::size);
  out.begun = out.outputs, out.partial_width = arch.partial_bytes;
  out.results = out.results_away = out.outputs * bytes[OUTPUTS];
  for (int t : {WEIGHTS, INPUTS}) out.width[t] = bytes[t];
  if (nest.resident) {
    first2 = tiles2 = 0;
    for (int t : {WEIGHTS, INPUTS}) {
      const double tile = tile_elements(nest, t, of_l2) * bytes[t];
      if (nest.holds(t)) {
        held2 += tile_elements(nest, t, [&](int i) { return d[i].size; }) * bytes[t];
        out.width[t] = 0;
      } else {
        first2 += tile, tiles2 += tile;
      }
    }
    if (nest.holds(HELD_RESULTS)) held2 += out.results, results2 = out.results_away = 0;
    if (nest.holds(HELD_SUMS)) {
      held2 += out.outputs * arch.partial_bytes;
      results2 = out.results = out.results_away = out.begun = out.partial_width = 0;
    } else {
      tiles2 += tile_elements(nest, OUTPUTS, of_l2) * arch.partial_bytes;
    }
  }
  out.l1_bytes =
      arch.buffers * (footprint(of_pe) + tile_elements(nest, OUTPUTS, of_pe) * arch.partial_bytes);
  out.l2_bytes = arch.buffers * tiles2 + held2;
  out.fill_cycles =
      (first2 + results2) / arch.dram_bandwidth + (first1 + results1) / arch.noc_bandwidth;
  out.mac_cycles = product(d, &DimCounts::compute);
  out.pass_cycles = arch.pass_cycles > 0 ? product(d, &DimCounts::trips1) * arch.pass_cycles : 0;
  out.pes = clusters * cluster_size;
  return out;
}

// Bytes at one boundary; `crossing` is between L2 and the PEs.
struct Crossing {
  double in;    // weights and inputs
  double back;  // partial sums that are read again
  double away;  // partial sums and results

  double all() const { return in + back + away; }
};

inline Crossing crossing(const Architecture& arch, const Shape& shape,
                         const double visits[TENSORS]) {
  Crossing out;
  out.in = visits[WEIGHTS] * arch.bytes[WEIGHTS] + visits[INPUTS] * arch.bytes[INPUTS];
  out.back = (visits[OUTPUTS] - shape.begun) * arch.partial_bytes;
  out.away = out.back + shape.results;
  return out;
}

// Bytes between DRAM and L2.
inline Crossing dram_crossing(const Shape& shape, const double visits[TENSORS]) {
  Crossing out;
  out.in = visits[WEIGHTS] * shape.width[WEIGHTS] + visits[INPUTS] * shape.width[INPUTS];
  out.back = (visits[OUTPUTS] - shape.begun) * shape.partial_width;
  out.away = out.back + shape.results_away;
  return out;
}

inline bool fits(const Architecture& arch, const Shape& shape) {
  return !(arch.l1_bytes > 0 && shape.l1_bytes > arch.l1_bytes) &&
         !(arch.l2_bytes > 0 && shape.l2_bytes > arch.l2_bytes);
}

inline Cost cost_of(const Architecture& arch, const Shape& shape, const Traffic& moved) {
  const double* bytes = arch.bytes;
  Cost out;
  const Crossing dram = dram_crossing(shape, moved.dram);
  const Crossing noc = crossing(arch, shape, moved.noc);
  for (int t : {WEIGHTS, INPUTS}) out.dram_bytes[t] = moved.dram[t] * shape.width[t];
  out.dram_bytes[OUTPUTS] = dram.back + dram.away;
  out.noc_in_bytes = noc.in + noc.back;
  out.noc_out_bytes = noc.away;
  out.l2_bytes_moved = dram.all() + noc.all();
  out.delivered_bytes = moved.deliver[WEIGHTS] * bytes[WEIGHTS] +
                        moved.deliver[INPUTS] * bytes[INPUTS] +
                        moved.deliver[OUTPUTS] * (2 * arch.partial_bytes);
  out.l1_bytes = shape.l1_bytes;
  out.l2_bytes = shape.l2_bytes;
  out.pes = shape.pes;

  out.compute_cycles = shape.mac_cycles + shape.pass_cycles;
  const double noc_cycles = std::max(out.noc_in_bytes, out.noc_out_bytes) / arch.noc_bandwidth;
  const double dram_cycles = dram.all() / arch.dram_bandwidth;
  out.cycles =
      std::ceil(std::max({out.compute_cycles, noc_cycles, dram_cycles}) + shape.fill_cycles);

  const double l1_bytes_moved =
      shape.macs * (bytes[WEIGHTS] + bytes[INPUTS] + 2 * arch.partial_bytes) + out.delivered_bytes;
  out.energy = shape.macs * arch.mac_energy + l1_bytes_moved * arch.l1_energy +
               out.delivered_bytes * arch.noc_energy + out.l2_bytes_moved * arch.l2_energy +
               dram.all() * arch.dram_energy;
  const double l1_size = arch.l1_bytes > 0 ? arch.l1_bytes : out.l1_bytes;
  const double l2_size = arch.l2_bytes > 0 ? arch.l2_bytes : out.l2_bytes;
  out.area = out.pes * (arch.pe_area + l1_size * arch.l1_area) + l2_size * arch.l2_area +
             arch.noc_bandwidth * arch.noc_area;
  return out;
}

inline Cost cost_of(const Nest& nest, const Architecture& arch, const DimCounts d[DIMS],
                    const Refetch& refetch, double clusters, double cluster_size) {
  return cost_of(arch, shape_of(nest, arch, d, clusters, cluster_size),
                 traffic_of(nest, d, refetch));
}

// One row of a batch; the order of `COLUMNS` in mapping.py.
struct Point {
  int32_t tile2[DIMS], tile1[DIMS], order2[DIMS], order1[DIMS];
  int32_t parallel2, parallel1, clusters, cluster_size;
};

// Loops that repeat around the innermost one that both moves and indexes a tensor.
inline unsigned around(const int32_t order[DIMS], unsigned moving, unsigned relevant) {
  unsigned outside = 0;
  int innermost = -1;
  for (int i = 0; i < DIMS; ++i)
    if (moving & relevant & bit(order[i])) innermost = i;
  for (int i = 0; i < innermost; ++i) outside |= bit(order[i]);
  return outside & ~relevant;
}

inline Refetch refetch_of(const Nest& nest, const Point& point, const DimCounts d[DIMS]) {
  unsigned moving2 = 0, moving1 = 0;
  for (int i = 0; i < DIMS; ++i) {
    if (d[i].trips2 > 1) moving2 |= bit(i);
    if (d[i].most_trips1 > 1) moving1 |= bit(i);
  }
  Refetch out;
  for (int t = 0; t < TENSORS; ++t) {
    const unsigned relevant = nest.relevant(t);
    out.outer[t] = around(point.order2, moving2, relevant);
    out.inner[t] = around(point.order1, moving1, relevant);
    out.held[t] = !(moving1 & relevant);
  }
  return out;
}

inline void count_all(const Nest& nest, const Point& p, DimCounts d[DIMS]) {
  for (int i = 0; i < DIMS; ++i) {
    const int64_t stride = i == R ? nest.stride[0] : i == S ? nest.stride[1] : 1;
    d[i] = count(nest.size[i], p.tile2[i], p.parallel2 == i ? p.clusters : 1, p.tile1[i],
                 p.parallel1 == i ? p.cluster_size : 1, stride);
  }
}

}  // namespace tw::mapping
