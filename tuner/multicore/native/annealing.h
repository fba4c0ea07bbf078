// SPDX-License-Identifier: Apache-2.0
// Simulated annealing over mappings of one problem, which `Allocator` judges.
// tuner/multicore/instance.py binds it.
#pragma once

#include <cmath>
#include <random>

#include "tuner/multicore/native/allocation.h"

namespace tw::multicore {

// One chain. What it starts from is a mapping that can run.
class Annealing {
 public:
  Annealing(const Problem& problem, uint64_t seed)
      : p_(problem),
        allocator_(problem),
        random_(seed),
        here_(problem.jobs),
        there_(problem.jobs),
        weight_(problem.jobs),
        queue_(problem.cores),
        bytes_(problem.ports),
        excess_(problem.ports) {}

  // Tries `steps` changes. A rise of the logarithm of the makespan is taken with the chance
  // exp(-rise / temperature). `core` and `priority` hold the mapping that is left, in and out; each
  // mapping that is tried is written into the arrays with `tried`. Returns the makespan left.
  double run(int32_t* core, double* priority, int64_t steps, const double* temperature,
             int32_t* tried_core, double* tried_priority, double* tried_makespan) {
    double value = judge(core, priority, here_);
    for (int64_t step = 0; step < steps; ++step) {
      const double hopeless = value * std::exp(kReach * temperature[step]);
      for (int draw = 0; draw < kDraws; ++draw) {
        std::copy(core, core + p_.jobs, tried_core);
        std::copy(priority, priority + p_.jobs, tried_priority);
        change(tried_core, tried_priority);
        if (bound(tried_core) <= hopeless) break;
      }
      const double found = judge(tried_core, tried_priority, there_);
      if (found <= value || uniform() < std::exp(std::log(value / found) / temperature[step])) {
        std::copy(tried_core, tried_core + p_.jobs, core);
        std::copy(tried_priority, tried_priority + p_.jobs, priority);
        std::swap(here_, there_);
        value = found;
      }
      *tried_makespan++ = found;
      tried_core += p_.jobs;
      tried_priority += p_.jobs;
    }
    return value;
  }

 private:
  // When the jobs of a mapping run.
  struct Times {
    explicit Times(int32_t jobs) : start(jobs), end(jobs) {}
    std::vector<double> start, end;
    void begins(int32_t job, double time) { start[job] = time; }
    void ends(int32_t job, double time) { end[job] = time; }
    void segment(double /*cycles*/, const int32_t* /*running*/, const double* /*granted*/) {}
  };

  // Shares of the changes that begin with a job of the core that ends last, and with a job by the
  // time that it waits for memory. All others begin with any job.
  static constexpr double kLast = 0.35;
  static constexpr double kStalled = 0.4;
  // Chances of a change of cores to move one job, not two, and of one of the order to do so.
  static constexpr double kRelocated = 0.3;
  static constexpr double kRedrawn = 0.2;
  // Stalls of all jobs, as a share of the makespan, below which orders make no difference.
  static constexpr double kNoStall = 1e-9;
  // Rise, in temperatures, from which on a change is not tried: it would hardly be taken.
  static constexpr double kReach = 3;
  // Draws of a change, or of a second job, before the next best thing is done.
  static constexpr int kDraws = 32;

  double judge(const int32_t* core, const double* priority, Times& times) {
    return allocator_.run(core, priority, times);
  }

