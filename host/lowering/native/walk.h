// SPDX-License-Identifier: Apache-2.0
// The order of work and the residency of operand tiles, as host/lowering/walk.py.
#ifndef TILEWRIGHT_HOST_LOWERING_NATIVE_WALK_H_
#define TILEWRIGHT_HOST_LOWERING_NATIVE_WALK_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "plan.h"

namespace tilewright::lowering {

// One reduction step of one output tile; indices into the plan's tiles.
struct Item {
  int64_t batch;
  int64_t row;
  int64_t column;
  int64_t co;
  int64_t ci;
  int64_t row_member;
  int64_t co_member;
  int64_t outer;
  int64_t context;
  bool first;
  bool last;
};

// Enumerates the items of a plan in execution order.
class Walk {
 public:
  void Start(const Plan& plan) {
    plan_ = &plan;
    batch_ = column_ = row_chunk_ = co_chunk_ = 0;
    ci_ = row_member_ = outer_ = done_ = 0;
    row_chunks_ = BlocksOf(plan.rows.tiling.count, plan.schedule.h_threading);
    co_chunks_ = BlocksOf(plan.co_tiles.count, plan.schedule.oc_threading);
    EnterGroup();
    EnterOuter();
    position_ = -1;
    co_member_ = -1;
  }

  // Writes the next item; false after the last one.
  bool Next(Item& item) {
    ++position_;
    if (++co_member_ == co_members_) {
      co_member_ = 0;
      if (++row_member_ == row_members_) {
        row_member_ = 0;
        if (++ci_ == plan_->ci_tiles.count && !NextGroup()) return false;
      }
    }
    item.batch = batch_;
    item.row = row_chunk_ * plan_->schedule.h_threading + row_member_;
    item.column = column_;
    item.co = co_chunk_ * plan_->schedule.oc_threading + co_member_;
    item.ci = ci_;
    item.row_member = row_member_;
    item.co_member = co_member_;
    item.outer = outer_;
    item.context = (done_ + row_member_ * co_members_ + co_member_) & (plan_->contexts - 1);
    item.first = ci_ == 0;
    item.last = ci_ == plan_->ci_tiles.count - 1;
    return true;
  }

  // Index of the item in its group of the outer loop.
  int64_t position() const { return position_; }

  // With two sets of a stationary operand: the items of this group of the outer loop, and the
  // stationary tiles of the next one in the order of their first use. No tiles otherwise.
  int64_t outer_items() const { return outer_items_; }
  int64_t upcoming() const { return upcoming_; }
  Item Upcoming(int64_t order) const {
    Item item = next_;
    item.ci = order / upcoming_members_;
    const int64_t member = order % upcoming_members_;
    if (plan_->wgt_copies != 0) {
      item.co_member = member;
      item.co += member;
    } else {
      item.row_member = member;
      item.row += member;
    }
    return item;
  }

 private:
  bool NextGroup() {
    done_ += row_members_ * co_members_;
    ci_ = 0;
    const bool weights_stay = plan_->wgt_copies != 0;
    if (weights_stay ? StepSpatial(batch_, row_chunk_, column_) : StepChannels()) {
      EnterGroup();
      return true;
    }
    if (!(weights_stay ? StepChannels() : StepSpatial(batch_, row_chunk_, column_))) {
      return false;
    }
    EnterGroup();
    ++outer_;
    position_ = 0;
    EnterOuter();
    return true;
  }

  // Both wrap to the start and return false after the last.
  bool StepSpatial(int64_t& batch, int64_t& row_chunk, int64_t& column) const {
    if (++column < plan_->columns.tiling.count) return true;
    column = 0;
    if (++row_chunk < row_chunks_) return true;
    row_chunk = 0;
    if (++batch < plan_->batch_tiles.count) return true;
    batch = 0;
    return false;
  }

  bool StepChannels() {
    if (++co_chunk_ < co_chunks_) return true;
    co_chunk_ = 0;
    return false;
  }

  int64_t RowMembers(int64_t chunk) const {
    const int64_t size = plan_->schedule.h_threading;
    return std::min(size, plan_->rows.tiling.count - chunk * size);
  }

  int64_t CoMembers(int64_t chunk) const {
    const int64_t size = plan_->schedule.oc_threading;
    return std::min(size, plan_->co_tiles.count - chunk * size);
  }

  void EnterGroup() {
    row_members_ = RowMembers(row_chunk_);
    co_members_ = CoMembers(co_chunk_);
  }

  // With two sets of a stationary operand: the size of this group of the outer loop, and the
  // first item of the next one.
  void EnterOuter() {
    const Plan& plan = *plan_;
    const int64_t steps = plan.ci_tiles.count;
    upcoming_ = 0;
    if (plan.wgt_copies < 2 && plan.inp_copies < 2) return;
    next_ = {};
    next_.batch = batch_;
    next_.column = column_;
    next_.outer = outer_ + 1;
    if (plan.wgt_copies != 0) {
      outer_items_ = steps * co_members_ * plan.batch_tiles.count * plan.columns.tiling.count *
                     plan.rows.tiling.count;
      if (co_chunk_ + 1 == co_chunks_) return;
      upcoming_members_ = CoMembers(co_chunk_ + 1);
      next_.co = (co_chunk_ + 1) * plan.schedule.oc_threading;
    } else {
      outer_items_ = steps * row_members_ * plan.co_tiles.count;
      int64_t chunk = row_chunk_;
      if (!StepSpatial(next_.batch, chunk, next_.column)) return;
      upcoming_members_ = RowMembers(chunk);
      next_.row = chunk * plan.schedule.h_threading;
    }
    upcoming_ = steps * upcoming_members_;
  }

  const Plan* plan_ = nullptr;
  int64_t row_chunks_ = 0, co_chunks_ = 0;
  int64_t batch_ = 0, row_chunk_ = 0, column_ = 0, co_chunk_ = 0, outer_ = 0;
  int64_t ci_ = 0, row_member_ = 0, co_member_ = 0;
  int64_t row_members_ = 0, co_members_ = 0;
  int64_t done_ = 0;  // members of the groups before
  int64_t position_ = 0, outer_items_ = 0;
  Item next_{};
  int64_t upcoming_ = 0, upcoming_members_ = 1;
};

// Slots of a scratchpad and the operand tiles in them. Tiles are numbers; equal ones hold equal
// data.
class Residency {
 public:
  void Reset(int64_t slots) {
    content_.assign(static_cast<size_t>(slots), kEmpty);
    next_ = 0;
  }

  int64_t slots() const { return static_cast<int64_t>(content_.size()); }

  // The slot of a streamed tile, and whether it must be loaded (slots in rotation).
  std::pair<int64_t, bool> Stream(int64_t tile) {
    for (size_t slot = 0; slot < content_.size(); ++slot) {
      if (content_[slot] == tile) return {static_cast<int64_t>(slot), false};
    }
    const size_t slot = next_;
    next_ = slot + 1 == content_.size() ? 0 : slot + 1;
    content_[slot] = tile;
    return {static_cast<int64_t>(slot), true};
  }

  // Puts a tile into a slot; whether it must be loaded.
  bool Place(int64_t slot, int64_t tile) {
    int64_t& here = content_[static_cast<size_t>(slot)];
    return std::exchange(here, tile) != tile;
  }

 private:
  static constexpr int64_t kEmpty = -1;
  std::vector<int64_t> content_;
  size_t next_ = 0;
};

}  // namespace tilewright::lowering

#endif  // TILEWRIGHT_HOST_LOWERING_NATIVE_WALK_H_
