// SPDX-License-Identifier: Apache-2.0
// The verilated top as a model of BusSimulation.
#include "simulation.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "Vtilewright_top.h"
#include "bus_simulation.h"
#include "verilated.h"
#if VM_COVERAGE
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "verilated_cov.h"
#endif
#if VM_TRACE_FST
#include "verilated_fst_c.h"
#endif

namespace tilewright {
namespace {

constexpr uint64_t kHalfPeriod = 5;  // time units (ns) of the wave file: a cycle is 10 ns

// Message of the assertion that is about to stop the simulation; the RTL prints it, then stops.
thread_local std::string assertion_text;

[[noreturn]] void ThrowStop(const char* what, const char* file, int line, const char* scope) {
  std::string text = std::string(what) + " at " + (file ? file : "?") + ":" + std::to_string(line);
  if (scope != nullptr && *scope != '\0') text += std::string(" in ") + scope;
  if (!assertion_text.empty()) text += ": " + assertion_text;
  assertion_text.clear();
  throw RtlStop(text);
}

// A packed port as bytes: Verilator keeps it in an integer or in an array of 32-bit words, little
// end first, without padding for the widths that are used here (32 bits and more).
template <typename Port>
uint8_t* PortBytes(Port& port) {
  return reinterpret_cast<uint8_t*>(&port);
}

class VerilatedModel {
 public:
  static constexpr bool kHasWaves = VM_TRACE_FST != 0;

  VerilatedModel() : context_(std::make_unique<VerilatedContext>()) {
    context_->traceEverOn(kHasWaves);
    context_->timeunit(-9);
    context_->timeprecision(-9);
    top_ = std::make_unique<Vtilewright_top>(context_.get());
  }

  uint32_t beat_bytes() const { return sizeof(top_->m_axi_rdata); }
  const uint8_t* write_data() const { return PortBytes(top_->m_axi_wdata); }

  void SetReset(bool asserted) { top_->aresetn = !asserted; }
  void Rise() { HalfStep(1); }
  void Fall() { HalfStep(0); }
  void Settle() { top_->eval(); }
  void Finish(bool stopped) {
    if (!stopped) top_->final();
    WriteCoverage();
  }

  bool irq() const { return top_->irq_o; }
  bool requests() const { return top_->m_axi_arvalid || top_->m_axi_awvalid || top_->m_axi_wvalid; }

  void Sample(AxiRequest* request) const {
    const Vtilewright_top& top = *top_;
    request->ar_valid = top.m_axi_arvalid;
    request->aw_valid = top.m_axi_awvalid;
    request->w_valid = top.m_axi_wvalid;
    request->r_ready = top.m_axi_rready;
    request->b_ready = top.m_axi_bready;
    if (request->ar_valid) {
      request->ar = {top.m_axi_araddr, top.m_axi_arlen, top.m_axi_arsize, top.m_axi_arburst,
                     top.m_axi_arid};
    }
    if (request->aw_valid) {
      request->aw = {top.m_axi_awaddr, top.m_axi_awlen, top.m_axi_awsize, top.m_axi_awburst,
                     top.m_axi_awid};
    }
    if (request->w_valid) {
      request->w_last = top.m_axi_wlast;
      request->w_strobe = top.m_axi_wstrb;
    }
  }

  void Drive(const AxiResponse& response, bool read_ended) {
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

  void ReleaseRegisterPins() {
    top_->s_axil_awvalid = 0;
    top_->s_axil_wvalid = 0;
    top_->s_axil_bready = 0;
    top_->s_axil_arvalid = 0;
    top_->s_axil_rready = 0;
  }

  void PutWriteAddress(uint32_t address) {
    top_->s_axil_awaddr = static_cast<SData>(address);
    top_->s_axil_awvalid = 1;
    top_->s_axil_bready = 1;
  }
  void PutWriteData(uint32_t value) {
    top_->s_axil_wdata = value;
    top_->s_axil_wstrb = 0xf;
    top_->s_axil_wvalid = 1;
  }
  void DropWriteAddress() { top_->s_axil_awvalid = 0; }
  void DropWriteData() { top_->s_axil_wvalid = 0; }
  bool write_address_taken() const { return top_->s_axil_awvalid && top_->s_axil_awready; }
  bool write_data_taken() const { return top_->s_axil_wvalid && top_->s_axil_wready; }
  bool write_answered() const { return top_->s_axil_bvalid; }
  uint32_t write_response() const { return top_->s_axil_bresp; }

  void PutReadAddress(uint32_t address) {
    top_->s_axil_araddr = static_cast<SData>(address);
    top_->s_axil_arvalid = 1;
    top_->s_axil_rready = 1;
  }
  void DropReadAddress() { top_->s_axil_arvalid = 0; }
  bool read_address_taken() const { return top_->s_axil_arvalid && top_->s_axil_arready; }
  bool read_answered() const { return top_->s_axil_rvalid; }
  uint32_t read_response() const { return top_->s_axil_rresp; }
  uint32_t read_data() const { return top_->s_axil_rdata; }

#if VM_TRACE_FST
  bool OpenWaves(const std::string& path) {
    waves_ = std::make_unique<VerilatedFstC>();
    top_->trace(waves_.get(), 99);
    waves_->open(path.c_str());
    if (!waves_->isOpen()) waves_.reset();
    return waves_ != nullptr;
  }

  void CloseWaves() {
    if (waves_) waves_->close();
    waves_.reset();
  }
#else
  bool OpenWaves(const std::string&) { return false; }
  void CloseWaves() {}
#endif

 private:
  void HalfStep(uint8_t clock) {
    top_->aclk = clock;
    top_->eval();
#if VM_TRACE_FST
    if (waves_) waves_->dump(wave_time_);
    wave_time_ += kHalfPeriod;
#endif
  }

  // Leaves the counts of this simulation as a file of its own in TILEWRIGHT_COVERAGE_DIR.
  void WriteCoverage() {
#if VM_COVERAGE
    static std::atomic<uint32_t> count{0};
    const char* folder = std::getenv("TILEWRIGHT_COVERAGE_DIR");
    if (folder == nullptr || *folder == '\0') return;
    const std::string path = std::string(folder) + "/" + std::to_string(getpid()) + "-" +
                             std::to_string(reinterpret_cast<uintptr_t>(&count)) + "-" +
                             std::to_string(count++) + ".dat";
    context_->coveragep()->write(path.c_str());
#endif
  }

  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<Vtilewright_top> top_;
#if VM_TRACE_FST
  std::unique_ptr<VerilatedFstC> waves_;
  uint64_t wave_time_ = 0;
#endif
};

}  // namespace

std::unique_ptr<Simulation> CreateSimulation(uint32_t max_burst_beats, const MemoryTiming& timing) {
  return std::make_unique<BusSimulation<VerilatedModel>>(max_burst_beats, timing);
}

}  // namespace tilewright

// "[time] %Error: file.sv:12: Assertion failed in scope: text" is kept as "text"; the rest is
// output.
int tilewright_model_print(const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  const std::string text(line);
  const size_t error = text.find("%Error: ");
  if (error == std::string::npos) return std::fputs(line, stdout) < 0 ? -1 : length;
  const size_t failed = text.find("Assertion failed in ", error);
  const size_t start = text.find(": ", failed == std::string::npos ? error : failed);
  tilewright::assertion_text = start == std::string::npos ? text : text.substr(start + 2);
  while (!tilewright::assertion_text.empty() && tilewright::assertion_text.back() == '\n') {
    tilewright::assertion_text.pop_back();
  }
  return length;
}

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
