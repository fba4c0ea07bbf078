// SPDX-License-Identifier: Apache-2.0
// What every simulator of the RTL shares: the bus cycles of a Simulation over a model's pins.
//
// A Model is one simulated top module. The calls are resolved at compile time, so that they cost
// nothing. It provides
//   static constexpr bool kHasWaves           whether OpenWaves can work
//   static constexpr bool kRegistersSlave     the slave's pins reach the design at the next Rise
//   static constexpr uint32_t kRegisterBytes  addresses of the AXI4-Lite slave
//   uint32_t beat_bytes() const               width of the data bus
//   const uint8_t* write_data() const         the bytes of WDATA, in place, little end first
//   other_memories() const                    of further ports, which the model steps in Sample
//   void SetReset(bool asserted)              drives aresetn
//   void Rise()                               rising clock edge; the outputs may be unsettled
//   void Fall()                               falling clock edge; the outputs have settled
//   void Settle()                             lets combinational outputs follow the inputs
//   bool irq() const
//   bool requests() const                     ARVALID, AWVALID or WVALID
//   void Sample(AxiRequest*)                  the master's pins; payloads where valid
//   void Drive(const AxiResponse&, bool read_ended)
//                                             the slave's pins; read_ended: RVALID fell
//   AXI4-Lite: ReleaseRegisterPins(), PutWriteAddress(uint32_t), PutWriteData(uint32_t),
//     DropWriteAddress(), DropWriteData(), PutReadAddress(uint32_t), DropReadAddress(),
//     write_address_taken(), write_data_taken(), write_answered(), write_response(),
//     read_address_taken(), read_answered(), read_response(), read_data()
//   bool OpenWaves(const std::string&), void CloseWaves()
//   void Finish(bool stopped)                 the end; stopped: RtlStop was thrown
// Rise, Fall and Settle throw RtlStop when an assertion of the RTL fails.
#ifndef TILEWRIGHT_SIM_HARNESS_BUS_SIMULATION_H_
#define TILEWRIGHT_SIM_HARNESS_BUS_SIMULATION_H_

#include <algorithm>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include "simulation.h"

namespace tilewright {

constexpr uint32_t kRegisterTimeoutCycles = 10000;
constexpr uint32_t kResetCycles = 4;

// An RTL assertion, $stop, $fatal or $finish, thrown through the generated code.
class RtlStop : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename Model>
class BusSimulation final : public Simulation {
 public:
  // arguments: of the model's constructor.
  template <typename... Arguments>
  BusSimulation(uint32_t max_burst_beats, const MemoryTiming& timing, Arguments... arguments)
      : model_(arguments...), memory_(model_.beat_bytes(), max_burst_beats, timing) {
    request_.w_data = model_.write_data();
    const Status status = Reset(kResetCycles);
    if (status != Status::kOk) throw ResetError(status, error_);
  }

  BusSimulation(const BusSimulation&) = delete;
  BusSimulation& operator=(const BusSimulation&) = delete;

  ~BusSimulation() override {
    try {
      model_.CloseWaves();
      model_.Finish(stopped_);
    } catch (const std::exception&) {
      // A final block that stops the simulation has nobody left to tell.
    }
  }

  Status Reset(uint32_t cycles) override {
    if (cycles == 0) return Fail(Status::kBadArgument, "reset needs at least one cycle");
    return Guarded([&] {
      memory_.Reset();
      for (auto& memory : model_.other_memories()) memory->Reset();
      model_.SetReset(true);
      model_.ReleaseRegisterPins();
      model_.Settle();
      for (uint32_t i = 0; i < cycles; ++i) {
        model_.Rise();
        model_.Drive(memory_.response(), true);
        model_.Fall();
      }
      if (model_.requests()) {
        memory_.Report(Violation::kValidDuringReset, "a VALID is high while aresetn is low");
        return ViolationStatus();
      }
      model_.SetReset(false);
      model_.Settle();
      return Status::kOk;
    });
  }

