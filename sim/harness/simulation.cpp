// SPDX-License-Identifier: Apache-2.0
#include "simulation.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "Vtilewright_top.h"
#include "verilated.h"
#if VM_TRACE_FST
#include "verilated_fst_c.h"
#endif

namespace tilewright {
namespace {

constexpr uint32_t kRegisterTimeoutCycles = 10000;
constexpr uint32_t kResetCycles = 4;
constexpr uint64_t kHalfPeriod = 5;  // time units (ns) of the wave file: a cycle is 10 ns

// An RTL assertion, $stop, $fatal or $finish, thrown through the verilated code.
class RtlStop : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void ThrowStop(const char* what, const char* file, int line, const char* scope) {
  std::string text = std::string(what) + " at " + (file ? file : "?") + ":" + std::to_string(line);
  if (scope != nullptr && *scope != '\0') text += std::string(" in ") + scope;
  throw RtlStop(text);
}

// A packed port as bytes: Verilator keeps it in an integer or in an array of 32-bit words, little
// end first, without padding for the widths that are used here (32 bits and more).
template <typename Port>
uint8_t* PortBytes(Port& port) {
  return reinterpret_cast<uint8_t*>(&port);
}

class VerilatedSimulation final : public Simulation {
 public:
  VerilatedSimulation(uint32_t max_burst_beats, const MemoryTiming& timing)
      : context_(std::make_unique<VerilatedContext>()) {
    context_->traceEverOn(VM_TRACE_FST != 0);
    context_->timeunit(-9);
    context_->timeprecision(-9);
    top_ = std::make_unique<Vtilewright_top>(context_.get());
    memory_ = std::make_unique<MemoryModel>(sizeof(top_->m_axi_rdata), max_burst_beats, timing);
    request_.w_data = PortBytes(top_->m_axi_wdata);
    const Status status = Reset(kResetCycles);
    if (status != Status::kOk) throw std::runtime_error("reset: " + error_);
  }

  VerilatedSimulation(const VerilatedSimulation&) = delete;
  VerilatedSimulation& operator=(const VerilatedSimulation&) = delete;

  ~VerilatedSimulation() override {
    try {
      CloseWaves();
      if (!stopped_) top_->final();
    } catch (const std::exception&) {
      // A final block that stops the simulation has nobody left to tell.
    }
  }

  Status Reset(uint32_t cycles) override {
    if (cycles == 0) return Fail(Status::kBadArgument, "reset needs at least one cycle");
    return Guarded([&] {
      memory_->Reset();
      top_->aresetn = 0;
      ReleaseRegisterPins();
      for (uint32_t i = 0; i < cycles; ++i) {
        HalfStep(1);
        DriveResponse(memory_->response(), true);
        HalfStep(0);
      }
      if (top_->m_axi_arvalid || top_->m_axi_awvalid || top_->m_axi_wvalid) {
        memory_->Report(Violation::kValidDuringReset, "a VALID is high while aresetn is low");
        return ViolationStatus();
      }
      top_->aresetn = 1;
      Settle();
      return Status::kOk;
    });
  }

  Status SetTiming(const MemoryTiming& timing) override {
    try {
      memory_->SetTiming(timing);
    } catch (const std::invalid_argument& error) {
      return Fail(Status::kBadArgument, error.what());
    }
    return Guarded([&] {
      DriveResponse(memory_->response(), true);
      Settle();
      return Status::kOk;
    });
  }

  Status Attach(uint8_t* data, uint64_t size, uint64_t base) override {
    try {
      memory_->Attach(data, size, base);
    } catch (const std::invalid_argument& error) {
      return Fail(Status::kBadArgument, error.what());
    }
    return Status::kOk;
  }

  Status SetFault(const FaultRange& fault) override {
    memory_->SetFault(fault);
    return Status::kOk;
  }

