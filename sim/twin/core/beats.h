// SPDX-License-Identifier: Apache-2.0
// When the beats of a burst move: runs of beats at the rate of their channel.
#ifndef TILEWRIGHT_SIM_TWIN_CORE_BEATS_H_
#define TILEWRIGHT_SIM_TWIN_CORE_BEATS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright::twin {

constexpr uint64_t kForever = ~uint64_t{0} >> 1;  // a cycle that is not known, or never comes

// Times inside a channel are in units of 1/65536 cycle.
constexpr uint64_t kOne = 1 << 16;
constexpr uint64_t Fixed(uint64_t cycle) { return cycle << 16; }
constexpr uint64_t Ceil(uint64_t fixed) { return (fixed + kOne - 1) >> 16; }

// Beats that follow one another at a constant rate, at most one a cycle.
struct BeatRun {
  uint64_t first = 0, last = 0;  // cycles
  uint64_t start = 0;            // of the first beat, in fixed point: not after `first`
  uint64_t cost = kOne;          // of a beat
  uint32_t beats = 0;

  uint64_t At(uint32_t beat) const { return Ceil(start + beat * cost); }

  // Beats before a cycle.
  uint64_t Before(uint64_t cycle) const {
    if (cycle <= first) return 0;
    if (cycle > last) return beats;
    if (cost == kOne) return cycle - first;
    return (Fixed(cycle - 1) - start) / cost + 1;
  }
  uint64_t Within(uint64_t from, uint64_t end) const { return Before(end) - Before(from); }
  bool Has(uint64_t cycle) const {
    if (cycle < first || cycle > last) return false;
    return cost == kOne || Within(cycle, cycle + 1) != 0;
  }
};

// One direction of the DRAM: a beat occupies it for `cost`.
class Channel {
 public:
  void Reset(uint64_t cost) {
    cost_ = cost;
    free_at_ = 0;
  }
  uint64_t cost() const { return cost_; }
  uint64_t free_at() const { return free_at_; }
  void Delay(uint64_t cycles) { free_at_ += Fixed(cycles); }
  // Beats have moved one a cycle, the last of them before a cycle.
  void Moved(uint64_t end) { free_at_ = Fixed(end); }

  // Beats that may move from a cycle on. A fraction of a cycle carries over from the beat before,
  // unless the channel was idle for a cycle.
  void Place(uint64_t from, uint32_t beats, BeatRun& run) {
    run.beats = beats;
    run.cost = cost_;
    run.first = std::max(from, Ceil(free_at_));
    run.start = free_at_ + kOne > Fixed(run.first) ? free_at_ : Fixed(run.first);
    run.last = run.At(beats - 1);
    free_at_ = run.start + beats * cost_;
  }

 private:
  uint64_t cost_ = kOne, free_at_ = 0;
};

// A queue of a few entries that forgets from the front; it grows when it must.
template <typename T>
class Fifo {
 public:
  void Clear() { head_ = size_ = 0; }
  bool empty() const { return head_ == size_; }
  size_t size() const { return size_ - head_; }
  T& front() { return slots_[head_]; }
  T& back() { return slots_[size_ - 1]; }
  T* begin() { return slots_.data() + head_; }
  T* end() { return slots_.data() + size_; }
  void Push(const T& value) { Add() = value; }
  // A new last entry, whose value is not set.
  T& Add() {
    if (size_ == capacity_) MakeRoom();
    return slots_[size_++];
  }
  void Pop() {
    if (++head_ == size_) Clear();
  }
  // Removes an entry, which is one of the last. Returns whether it is there.
  bool Remove(const T& value) {
    T* entry = end();
    while (entry != begin() && entry[-1] > value) --entry;
    if (entry == begin() || entry[-1] != value) return false;
    std::copy(entry, end(), entry - 1);
    --size_;
    return true;
  }

 private:
  void MakeRoom() {
    if (2 * head_ > size_) {
      std::copy(begin(), end(), slots_.data());
      size_ -= head_;
      head_ = 0;
    } else {
      slots_.resize(std::max<size_t>(64, 2 * slots_.size()));
      capacity_ = slots_.size();
    }
  }

  std::vector<T> slots_;
  size_t head_ = 0, size_ = 0, capacity_ = 0;
};

// Beats of one owner in the order of time, of which the past is forgotten.
class BeatLog {
 public:
  void Clear() { runs_.Clear(); }
  // A new last run, to be set.
  BeatRun& Add() { return runs_.Add(); }
  // Adds beats that move one a cycle.
  void Add(uint64_t first, uint64_t beats) {
    if (!runs_.empty() && runs_.back().cost == kOne && runs_.back().last + 1 == first) {
      runs_.back().last += beats;
      runs_.back().beats += static_cast<uint32_t>(beats);
    } else {
      runs_.Push({first, first + beats - 1, Fixed(first), kOne, static_cast<uint32_t>(beats)});
    }
  }
  // Forgets what ended before a cycle.
  void Forget(uint64_t before) {
    while (!runs_.empty() && runs_.front().last < before) runs_.Pop();
  }
  // Whether a beat moves in a cycle, before which all is forgotten.
  bool Has(uint64_t cycle) {
    Forget(cycle);
    return !runs_.empty() && runs_.front().Has(cycle);
  }
  uint64_t Within(uint64_t from, uint64_t end) {
    uint64_t beats = 0;
    for (const BeatRun& run : runs_) beats += run.Within(from, end);
    return beats;
  }
  BeatRun* begin() { return runs_.begin(); }
  BeatRun* end() { return runs_.end(); }

 private:
  Fifo<BeatRun> runs_;
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_CORE_BEATS_H_