  Status SetTiming(const MemoryTiming& timing) override {
    try {
      memory_.SetTiming(timing);
      for (auto& memory : model_.other_memories()) memory->SetTiming(timing);
    } catch (const std::invalid_argument& error) {
      return Fail(Status::kBadArgument, error.what());
    }
    return Guarded([&] {
      model_.Drive(memory_.response(), true);
      model_.Settle();
      return Status::kOk;
    });
  }

  Status Attach(uint8_t* data, uint64_t size, uint64_t base) override {
    try {
      memory_.Attach(data, size, base);
      for (auto& memory : model_.other_memories()) memory->Attach(data, size, base);
    } catch (const std::invalid_argument& error) {
      return Fail(Status::kBadArgument, error.what());
    }
    return Status::kOk;
  }

  Status SetFault(const FaultRange& fault) override {
    memory_.SetFault(fault);
    for (auto& memory : model_.other_memories()) memory->SetFault(fault);
    return Status::kOk;
  }

  Status WriteRegister(uint32_t address, uint32_t value) override {
    if (!ValidAddress(address)) return error_status_;
    return Guarded([&] {
      model_.PutWriteAddress(address);
      model_.PutWriteData(value);
      model_.Settle();
      for (uint32_t i = 0; i < kRegisterTimeoutCycles; ++i) {
        const bool address_taken = model_.write_address_taken();
        const bool data_taken = model_.write_data_taken();
        const bool answered = model_.write_answered();
        const uint32_t response = model_.write_response();
        Tick();
        if (!memory_.ok()) return ViolationStatus();
        if (address_taken) model_.DropWriteAddress();
        if (data_taken) model_.DropWriteData();
        if (answered) {
          model_.ReleaseRegisterPins();
          model_.Settle();
          return RegisterResponse("write", address, response);
        }
        if (address_taken || data_taken) model_.Settle();
      }
      return RegisterTimeout("write", address);
    });
  }

  Status ReadRegister(uint32_t address, uint32_t* value) override {
    if (!ValidAddress(address)) return error_status_;
    return Guarded([&] { return ReadRegisterUnguarded(address, value); });
  }

  RunOutcome Run(const RunRequest& request) override {
    RunOutcome outcome;
    const uint64_t start = memory_.cycle();
    if (request.max_cycles == 0) {
      outcome.status = static_cast<int32_t>(Fail(Status::kBadArgument, "max_cycles must not be 0"));
      return outcome;
    }
    const Status status = Guarded([&] { return RunUntil(request, start, &outcome.reason); });
    outcome.status = static_cast<int32_t>(status);
    outcome.cycles = memory_.cycle() - start;
    return outcome;
  }

  Status OpenWaves(const std::string& path) override {
    if (!Model::kHasWaves) {
      return Fail(Status::kWaveError, "this model was built without waves: " + path);
    }
    return Guarded([&] {
      model_.CloseWaves();
      return model_.OpenWaves(path) ? Status::kOk
                                    : Fail(Status::kWaveError, "cannot write " + path);
    });
  }

  Status CloseWaves() override {
    model_.CloseWaves();
    return Status::kOk;
  }

  uint64_t total_cycles() const override { return memory_.cycle(); }
  const ViolationRecord& violation() const override { return memory_.violation(); }
  const std::string& error_text() const override { return error_; }

 private:
  Status Fail(Status status, const std::string& text) {
    error_ = text;
    error_status_ = status;
    return status;
  }

  Status ViolationStatus() {
    const ViolationRecord& violation = memory_.violation();
    return Fail(Status::kProtocolViolation,
                "cycle " + std::to_string(violation.cycle) + ": " + violation.text);
  }

  // Runs an operation that clocks the design; turns what it throws into a status.
  template <typename Operation>
  Status Guarded(Operation operation) {
    if (stopped_) return Status::kRtlStopped;
    try {
      return operation();
    } catch (const RtlStop& stop) {
      stopped_ = true;
      return Fail(Status::kRtlStopped,
                  "cycle " + std::to_string(memory_.cycle()) + ": " + stop.what());
    }
  }

