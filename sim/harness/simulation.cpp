// SPDX-License-Identifier: Apache-2.0
// The verilated top as a model of BusSimulation.
#include "simulation.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "Vtilewright_top.h"
#include "bus_simulation.h"
#include "verilated.h"
#ifdef TILEWRIGHT_CLOCK_HISTORY
#include "Vtilewright_top___024root.h"
#endif
#ifdef TILEWRIGHT_CLOCK_EDGE
bool TILEWRIGHT_CLOCK_EDGE(Vtilewright_top___024root* root);  // of the generated code
#endif
#if TILEWRIGHT_GEOMETRY
#include "generated/geometry.h"
#endif
#if TILEWRIGHT_DATA
#include "data_path.h"
#include "svdpi.h"
#endif
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

// What the model that is being made in this thread asks for in its initial blocks.
#if TILEWRIGHT_GEOMETRY
thread_local const Geometry* elaborated_geometry = nullptr;
#endif
#if TILEWRIGHT_DATA
thread_local DataPath* elaborated_data = nullptr;
#endif

// A packed port as bytes: Verilator keeps it in an integer or in an array of 32-bit words, little
// end first, without padding for the widths that are used here (32 bits and more).
template <typename Port>
uint8_t* PortBytes(Port& port) {
  return reinterpret_cast<uint8_t*>(&port);
}

class VerilatedModel {
 public:
  static constexpr bool kHasWaves = VM_TRACE_FST != 0;
#ifdef TILEWRIGHT_CLOCK_HISTORY
  static constexpr bool kRegistersSlave = true;
#else
  static constexpr bool kRegistersSlave = false;
#endif

  // A model of one configuration takes no geometry.
  VerilatedModel(const Geometry* geometry, uint32_t initial_seed)
      : context_(std::make_unique<VerilatedContext>()) {
    context_->traceEverOn(kHasWaves);
    context_->timeunit(-9);
    context_->timeprecision(-9);
    // What --x-initial unique asks for: zeros, or random bits.
    context_->randReset(initial_seed != 0 ? 2 : 0);
    context_->randSeed(static_cast<int>(initial_seed));
    top_ = std::make_unique<Vtilewright_top>(context_.get());
    Elaborate(geometry);
  }

  uint32_t beat_bytes() const { return sizeof(top_->m_axi_rdata); }
  const uint8_t* write_data() const { return PortBytes(top_->m_axi_wdata); }

  void SetReset(bool asserted) {
    top_->aresetn = !asserted;
    pins_moved_ = true;
  }
#ifdef TILEWRIGHT_CLOCK_HISTORY
  // One evaluation a cycle: the clock stays high, and the model is told that it was low. No input
  // but a register access changes what is combinational (see sim/verilator/registered_top.py).
  // While no other pin has moved either, the work of the edge is all that there is to evaluate.
  void Rise() {
#ifdef TILEWRIGHT_CLOCK_EDGE
    if (!pins_moved_) {
      top_->rootp->__VnbaTriggered[0] = 1;
      TILEWRIGHT_CLOCK_EDGE(top_->rootp);
      return;
    }
#endif
    top_->aclk = 1;
    top_->rootp->TILEWRIGHT_CLOCK_HISTORY = 0;
    Settle();
  }
  void Fall() {}
#else
  void Rise() { HalfStep(1); }
  void Fall() { HalfStep(0); }
#endif
  void Settle() {
    top_->eval();
    pins_moved_ = false;
  }
  void Finish(bool stopped) {
    if (!stopped) top_->final();
    WriteCoverage();
  }

  bool irq() const { return top_->irq_o; }
  bool requests() const { return top_->m_axi_arvalid || top_->m_axi_awvalid || top_->m_axi_wvalid; }

  void Sample(AxiRequest* request) {
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
      SampleData(request);
    }
  }

  void Drive(const AxiResponse& response, bool read_ended) {
    Vtilewright_top& top = *top_;
    DropData();
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
    pins_moved_ = true;
  }

  void PutWriteAddress(uint32_t address) {
    top_->s_axil_awaddr = static_cast<SData>(address);
    top_->s_axil_awvalid = 1;
    top_->s_axil_bready = 1;
    pins_moved_ = true;
  }
  void PutWriteData(uint32_t value) {
    top_->s_axil_wdata = value;
    top_->s_axil_wstrb = 0xf;
    top_->s_axil_wvalid = 1;
    pins_moved_ = true;
  }
  void DropWriteAddress() {
    top_->s_axil_awvalid = 0;
    pins_moved_ = true;
  }
  void DropWriteData() {
    top_->s_axil_wvalid = 0;
    pins_moved_ = true;
  }
  bool write_address_taken() const { return top_->s_axil_awvalid && top_->s_axil_awready; }
  bool write_data_taken() const { return top_->s_axil_wvalid && top_->s_axil_wready; }
  bool write_answered() const { return top_->s_axil_bvalid; }
  uint32_t write_response() const { return top_->s_axil_bresp; }

  void PutReadAddress(uint32_t address) {
    top_->s_axil_araddr = static_cast<SData>(address);
    top_->s_axil_arvalid = 1;
    top_->s_axil_rready = 1;
    pins_moved_ = true;
  }
  void DropReadAddress() {
    top_->s_axil_arvalid = 0;
    pins_moved_ = true;
  }
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
  [[maybe_unused]] void HalfStep(uint8_t clock) {
    top_->aclk = clock;
    top_->eval();
#if VM_TRACE_FST
    if (waves_) waves_->dump(wave_time_);
    wave_time_ += kHalfPeriod;
#endif
  }

  // Models with the geometry as an input read it in their initial blocks.