  Status WriteRegister(uint32_t address, uint32_t value) override {
    if (!ValidAddress(address)) return error_status_;
    return Guarded([&] {
      top_->s_axil_awaddr = static_cast<SData>(address);
      top_->s_axil_awvalid = 1;
      top_->s_axil_wdata = value;
      top_->s_axil_wstrb = 0xf;
      top_->s_axil_wvalid = 1;
      top_->s_axil_bready = 1;
      Settle();
      for (uint32_t i = 0; i < kRegisterTimeoutCycles; ++i) {
        const bool address_taken = top_->s_axil_awvalid && top_->s_axil_awready;
        const bool data_taken = top_->s_axil_wvalid && top_->s_axil_wready;
        const bool answered = top_->s_axil_bvalid;
        const uint32_t response = top_->s_axil_bresp;
        Tick();
        if (!memory_->ok()) return ViolationStatus();
        if (address_taken) top_->s_axil_awvalid = 0;
        if (data_taken) top_->s_axil_wvalid = 0;
        if (answered) {
          ReleaseRegisterPins();
          Settle();
          return RegisterResponse("write", address, response);
        }
        if (address_taken || data_taken) Settle();
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
    const uint64_t start = memory_->cycle();
    if (request.max_cycles == 0) {
      outcome.status = static_cast<int32_t>(Fail(Status::kBadArgument, "max_cycles must not be 0"));
      return outcome;
    }
    const Status status = Guarded([&] { return RunUntil(request, start, &outcome.reason); });
    outcome.status = static_cast<int32_t>(status);
    outcome.cycles = memory_->cycle() - start;
    return outcome;
  }

  Status OpenWaves(const std::string& path) override {
#if VM_TRACE_FST
    return Guarded([&] {
      CloseWaves();
      waves_ = std::make_unique<VerilatedFstC>();
      top_->trace(waves_.get(), 99);
      waves_->open(path.c_str());
      if (!waves_->isOpen()) {
        waves_.reset();
        return Fail(Status::kWaveError, "cannot write " + path);
      }
      return Status::kOk;
    });
#else
    return Fail(Status::kWaveError, "this model was built without waves: " + path);
#endif
  }

  Status CloseWaves() override {
#if VM_TRACE_FST
    if (waves_) {
      waves_->close();
      waves_.reset();
    }
#endif
    return Status::kOk;
  }

  uint64_t total_cycles() const override { return memory_->cycle(); }
  const ViolationRecord& violation() const override { return memory_->violation(); }
  const std::string& error_text() const override { return error_; }

 private:
  Status Fail(Status status, const std::string& text) {
    error_ = text;
    error_status_ = status;
    return status;
  }

  Status ViolationStatus() {
    const ViolationRecord& violation = memory_->violation();
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
                  "cycle " + std::to_string(memory_->cycle()) + ": " + stop.what());
    }
  }

  bool ValidAddress(uint32_t address) {
    if (address < 4096 && address % 4 == 0) return true;
    Fail(Status::kBadArgument,
         "register address " + std::to_string(address) + " is not a multiple of 4 below 4096");
    return false;
  }

  Status RegisterResponse(const char* what, uint32_t address, uint32_t response) {
    if (response == kOkay) return Status::kOk;
    return Fail(Status::kRegisterError, std::string(what) + " of register " +
                                            std::to_string(address) + " answered with response " +
                                            std::to_string(response));
  }

  Status RegisterTimeout(const char* what, uint32_t address) {
    ReleaseRegisterPins();
    Settle();
    return Fail(Status::kRegisterTimeout, std::string(what) + " of register " +
                                              std::to_string(address) +
                                              " was not answered within " +
                                              std::to_string(kRegisterTimeoutCycles) + " cycles");
  }

  void ReleaseRegisterPins() {
    top_->s_axil_awvalid = 0;
    top_->s_axil_wvalid = 0;
    top_->s_axil_bready = 0;
    top_->s_axil_arvalid = 0;
    top_->s_axil_rready = 0;
  }

  Status ReadRegisterUnguarded(uint32_t address, uint32_t* value) {
    top_->s_axil_araddr = static_cast<SData>(address);
    top_->s_axil_arvalid = 1;
    top_->s_axil_rready = 1;
    Settle();
    for (uint32_t i = 0; i < kRegisterTimeoutCycles; ++i) {
      const bool taken = top_->s_axil_arvalid && top_->s_axil_arready;
      const bool answered = top_->s_axil_rvalid;
      const uint32_t response = top_->s_axil_rresp;
      const uint32_t data = top_->s_axil_rdata;
      Tick();
      if (!memory_->ok()) return ViolationStatus();
      if (taken) top_->s_axil_arvalid = 0;
      if (answered) {
        ReleaseRegisterPins();
        Settle();
        *value = data;
        return RegisterResponse("read", address, response);
      }
      if (taken) Settle();
    }
    return RegisterTimeout("read", address);
  }

  Status RunUntil(const RunRequest& request, uint64_t start, int32_t* reason) {
    const uint64_t end = start + request.max_cycles;
    for (;;) {
      uint64_t pause = end;
      if (request.poll_interval != 0) {
        pause = std::min(end, memory_->cycle() + request.poll_interval);
      }
      while (!top_->irq_o && memory_->cycle() < pause && memory_->ok()) Tick();
      if (!memory_->ok()) return ViolationStatus();
      if (top_->irq_o) {
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
      if (memory_->cycle() >= end) {
        *reason = static_cast<int32_t>(StopReason::kCycleLimit);
        return Status::kOk;
      }
    }
  }

  // One clock cycle. On entry and on return the clock is low and every output has settled.
  void Tick() {
    Vtilewright_top& top = *top_;
    const bool active = top.m_axi_arvalid || top.m_axi_awvalid || top.m_axi_wvalid;
    if (!active && memory_->quiet()) {
      HalfStep(1);
      memory_->SkipQuietCycle();
      HalfStep(0);
      return;
    }
    // The master's pins are sampled before the edge; wide payloads are read in place, so the memory
    // model has to see them before the edge changes them.
    const bool had_read = memory_->response().r_valid;
    const AxiResponse& response = memory_->Step(SampleRequest());
    HalfStep(1);
    DriveResponse(response, had_read && !response.r_valid);
    HalfStep(0);
  }

  const AxiRequest& SampleRequest() {
    Vtilewright_top& top = *top_;
    request_.ar_valid = top.m_axi_arvalid;
    request_.aw_valid = top.m_axi_awvalid;
    request_.w_valid = top.m_axi_wvalid;
    request_.r_ready = top.m_axi_rready;
    request_.b_ready = top.m_axi_bready;
    if (request_.ar_valid) {
      request_.ar = {top.m_axi_araddr, top.m_axi_arlen, top.m_axi_arsize, top.m_axi_arburst,
                     top.m_axi_arid};
    }
    if (request_.aw_valid) {
      request_.aw = {top.m_axi_awaddr, top.m_axi_awlen, top.m_axi_awsize, top.m_axi_awburst,
                     top.m_axi_awid};
    }
    if (request_.w_valid) {
      request_.w_last = top.m_axi_wlast;
      request_.w_strobe = top.m_axi_wstrb;
    }
    return request_;
  }

  void DriveResponse(const AxiResponse& response, bool read_ended) {
    Vtilewright_top& top = *top_;
    top.m_axi_arready = response.ar_ready;
    top.m_axi_awready = response.aw_ready;
    top.m_axi_wready = response.w_ready;
    top.m_axi_rvalid = response.r_valid;
    top.m_axi_bvalid = response.b_valid;
    if (response.r_new) {
      std::memcpy(PortBytes(top.m_axi_rdata), response.r_data, sizeof(top.m_axi_rdata));
      top.m_axi_rresp = response.r_resp;
      top.m_axi_rlast = response.r_last;
      top.m_axi_rid = response.r_id;
    } else if (read_ended) {
      top.m_axi_rlast = 0;
    }
    if (response.b_valid) {
      top.m_axi_bresp = response.b_resp;
      top.m_axi_bid = response.b_id;
    }
  }

  void HalfStep(uint8_t clock) {
    Vtilewright_top& top = *top_;
    top.aclk = clock;
    top.eval();
#if VM_TRACE_FST
    if (waves_) waves_->dump(wave_time_);
    wave_time_ += kHalfPeriod;
#endif
  }

  // Lets combinational outputs follow a change of inputs between two edges.
  void Settle() { top_->eval(); }

  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<Vtilewright_top> top_;
  std::unique_ptr<MemoryModel> memory_;
#if VM_TRACE_FST
  std::unique_ptr<VerilatedFstC> waves_;
  uint64_t wave_time_ = 0;
#endif
  AxiRequest request_;
  bool stopped_ = false;
  std::string error_;
  Status error_status_ = Status::kOk;
};

}  // namespace

std::unique_ptr<Simulation> CreateSimulation(uint32_t max_burst_beats, const MemoryTiming& timing) {
  return std::make_unique<VerilatedSimulation>(max_burst_beats, timing);
}

}  // namespace tilewright

// Verilator's run-time library calls these (it is built with VL_USER_STOP, _FATAL and _FINISH): the
// defaults end the process.
void vl_stop(const char* file, int line, const char* scope) {
  tilewright::ThrowStop("assertion or $stop", file, line, scope);
}

void vl_fatal(const char* file, int line, const char* scope, const char* message) {
  const std::string what = std::string("fatal: ") + (message ? message : "");
  tilewright::ThrowStop(what.c_str(), file, line, scope);
}

void vl_finish(const char* file, int line, const char* scope) {
  tilewright::ThrowStop("$finish", file, line, scope);
}