  // A makespan that the placement cannot go below: bounds.py derives it.
  double bound(const int32_t* core) {
    std::fill(queue_.begin(), queue_.end(), 0.0);
    std::fill(bytes_.begin(), bytes_.end(), 0.0);
    std::fill(excess_.begin(), excess_.end(), 0.0);
    for (int32_t j = 0; j < p_.jobs; ++j) {
      const int64_t at = int64_t(j) * p_.cores + core[j];
      const double wait = p_.latency[at] * std::max(0.0, p_.bandwidth[at] / p_.limit - 1);
      const int32_t port = p_.port[core[j]];
      bytes_[port] += p_.latency[at] * p_.bandwidth[at];
      queue_[core[j]] += p_.latency[at];
      (p_.policy == Policy::PROPORTIONAL ? excess_[port] : queue_[core[j]]) += wait;
    }
    double found = 0;
    for (int32_t c = 0; c < p_.cores; ++c)
      found = std::max({found, queue_[c] + excess_[p_.port[c]], bytes_[p_.port[c]] / p_.limit});
    return found;
  }

  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  int32_t below(int32_t n) { return static_cast<int32_t>(uniform() * n); }
  bool half() { return uniform() < 0.5; }
  bool able(int32_t job, int32_t core) const {
    return !std::isinf(p_.latency[int64_t(job) * p_.cores + core]);
  }

  // A job goes to another core; two jobs of two cores change places; a job gets a new place in the
  // order; two jobs of one core change places.
  void change(int32_t* core, double* priority) {
    double stalls = 0;
    int32_t last = 0;
    for (int32_t j = 0; j < p_.jobs; ++j) {
      weight_[j] = here_.end[j] - here_.start[j] - p_.latency[int64_t(j) * p_.cores + core[j]];
      stalls += weight_[j] = std::max(0.0, weight_[j]);
      if (here_.end[j] > here_.end[last]) last = j;
    }
    const bool orders = stalls > kNoStall * here_.end[last];
    const int32_t one = first(core, core[last], orders ? stalls : 0);
    const bool moves = p_.cores > 1 && (!orders || half());
    if (moves && uniform() < kRelocated) {
      relocate(one, core, priority);
      return;
    }
    const int32_t other = second(one, core, moves);
    if (other < 0) {
      if (moves)
        relocate(one, core, priority);
      else
        priority[one] = uniform();
    } else if (moves) {
      std::swap(core[one], core[other]);
      if (half()) std::swap(priority[one], priority[other]);
    } else if (uniform() < kRedrawn) {
      priority[one] = uniform();
    } else {
      std::swap(priority[one], priority[other]);
    }
  }

  int32_t first(const int32_t* core, int32_t last, double stalls) {
    const double kind = uniform();
    if (kind < kLast) {
      int32_t left = below(static_cast<int32_t>(std::count(core, core + p_.jobs, last)));
      for (int32_t j = 0; j < p_.jobs; ++j)
        if (core[j] == last && left-- == 0) return j;
    }
    if (stalls > 0 && kind < kLast + kStalled) {
      double left = uniform() * stalls;
      for (int32_t j = 0; j < p_.jobs; ++j)
        if ((left -= weight_[j]) < 0) return j;
    }
    return below(p_.jobs);
  }

  // A job that may change places with `one`: of another core, or of the same; -1 when none is hit.
  int32_t second(int32_t one, const int32_t* core, bool elsewhere) {
    for (int draw = 0; draw < kDraws; ++draw) {
      const int32_t j = below(p_.jobs);
      if (j == one || (core[j] != core[one]) != elsewhere) continue;
      if (able(one, core[j]) && able(j, core[one])) return j;
    }
    return -1;
  }

  void relocate(int32_t job, int32_t* core, double* priority) {
    const int32_t own = core[job];
    for (int draw = 0; draw < kDraws && core[job] == own; ++draw)
      if (const int32_t to = below(p_.cores); able(job, to)) core[job] = to;
    if (half()) priority[job] = uniform();
  }

  const Problem p_;
  Allocator allocator_;
  std::mt19937_64 random_;
  Times here_, there_;
  std::vector<double> weight_;  // time that a job waits for memory
  std::vector<double> queue_;   // cycles of each core's jobs
  std::vector<double> bytes_;   // of each port's jobs
  std::vector<double> excess_;  // cycles by which jobs that need more than all lengthen queues
};

}  // namespace tw::multicore
