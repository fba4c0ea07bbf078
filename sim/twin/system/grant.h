// SPDX-License-Identifier: Apache-2.0
// Who of several cores gets the next burst of a direction of a memory port (tw_grant).
//
// What is asked for stays as it is until somebody asks, is granted or completes a burst, or a
// window begins. So the unit is looked at in those cycles, and the waits between are counted.
#ifndef TILEWRIGHT_SIM_TWIN_SYSTEM_GRANT_H_
#define TILEWRIGHT_SIM_TWIN_SYSTEM_GRANT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/twin/core/beats.h"
#include "sim/twin/core/hardware.h"
#include "waits.h"

namespace tilewright::twin {

// When windows begin: the counter of tw_shared_page.
class Windows {
 public:
  // It is cycle 0, and the registers have been reset.
  void Reset(uint64_t length) { Set(0, 0, length); }
  // The register holds another length from a cycle on. The counter goes on, and returns to 0 where
  // it reaches the length or is beyond it.
  void SetLength(uint64_t cycle, uint64_t length) { Set(cycle, Elapsed(cycle), length); }

  // The first cycle, from one on, in which buckets are filled: the one after the counter was 0.
  uint64_t NextFill(uint64_t cycle) const {
    const uint64_t first = zero_ + 1;
    return cycle <= first ? first : first + (cycle - first + length_ - 1) / length_ * length_;
  }

 private:
  uint64_t Elapsed(uint64_t cycle) const {
    return cycle < zero_ ? elapsed_ + (cycle - set_at_) : (cycle - zero_) % length_;
  }
  void Set(uint64_t cycle, uint64_t elapsed, uint64_t length) {
    set_at_ = cycle;
    elapsed_ = elapsed;
    length_ = std::max<uint64_t>(1, length);
    zero_ = elapsed == 0 ? cycle : cycle + (length_ > elapsed ? length_ - elapsed : 1);
  }

  uint64_t length_ = 1;
  uint64_t set_at_ = 0, elapsed_ = 0;  // the cycle of the last change, and the counter in it
  uint64_t zero_ = 0;                  // first cycle from then on in which the counter is 0
};

class Grant {
 public:
  // A burst that a core asks for, from a cycle on.
  struct Request {
    uint64_t burst, from;
    uint32_t beats;
  };
  // What a core was given and waited for so far.
  struct Counts {
    uint64_t beats, throttled;
    Waits waits;
  };

  Grant(uint32_t masters, const Windows& windows) : windows_(windows), masters_(masters) {}
  void Reset();

  // Registers of the host, from a cycle on, before which all is looked at.
  void SetShare(uint32_t master, uint64_t cycle, uint32_t weight, uint32_t budget);
  // Windows are about to have another length, from a cycle in which nobody asks.
  void EndWindows(uint64_t cycle);
  // Something changes in a cycle.
  void LookAt(uint64_t cycle) { next_ = std::min(next_, cycle); }

  void Ask(uint32_t master, const Request& request) {
    masters_[master].request = request;
    masters_[master].asks = true;
    ++asked_;
    LookAt(request.from);
  }
  const Request& request(uint32_t master) const { return masters_[master].request; }
  bool asked() const { return asked_ != 0; }

  // The next cycle to be looked at.
  uint64_t next() const { return next_; }
  // Looks at it. `room`: the port may have one more burst in flight; `ready`: memory takes one;
  // `sent`: write data moved before this cycle. The core that is granted its burst, kNobody: none.
  uint32_t Decide(bool room, bool ready, uint64_t sent);

  const Counts& counts(uint32_t master) const { return masters_[master].counts; }
  // A core's write data waited from a cycle to another.
  void DataWaited(uint32_t master, uint64_t first, uint64_t last);

 private:
  enum State : uint8_t { kNothing, kOffered, kWaited, kThrottled };

  struct Master {
    uint32_t weight = 1, budget = 0;  // beats a window, 0: no limit
    int64_t tokens = 0;
    uint64_t filled = 0;  // the tokens are those before the fill of this cycle
    bool asks = false;
    Request request{};
    State state = kNothing;
    uint64_t since = 0;  // of the state
    Counts counts{};
  };

  void Fill(Master& master, uint64_t end);
  void Enter(Master& master, State state, uint64_t cycle, uint64_t sent);

  const Windows& windows_;
  std::vector<Master> masters_;
  uint32_t asked_ = 0;  // bursts
  uint64_t next_ = kForever, decided_ = 0;
  bool standing_ = false;  // an offer that was not taken
  uint32_t owner_ = 0;     // of it
  uint32_t turn_ = 0;      // the core whose turn it is
  uint32_t left_ = 0;      // further bursts of it
};

}  // namespace tilewright::twin

#endif  // TILEWRIGHT_SIM_TWIN_SYSTEM_GRANT_H_
