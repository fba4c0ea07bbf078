// SPDX-License-Identifier: Apache-2.0
// Jobs on cores that share the bandwidth of memory ports: a fluid model, event by event.
// docs/explanation/multicore-model.md derives it; tuner/multicore/allocation.py binds it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace tw::multicore {

// The order of `Policy` in allocation.py.
enum class Policy : int32_t { PROPORTIONAL, PRIORITY, EQUAL, REGULATED };

struct Problem {
  const double* latency;    // [jobs, cores], cycles without stalls; infinite: cannot run there
  const double* bandwidth;  // [jobs, cores], bytes per cycle that keep the job from stalling
  const double* budgets;    // [cores], bytes per window, for REGULATED; infinite: no limit
  const double* weights;    // [cores], for REGULATED
  const int32_t* port;      // [cores], of the memory port behind which a core is
  double limit;             // bytes per cycle that the cores of a port have together
  double window;            // cycles, for REGULATED
  int32_t jobs;
  int32_t cores;
  int32_t ports;
  Policy policy;
};

// What `Allocator::run` tells; this one wants to know nothing.
struct Deaf {
  void begins(int32_t /*job*/, double /*time*/) {}
  void ends(int32_t /*job*/, double /*time*/) {}
  // `running` and `granted` have an entry per core: its job or -1, and its bytes per cycle.
  void segment(double /*cycles*/, const int32_t* /*running*/, const double* /*granted*/) {}
};

// Runs mappings of one problem; keeps its memory between them.
class Allocator {
 public:
  explicit Allocator(const Problem& problem)
      : p_(problem),
        order_(p_.jobs),
        queue_(p_.jobs),
        weight_(p_.jobs),
        head_(p_.cores + 1),
        end_(p_.cores),
        running_(p_.cores),
        left_(p_.cores),
        need_(p_.cores),
        share_(p_.cores),
        granted_(p_.cores),
        moved_(p_.cores) {}

  // Cycles until the last job ends; infinite where a job is on a core that cannot run it.
  template <class Listener>
  double run(const int32_t* core, const double* priority, Listener&& listener) {
    if (!enqueue(core, priority)) return std::numeric_limits<double>::infinity();
    double time = 0;
    for (int32_t c = 0; c < p_.cores; ++c) begin_next(c, time, listener);
    if (regulated()) open_window();
    while (active_ > 0) {
      for (int32_t port = 0; port < p_.ports; ++port) share(port);
      const double cycles = until_event();
      listener.segment(cycles, running_.data(), granted_.data());
      time += cycles;
      for (int32_t c = 0; c < p_.cores; ++c)
        if (running_[c] >= 0) advance(c, cycles, time, listener);
      if (regulated() && (window_left_ -= cycles) <= kRounding * p_.window) {
        if (unchanged_) time += repeat_window(listener);
        open_window();
      }
    }
    return time;
  }

 private:
  // Share of a whole below which a rest is the rounding of its last step.
  static constexpr double kRounding = 1e-12;

  bool regulated() const { return p_.policy == Policy::REGULATED; }

  // Bytes that the core may still move in this window.
  double tokens(int32_t c) const {
    const double rest = p_.budgets[c] - moved_[c];
    return rest > kRounding * moved_[c] ? rest : 0;
  }

  // Queues of the cores, one after the other: lower priorities first, equal ones by job.
  bool enqueue(const int32_t* core, const double* priority) {
    std::fill(head_.begin(), head_.end(), 0);
    for (int32_t j = 0; j < p_.jobs; ++j) {
      if (std::isinf(p_.latency[int64_t(j) * p_.cores + core[j]])) return false;
      order_[j] = {priority[j], j};
      ++head_[core[j] + 1];
    }
    std::sort(order_.begin(), order_.end());
    for (int32_t c = 0; c < p_.cores; ++c) {
      head_[c + 1] += head_[c];
      end_[c] = head_[c];
    }
    for (int32_t rank = 0; rank < p_.jobs; ++rank) {
      const int32_t j = order_[rank].second;
      queue_[end_[core[j]]++] = j;
      if (p_.policy == Policy::PRIORITY) weight_[j] = p_.jobs - rank;
    }
    active_ = p_.cores;
    return true;
  }