  bool ValidAddress(uint32_t address) {
    if (address < Model::kRegisterBytes && address % 4 == 0) return true;
    Fail(Status::kBadArgument, "register address " + std::to_string(address) +
                                   " is not a multiple of 4 below " +
                                   std::to_string(Model::kRegisterBytes));
    return false;
  }

  Status RegisterResponse(const char* what, uint32_t address, uint32_t response) {
    if (response == kOkay) return Status::kOk;
    return Fail(Status::kRegisterError, std::string(what) + " of register " +
                                            std::to_string(address) + " answered with response " +
                                            std::to_string(response));
  }

  Status RegisterTimeout(const char* what, uint32_t address) {
    model_.ReleaseRegisterPins();
    model_.Settle();
    return Fail(Status::kRegisterTimeout, std::string(what) + " of register " +
                                              std::to_string(address) +
                                              " was not answered within " +
                                              std::to_string(kRegisterTimeoutCycles) + " cycles");
  }

  Status ReadRegisterUnguarded(uint32_t address, uint32_t* value) {
    model_.PutReadAddress(address);
    model_.Settle();
    for (uint32_t i = 0; i < kRegisterTimeoutCycles; ++i) {
      const bool taken = model_.read_address_taken();
      const bool answered = model_.read_answered();
      const uint32_t response = model_.read_response();
      const uint32_t data = model_.read_data();
      Tick();
      if (!memory_.ok()) return ViolationStatus();
      if (taken) model_.DropReadAddress();
      if (answered) {
        model_.ReleaseRegisterPins();
        model_.Settle();
        *value = data;
        return RegisterResponse("read", address, response);
      }
      if (taken) model_.Settle();
    }
    return RegisterTimeout("read", address);
  }

  Status RunUntil(const RunRequest& request, uint64_t start, int32_t* reason) {
    const uint64_t end = start + request.max_cycles;
    for (;;) {
      uint64_t pause = end;
      if (request.poll_interval != 0) {
        pause = std::min(end, memory_.cycle() + request.poll_interval);
      }
      while (!model_.irq() && memory_.cycle() < pause && memory_.ok()) Tick();
      if (!memory_.ok()) return ViolationStatus();
      if (model_.irq()) {
        *reason = static_cast<int32_t>(StopReason::kInterrupt);
        return Status::kOk;
      }
      if (request.poll_interval != 0) {
        uint32_t value = 0;
        const Status status = ReadRegisterUnguarded(request.poll_address, &value);
        if (status != Status::kOk) return status;
        if (value & request.poll_mask) {
          *reason = static_cast<int32_t>(StopReason::kStatus);
          return Status::kOk;
        }
      }
      if (memory_.cycle() >= end) {
        *reason = static_cast<int32_t>(StopReason::kCycleLimit);
        return Status::kOk;
      }
    }
  }

  // One clock cycle. On entry and on return the clock is low and every output has settled.
  void Tick() {
    if (!model_.requests() && memory_.quiet()) {
      model_.Rise();
      memory_.SkipQuietCycle();
      model_.Fall();
      return;
    }
    // The master's pins are sampled before the edge; wide payloads are read in place, so the memory
    // model has to see them before the edge changes them.
    const bool had_read = memory_.response().r_valid;
    model_.Sample(&request_);
    const AxiResponse& response = memory_.Step(request_);
    if (!Model::kRegistersSlave) model_.Rise();
    model_.Drive(response, had_read && !response.r_valid);
    if (Model::kRegistersSlave) model_.Rise();
    model_.Fall();
  }

  Model model_;
  MemoryModel memory_;
  AxiRequest request_;
  bool stopped_ = false;
  std::string error_;
  Status error_status_ = Status::kOk;
};

}  // namespace tilewright

#endif  // TILEWRIGHT_SIM_HARNESS_BUS_SIMULATION_H_