#if TILEWRIGHT_GEOMETRY
  void Elaborate(const Geometry* geometry) {
    if (geometry == nullptr) throw std::invalid_argument("this model needs a geometry");
    elaborated_geometry = geometry;
#if TILEWRIGHT_DATA
    data_ = std::make_unique<DataPath>(*geometry, beat_bytes());
    elaborated_data = data_.get();
#endif
    top_->eval();
    elaborated_geometry = nullptr;
  }
#else
  void Elaborate(const Geometry*) {}
#endif

  // The bytes of a write: those of the model's WDATA, of its data path, or none: without data, a
  // beat without a strobe takes its time and changes nothing.
#if TILEWRIGHT_DATA
  void SampleData(AxiRequest* request) {
    request->w_data = data_->FrontBeat();
    beat_taken_ = top_->m_axi_wready;
  }
  void DropData() {
    if (beat_taken_) data_->PopBeat();
    beat_taken_ = false;
  }
  std::unique_ptr<DataPath> data_;
  bool beat_taken_ = false;
#elif TILEWRIGHT_GEOMETRY
  void SampleData(AxiRequest* request) { request->w_strobe = 0; }
  void DropData() {}
#else
  void SampleData(AxiRequest*) {}
  void DropData() {}
#endif

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
  bool pins_moved_ = true;  // pins that do not go to a register of the wrapper
#if VM_TRACE_FST
  std::unique_ptr<VerilatedFstC> waves_;
  uint64_t wave_time_ = 0;
#endif
};

}  // namespace

std::unique_ptr<Simulation> CreateSimulation(uint32_t max_burst_beats, const MemoryTiming& timing,
                                             const Geometry* geometry, uint32_t initial_seed) {
  return std::make_unique<BusSimulation<VerilatedModel>>(max_burst_beats, timing, geometry,
                                                         initial_seed);
}

}  // namespace tilewright

#if TILEWRIGHT_GEOMETRY
// What sim/verilator/runtime/*.sv import. The words of a Geometry are read by index.
extern "C" uint32_t tilewright_geometry(uint32_t index) {
  const auto* words = reinterpret_cast<const uint32_t*>(tilewright::elaborated_geometry);
  return words[index];
}
#endif
#if TILEWRIGHT_DATA
extern "C" void* tilewright_data() { return tilewright::elaborated_data; }

extern "C" void tilewright_load(void* data, uint32_t memories, uint32_t tile, uint32_t slice,
                                uint32_t lane, uint32_t count, svBit pad, svBit diagonal,
                                uint32_t phase, svBit int4, uint32_t scale,
                                const svBitVecVal* beat) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(beat);
  auto* path = static_cast<tilewright::DataPath*>(data);
  if (diagonal) {
    path->LoadDiagonal(tile, slice, lane, phase, bytes);
  } else if (int4) {
    path->LoadInt4(tile, slice, scale, bytes);
  } else {
    path->Load(memories, tile, slice, lane, count, pad, bytes);
  }
}

extern "C" void tilewright_gemm(void* data, uint32_t inp, uint32_t wgt, uint32_t acc, svBit fresh) {
  static_cast<tilewright::DataPath*>(data)->Gemm(inp, wgt, acc, fresh);
}

extern "C" void tilewright_param(void* data, uint32_t tile, uint32_t row) {
  static_cast<tilewright::DataPath*>(data)->ReadParameters(tile, row);
}

extern "C" void tilewright_vector(void* data, uint32_t operation, uint32_t destination,
                                  uint32_t source, uint32_t operand, svBit has_operand,
                                  int32_t immediate, uint32_t part, svBit lookup, uint32_t slot,
                                  svBit hold, uint32_t reduce, svBit first, uint32_t lanes) {
  static_cast<tilewright::DataPath*>(data)->Vector(
      {operation, destination, source, operand, has_operand != 0, immediate, part, lookup != 0,
       static_cast<tilewright::VectorSlot>(slot), hold != 0, reduce, first != 0, lanes});
}

extern "C" void tilewright_out(void* data, uint32_t tile, uint32_t slice, uint32_t lane) {
  static_cast<tilewright::DataPath*>(data)->ReadOut(tile, slice, lane);
}

extern "C" void tilewright_clear(void* data) {
  static_cast<tilewright::DataPath*>(data)->ClearBeats();
}
#endif