  template <class Listener>
  void begin_next(int32_t c, double time, Listener& listener) {
    granted_[c] = 0;
    if (head_[c] == end_[c]) {
      running_[c] = -1;
      --active_;
      return;
    }
    const int32_t j = queue_[head_[c]++];
    running_[c] = j;
    left_[c] = p_.latency[int64_t(j) * p_.cores + c];
    need_[c] = p_.bandwidth[int64_t(j) * p_.cores + c];
    listener.begins(j, time);
  }

  double weight(int32_t c) const {
    if (p_.policy == Policy::PROPORTIONAL) return need_[c];
    if (p_.policy == Policy::PRIORITY) return weight_[running_[c]];
    return regulated() ? p_.weights[c] : 1;
  }

  // Weighted max-min shares: by weight, no job above its need, what is left over goes round again.
  void share(int32_t port) {
    double weights = 0;
    for (int32_t c = 0; c < p_.cores; ++c) {
      if (p_.port[c] != port) continue;
      granted_[c] = share_[c] = 0;
      if (running_[c] < 0 || (regulated() && tokens(c) <= 0)) continue;
      share_[c] = weight(c);
      weights += share_[c];
    }
    double free = p_.limit;
    for (bool again = true; again && weights > 0;) {
      again = false;
      const double per_weight = free / weights;
      for (int32_t c = 0; c < p_.cores; ++c)
        if (p_.port[c] == port && share_[c] > 0 && need_[c] <= per_weight * share_[c]) {
          granted_[c] = need_[c];
          free -= need_[c];
          weights -= share_[c];
          share_[c] = 0;
          again = true;
        }
      if (!again)
        for (int32_t c = 0; c < p_.cores; ++c)
          if (p_.port[c] == port && share_[c] > 0) granted_[c] = per_weight * share_[c];
    }
  }

  double until_event() const {
    double cycles = regulated() ? window_left_ : std::numeric_limits<double>::infinity();
    for (int32_t c = 0; c < p_.cores; ++c) {
      if (granted_[c] <= 0) continue;
      cycles = std::min(cycles, left_[c] * (need_[c] / granted_[c]));
      if (regulated()) cycles = std::min(cycles, tokens(c) / granted_[c]);
    }
    return cycles;
  }

  template <class Listener>
  void advance(int32_t c, double cycles, double time, Listener& listener) {
    const int32_t j = running_[c];
    left_[c] -= cycles * (granted_[c] / need_[c]);
    moved_[c] += cycles * granted_[c];
    if (left_[c] > kRounding * p_.latency[int64_t(j) * p_.cores + c]) return;
    listener.ends(j, time);
    begin_next(c, time, listener);
    unchanged_ = false;
  }

  void open_window() {
    std::fill(moved_.begin(), moved_.end(), 0.0);
    window_left_ = p_.window;
    unchanged_ = true;
  }

  // A window in which no job ends is like the next one: takes as many as end no job; their cycles.
  template <class Listener>
  double repeat_window(Listener& listener) {
    double times = std::numeric_limits<double>::infinity();
    for (int32_t c = 0; c < p_.cores; ++c)
      if (running_[c] >= 0) times = std::min(times, std::floor(left_[c] * need_[c] / moved_[c]));
    if (--times < 1) return 0;
    for (int32_t c = 0; c < p_.cores; ++c) {
      granted_[c] = running_[c] < 0 ? 0 : moved_[c] / p_.window;
      if (running_[c] >= 0) left_[c] -= times * (moved_[c] / need_[c]);
    }
    listener.segment(times * p_.window, running_.data(), granted_.data());
    return times * p_.window;
  }

  const Problem p_;
  std::vector<std::pair<double, int32_t>> order_;
  std::vector<int32_t> queue_;
  std::vector<double> weight_;  // per job, for PRIORITY
  std::vector<int32_t> head_;   // per core: its next job in `queue_`
  std::vector<int32_t> end_;
  std::vector<int32_t> running_;
  std::vector<double> left_;  // cycles without stalls that the core's job still takes
  std::vector<double> need_, share_, granted_;
  std::vector<double> moved_;  // bytes of the core in this window
  double window_left_ = 0;
  int32_t active_ = 0;
  bool unchanged_ = true;  // no job has ended in this window
};

}  // namespace tw::multicore
