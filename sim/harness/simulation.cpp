// SPDX-License-Identifier: Apache-2.0
// The verilated top, of one core or of a system of several, as a model of BusSimulation.
//
// Port 0 of its memory is the port of the BusSimulation; the model steps the memories of the others
// in the same cycles.
#include "simulation.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#if TILEWRIGHT_PORTS
#include "Vtilewright_system.h"
#include "Vtilewright_system___024root.h"
using Top = Vtilewright_system;
#define TILEWRIGHT_PORT_0(pin) m_axi_0_##pin
#else
#include "Vtilewright_top.h"
#ifdef TILEWRIGHT_CLOCK_HISTORY
#include "Vtilewright_top___024root.h"
#endif
using Top = Vtilewright_top;
#define TILEWRIGHT_PORT_0(pin) m_axi_##pin
#endif
#include "bus_simulation.h"
#include "verilated.h"
#ifdef TILEWRIGHT_CLOCK_EDGE
bool TILEWRIGHT_CLOCK_EDGE(decltype(Top::rootp) root);  // of the generated code
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

// The pins of a memory port. Without bytes (TILEWRIGHT_BYTES 0) a beat without a strobe takes its
// time and changes nothing.
template <int Number>
struct Pins;

#define TILEWRIGHT_PINS(N, PIN)                                                            \
  template <>                                                                              \
  struct Pins<N> {                                                                         \
    static uint32_t BeatBytes(const Top& top) { return sizeof(top.PIN(rdata)); }           \
    static const uint8_t* WriteData(Top& top) { return PortBytes(top.PIN(wdata)); }        \
    static bool Requests(const Top& top) {                                                 \
      return top.PIN(arvalid) || top.PIN(awvalid) || top.PIN(wvalid);                      \
    }                                                                                      \
    static void Sample(const Top& top, AxiRequest* request) {                              \
      request->ar_valid = top.PIN(arvalid);                                                \
      request->aw_valid = top.PIN(awvalid);                                                \
      request->w_valid = top.PIN(wvalid);                                                  \
      request->r_ready = top.PIN(rready);                                                  \
      request->b_ready = top.PIN(bready);                                                  \
      if (request->ar_valid) {                                                             \
        request->ar = {top.PIN(araddr), top.PIN(arlen), top.PIN(arsize), top.PIN(arburst), \
                       top.PIN(arid)};                                                     \
      }                                                                                    \
      if (request->aw_valid) {                                                             \
        request->aw = {top.PIN(awaddr), top.PIN(awlen), top.PIN(awsize), top.PIN(awburst), \
                       top.PIN(awid)};                                                     \
      }                                                                                    \
      if (request->w_valid) {                                                              \
        request->w_last = top.PIN(wlast);                                                  \
        request->w_strobe = TILEWRIGHT_BYTES ? top.PIN(wstrb) : 0;                         \
      }                                                                                    \
    }                                                                                      \
    static void Drive(Top& top, const AxiResponse& response, bool read_ended) {            \
      top.PIN(arready) = response.ar_ready;                                                \
      top.PIN(awready) = response.aw_ready;                                                \
      top.PIN(wready) = response.w_ready;                                                  \
      top.PIN(rvalid) = response.r_valid;                                                  \
      top.PIN(bvalid) = response.b_valid;                                                  \
      if (response.r_new) {                                                                \
        std::memcpy(PortBytes(top.PIN(rdata)), response.r_data, sizeof(top.PIN(rdata)));   \
        top.PIN(rresp) = response.r_resp;                                                  \
        top.PIN(rlast) = response.r_last;                                                  \
        top.PIN(rid) = response.r_id;                                                      \
      } else if (read_ended) {                                                             \
        top.PIN(rlast) = 0;                                                                \
      }                                                                                    \
      if (response.b_valid) {                                                              \
        top.PIN(bresp) = response.b_resp;                                                  \
        top.PIN(bid) = response.b_id;                                                      \
      }                                                                                    \
    }                                                                                      \
  }
TILEWRIGHT_PINS(0, TILEWRIGHT_PORT_0);
#if TILEWRIGHT_PORTS > 1
#define TILEWRIGHT_PORT_1(pin) m_axi_1_##pin
TILEWRIGHT_PINS(1, TILEWRIGHT_PORT_1);
#endif
#if TILEWRIGHT_PORTS > 2
#define TILEWRIGHT_PORT_2(pin) m_axi_2_##pin
TILEWRIGHT_PINS(2, TILEWRIGHT_PORT_2);
#endif
#if TILEWRIGHT_PORTS > 3
#define TILEWRIGHT_PORT_3(pin) m_axi_3_##pin
TILEWRIGHT_PINS(3, TILEWRIGHT_PORT_3);
#endif

// Calls operation(Pins<n>(), n - 1) for every port but 0.
template <typename Operation, int... Index>
void ForEach(Operation operation, std::integer_sequence<int, Index...>) {
  (operation(Pins<Index + 1>(), static_cast<size_t>(Index)), ...);
  static_cast<void>(operation);
}
template <typename Operation>
void ForOtherPorts(Operation operation) {
  constexpr int kOthers = TILEWRIGHT_PORTS > 1 ? TILEWRIGHT_PORTS - 1 : 0;
  ForEach(operation, std::make_integer_sequence<int, kOthers>());
}

