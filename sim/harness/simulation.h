// SPDX-License-Identifier: Apache-2.0
// One simulated accelerator: the verilated top, its clock and reset, its AXI4-Lite registers and
// the DRAM behind its AXI4 port.
#ifndef TILEWRIGHT_SIM_HARNESS_SIMULATION_H_
#define TILEWRIGHT_SIM_HARNESS_SIMULATION_H_

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "memory_model.h"

namespace tilewright {

// What every operation reports. Values are part of the C ABI (sim/verilator/library.py mirrors
// them).
enum class Status : int32_t {
  kOk = 0,
  kProtocolViolation = 1,  // the design broke an AXI4 rule; the text names it
  kRtlStopped = 2,         // an RTL assertion, $stop, $fatal or $finish fired
  kRegisterTimeout = 3,    // an AXI4-Lite access was not answered
  kRegisterError = 4,      // an AXI4-Lite access was answered with SLVERR or DECERR
  kWaveError = 5,          // the wave file cannot be written, or the build has no waves
  kBadArgument = 6,
  kInternal = 7,  // an unexpected C++ exception
};

// Why a run ended.
enum class StopReason : int32_t {
  kInterrupt = 0,   // irq_o rose
  kStatus = 1,      // the polled register matched
  kCycleLimit = 2,  // the cycle limit was reached first
};

struct RunRequest {
  uint64_t max_cycles = 0;     // mandatory: 0 is refused
  uint32_t poll_interval = 0;  // cycles between reads of poll_address; 0: the interrupt only
  uint32_t poll_address = 0;   // register that is read
  uint32_t poll_mask = 0;      // stop when any of these bits is set
};

struct RunOutcome {
  int32_t status = 0;   // Status
  int32_t reason = 0;   // StopReason; meaningful when status is kOk
  uint64_t cycles = 0;  // clock cycles spent in this call, polls included
};

// Contract. Every method but the destructor may be called at any time after construction; the
// constructor leaves the design reset. A method that returns a Status other than kOk leaves its
// reason in error_text(). After kProtocolViolation only Reset() makes the simulation usable again;
// after kRtlStopped nothing does. Objects are independent of each other and not thread-safe.
class Simulation {
 public:
  virtual ~Simulation() = default;

  // Asserts aresetn for `cycles` cycles (at least 1) and forgets every AXI burst in flight.
  virtual Status Reset(uint32_t cycles) = 0;

  // Replaces the DRAM timing, forgetting bursts in flight: call it while the design is idle.
  virtual Status SetTiming(const MemoryTiming& timing) = 0;

  // Maps the caller's bytes at a physical address (see MemoryModel::Attach).
  virtual Status Attach(uint8_t* data, uint64_t size, uint64_t base) = 0;

  virtual Status SetFault(const FaultRange& fault) = 0;

  // One 32-bit register access; `address` is a multiple of 4 below 4096.
  virtual Status WriteRegister(uint32_t address, uint32_t value) = 0;
  virtual Status ReadRegister(uint32_t address, uint32_t* value) = 0;

  // Clocks the design until it stops or the limit is reached. May be called again to go on.
  virtual RunOutcome Run(const RunRequest& request) = 0;

  // Starts (truncating the file) or ends recording; the file is complete after CloseWaves().
  virtual Status OpenWaves(const std::string& path) = 0;
  virtual Status CloseWaves() = 0;

  // Clock cycles since construction.
  virtual uint64_t total_cycles() const = 0;
  virtual const ViolationRecord& violation() const = 0;
  virtual const std::string& error_text() const = 0;
};

// The design failed during the reset that follows construction.
class ResetError : public std::runtime_error {
 public:
  ResetError(Status status, const std::string& text)
      : std::runtime_error("reset: " + text), status_(status) {}
  Status status() const { return status_; }

 private:
  Status status_;
};

// The sizes of a configuration (generated/geometry.h).
struct Geometry;

// geometry: for models that serve every configuration; others do not look at it. initial_seed: of
// the bits that registers and memories hold before the reset; 0: all are 0. Throws
// std::invalid_argument on a bad limit, timing or geometry, and ResetError.
std::unique_ptr<Simulation> CreateSimulation(uint32_t max_burst_beats, const MemoryTiming& timing,
                                             const Geometry* geometry, uint32_t initial_seed);

}  // namespace tilewright

#endif  // TILEWRIGHT_SIM_HARNESS_SIMULATION_H_