class VerilatedModel {
 public:
  static constexpr bool kHasWaves = VM_TRACE_FST != 0;
  static constexpr uint32_t kRegisterBytes = TILEWRIGHT_PORTS ? 16 * 4096 : 4096;
#ifdef TILEWRIGHT_CLOCK_HISTORY
  static constexpr bool kRegistersSlave = true;
#else
  static constexpr bool kRegistersSlave = false;
#endif

  // A model of one configuration takes no geometry.
  VerilatedModel(uint32_t max_burst_beats, const MemoryTiming* timing, const Geometry* geometry,
                 uint32_t initial_seed)
      : context_(std::make_unique<VerilatedContext>()) {
    context_->traceEverOn(kHasWaves);
    context_->timeunit(-9);
    context_->timeprecision(-9);
    // What --x-initial unique asks for: zeros, or random bits.
    context_->randReset(initial_seed != 0 ? 2 : 0);
    context_->randSeed(static_cast<int>(initial_seed));
    top_ = std::make_unique<Top>(context_.get());
    Elaborate(geometry);
    ForOtherPorts([&]([[maybe_unused]] auto pins, size_t) {
      using P = decltype(pins);
      others_.push_back(
          std::make_unique<MemoryModel>(P::BeatBytes(*top_), max_burst_beats, *timing));
      requests_.emplace_back();
      requests_.back().w_data = P::WriteData(*top_);
    });
  }

  uint32_t beat_bytes() const { return Pins<0>::BeatBytes(*top_); }
  const uint8_t* write_data() const { return Pins<0>::WriteData(*top_); }
  const std::vector<std::unique_ptr<MemoryModel>>& other_memories() const { return others_; }

  void SetReset(bool asserted) {
    top_->aresetn = !asserted;
    in_reset_ = asserted;
    pins_moved_ = true;
  }
#ifdef TILEWRIGHT_CLOCK_HISTORY
  // One evaluation a cycle: the clock stays high, and the model is told that it was low. No input
  // but a register access changes what is combinational (see sim/verilator/registered_top.py).
  // While no other pin has moved either, the work of the edge is all that there is to evaluate.
  void Rise() {
    if (TILEWRIGHT_PORTS > 1) {
      for (auto& memory : others_) {
        if (!stepped_) memory->SkipQuietCycle();
      }
      stepped_ = false;
    }
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
  // A cycle in which any port has something to do is stepped.
  bool requests() const {
    bool found = Pins<0>::Requests(*top_);
    ForOtherPorts([&]([[maybe_unused]] auto pins, size_t index) {
      found = found || decltype(pins)::Requests(*top_) || (!in_reset_ && !others_[index]->quiet());
    });
    return found;
  }

  void Sample(AxiRequest* request) {
    Pins<0>::Sample(*top_, request);
    if (request->w_valid) SampleData(request);
    ForOtherPorts([&]([[maybe_unused]] auto pins, size_t index) {
      using P = decltype(pins);
      MemoryModel& memory = *others_[index];
      const bool had_read = memory.response().r_valid;
      P::Sample(*top_, &requests_[index]);
      const AxiResponse& response = memory.Step(requests_[index]);
      P::Drive(*top_, response, had_read && !response.r_valid);
      if (!memory.ok()) {
        throw RtlStop("memory port " + std::to_string(index + 1) + ": " + memory.violation().text);
      }
    });
    stepped_ = true;
  }

  void Drive(const AxiResponse& response, bool read_ended) {
    DropData();
    Pins<0>::Drive(*top_, response, read_ended);
    ForOtherPorts([&]([[maybe_unused]] auto pins, size_t index) {
      // After a reset, or with a new timing.
      if (!stepped_) decltype(pins)::Drive(*top_, others_[index]->response(), true);
    });
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

  // The bytes of a write: those of the model's WDATA, or of its data path.
#if TILEWRIGHT_DATA
  void SampleData(AxiRequest* request) {
    request->w_data = data_->FrontBeat();
    beat_taken_ = top_->TILEWRIGHT_PORT_0(wready);
  }
  void DropData() {
    if (beat_taken_) data_->PopBeat();
    beat_taken_ = false;
  }
  std::unique_ptr<DataPath> data_;
  bool beat_taken_ = false;
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
  std::unique_ptr<Top> top_;
  std::vector<std::unique_ptr<MemoryModel>> others_;  // memories of all ports but 0
  std::vector<AxiRequest> requests_;
  bool pins_moved_ = true;  // pins that do not go to a register of the wrapper
  bool in_reset_ = false;
  bool stepped_ = false;  // the other ports took part in this cycle
#if VM_TRACE_FST
  std::unique_ptr<VerilatedFstC> waves_;
  uint64_t wave_time_ = 0;
#endif
};

}  // namespace

std::unique_ptr<Simulation> CreateSimulation(uint32_t max_burst_beats, const MemoryTiming& timing,
                                             const Geometry* geometry, uint32_t initial_seed) {
  return std::make_unique<BusSimulation<VerilatedModel>>(max_burst_beats, timing, max_burst_beats,
                                                         &timing, geometry, initial_seed);
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
