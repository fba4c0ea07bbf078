// SPDX-License-Identifier: Apache-2.0
// The verilated top of a system as a Simulation: cores, and a memory behind each of its ports.
//
// Port 0 is the port of a BusSimulation; the model steps the memories of the others in the same
// cycles. All ports see the bytes that are attached, each with a DRAM of its own timing. An address
// of a register is that of its page plus the offset in it.
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "Vtilewright_system.h"
#include "bus_simulation.h"
#include "verilated.h"
#ifdef TILEWRIGHT_CLOCK_HISTORY
#include "Vtilewright_system___024root.h"
#endif
#ifdef TILEWRIGHT_CLOCK_EDGE
bool TILEWRIGHT_CLOCK_EDGE(Vtilewright_system___024root* root);  // of the generated code
#endif

namespace tilewright {
namespace {

using Top = Vtilewright_system;

constexpr uint32_t kPageBits = 12;  // of a page of registers
constexpr uint32_t kPages = 16;

// The bytes of a packed port (see sim/harness/simulation.cpp).
template <typename Port>
uint8_t* PortBytes(Port& port) {
  return reinterpret_cast<uint8_t*>(&port);
}

// The pins of a memory port. Without data (TILEWRIGHT_BYTES 0) a beat without a strobe takes its
// time and changes nothing.
template <int Number>
struct Pins;

#define TILEWRIGHT_PINS(N)                                                                  \
  template <>                                                                               \
  struct Pins<N> {                                                                          \
    static uint32_t BeatBytes(const Top& top) { return sizeof(top.m_axi_##N##_rdata); }     \
    static const uint8_t* WriteData(Top& top) { return PortBytes(top.m_axi_##N##_wdata); }  \
    static bool Requests(const Top& top) {                                                  \
      return top.m_axi_##N##_arvalid || top.m_axi_##N##_awvalid || top.m_axi_##N##_wvalid;  \
    }                                                                                       \
    static void Sample(const Top& top, AxiRequest* request) {                               \
      request->ar_valid = top.m_axi_##N##_arvalid;                                          \
      request->aw_valid = top.m_axi_##N##_awvalid;                                          \
      request->w_valid = top.m_axi_##N##_wvalid;                                            \
      request->r_ready = top.m_axi_##N##_rready;                                            \
      request->b_ready = top.m_axi_##N##_bready;                                            \
      request->ar = {top.m_axi_##N##_araddr, top.m_axi_##N##_arlen, top.m_axi_##N##_arsize, \
                     top.m_axi_##N##_arburst, top.m_axi_##N##_arid};                        \
      request->aw = {top.m_axi_##N##_awaddr, top.m_axi_##N##_awlen, top.m_axi_##N##_awsize, \
                     top.m_axi_##N##_awburst, top.m_axi_##N##_awid};                        \
      request->w_last = top.m_axi_##N##_wlast;                                              \
      request->w_strobe = TILEWRIGHT_BYTES ? top.m_axi_##N##_wstrb : 0;                     \
    }                                                                                       \
    static void Drive(Top& top, const AxiResponse& response, bool read_ended) {             \
      top.m_axi_##N##_arready = response.ar_ready;                                          \
      top.m_axi_##N##_awready = response.aw_ready;                                          \
      top.m_axi_##N##_wready = response.w_ready;                                            \
      top.m_axi_##N##_rvalid = response.r_valid;                                            \
      top.m_axi_##N##_bvalid = response.b_valid;                                            \
      if (response.r_new) {                                                                 \
        std::memcpy(PortBytes(top.m_axi_##N##_rdata), response.r_data,                      \
                    sizeof(top.m_axi_##N##_rdata));                                         \
        top.m_axi_##N##_rresp = response.r_resp;                                            \
        top.m_axi_##N##_rlast = response.r_last;                                            \
        top.m_axi_##N##_rid = response.r_id;                                                \
      } else if (read_ended) {                                                              \
        top.m_axi_##N##_rlast = 0;                                                          \
      }                                                                                     \
      if (response.b_valid) {                                                               \
        top.m_axi_##N##_bresp = response.b_resp;                                            \
        top.m_axi_##N##_bid = response.b_id;                                                \
      }                                                                                     \
    }                                                                                       \
  }
TILEWRIGHT_PINS(0);
#if TILEWRIGHT_PORTS > 1
TILEWRIGHT_PINS(1);
#endif
#if TILEWRIGHT_PORTS > 2
TILEWRIGHT_PINS(2);
#endif
#if TILEWRIGHT_PORTS > 3
TILEWRIGHT_PINS(3);
#endif
#undef TILEWRIGHT_PINS

// What a simulation keeps beside port 0: the page of registers, and the other ports' memories.
struct Beside {
  uint32_t page = 0;
  std::vector<std::unique_ptr<MemoryModel>> memories;
  std::vector<AxiRequest> requests;
};

// A memory port behind port 0, if there is one.
class OtherPorts {
 public:
  explicit OtherPorts(Top* top, Beside* beside) : top_(*top), beside_(*beside) {}

  void Make(uint32_t max_burst_beats, const MemoryTiming& timing) {
    ForEach([&]([[maybe_unused]] auto pins, size_t) {
      using P = decltype(pins);
      beside_.memories.push_back(
          std::make_unique<MemoryModel>(P::BeatBytes(top_), max_burst_beats, timing));
      beside_.requests.emplace_back();
      beside_.requests.back().w_data = P::WriteData(top_);
    });
  }

  void Reset() {
    for (auto& memory : beside_.memories) memory->Reset();
  }

  bool Requests() {
    bool requests = false;
    ForEach([&]([[maybe_unused]] auto pins, size_t) {
      requests = requests || decltype(pins)::Requests(top_);
    });
    return requests;
  }

  bool Busy() {
    bool busy = Requests();
    for (auto& memory : beside_.memories) busy = busy || !memory->quiet();
    return busy;
  }

  // The end of a cycle: what the ports show in the next.
  void Step() {
    ForEach([&]([[maybe_unused]] auto pins, size_t index) {
      using P = decltype(pins);
      MemoryModel& memory = *beside_.memories[index];
      const bool had_read = memory.response().r_valid;
      P::Sample(top_, &beside_.requests[index]);
      const AxiResponse& response = memory.Step(beside_.requests[index]);
      P::Drive(top_, response, had_read && !response.r_valid);
      if (!memory.ok()) {
        throw RtlStop("memory port " + std::to_string(index + 1) + ": " + memory.violation().text);
      }
    });
  }

  void DriveAll() {
    ForEach([&]([[maybe_unused]] auto pins, size_t index) {
      decltype(pins)::Drive(top_, beside_.memories[index]->response(), true);
    });
  }

  void SkipQuietCycle() {
    for (auto& memory : beside_.memories) memory->SkipQuietCycle();
  }

 private:
  // Calls operation(Pins<n>(), n - 1) for every port but 0.
  template <typename Operation>
  void ForEach(Operation operation) {
    Call(operation, std::make_integer_sequence<int, TILEWRIGHT_PORTS - 1>());
  }
  template <typename Operation, int... Index>
  void Call(Operation& operation, std::integer_sequence<int, Index...>) {
    (operation(Pins<Index + 1>(), static_cast<size_t>(Index)), ...);
    static_cast<void>(operation);
  }

  Top& top_;
  Beside& beside_;
};

// A Model of BusSimulation.
class SystemModel {
 public:
  static constexpr bool kHasWaves = false;
#ifdef TILEWRIGHT_CLOCK_HISTORY
  static constexpr bool kRegistersSlave = true;
#else
#error "a system is simulated behind registered pins: see sim/verilator/registered_top.py"
#endif

  SystemModel(Beside* beside, uint32_t max_burst_beats, const MemoryTiming* timing,
              uint32_t initial_seed)
      : beside_(*beside), context_(std::make_unique<VerilatedContext>()) {
    // What --x-initial unique asks for: zeros, or random bits.
    context_->randReset(initial_seed != 0 ? 2 : 0);
    context_->randSeed(static_cast<int>(initial_seed));
    top_ = std::make_unique<Top>(context_.get());
    others_ = std::make_unique<OtherPorts>(top_.get(), beside);
    others_->Make(max_burst_beats, *timing);
  }

  uint32_t beat_bytes() const { return Pins<0>::BeatBytes(*top_); }
  const uint8_t* write_data() const { return Pins<0>::WriteData(*top_); }

  void SetReset(bool asserted) {
    top_->aresetn = !asserted;
    in_reset_ = asserted;
    if (asserted) others_->Reset();
    pins_moved_ = true;
  }

  // One evaluation a cycle, as in sim/harness/simulation.cpp.
  void Rise() {
    if (!stepped_) others_->SkipQuietCycle();
    stepped_ = false;
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
  void Settle() {
    top_->eval();
    pins_moved_ = false;
  }
  void Finish(bool stopped) {
    if (!stopped) top_->final();
  }

  bool irq() const { return top_->irq_o; }
  // A cycle in which any port has something to do is stepped.
  bool requests() {
    return Pins<0>::Requests(*top_) || (in_reset_ ? others_->Requests() : others_->Busy());
  }

  void Sample(AxiRequest* request) {
    Pins<0>::Sample(*top_, request);
    others_->Step();
    stepped_ = true;
  }
  void Drive(const AxiResponse& response, bool read_ended) {
    Pins<0>::Drive(*top_, response, read_ended);
    if (!stepped_) others_->DriveAll();  // after a reset, or with a new timing
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
    top_->s_axil_awaddr = static_cast<SData>(beside_.page | address);
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
    top_->s_axil_araddr = static_cast<SData>(beside_.page | address);
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

  bool OpenWaves(const std::string&) { return false; }
  void CloseWaves() {}

 private:
  Beside& beside_;
  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<Top> top_;
  std::unique_ptr<OtherPorts> others_;
  bool pins_moved_ = true;  // pins that do not go to a register of the wrapper
  bool in_reset_ = false;
  bool stepped_ = false;  // the other ports took part in this cycle
};

// A Simulation whose registers are in pages and whose memory is behind several ports.
class SystemSimulation final : public Simulation {
 public:
  SystemSimulation(uint32_t max_burst_beats, const MemoryTiming& timing, uint32_t initial_seed)
      : bus_(max_burst_beats, timing, &beside_, max_burst_beats, &timing, initial_seed) {}

  Status Reset(uint32_t cycles) override { return bus_.Reset(cycles); }

  Status SetTiming(const MemoryTiming& timing) override {
    try {
      for (auto& memory : beside_.memories) memory->SetTiming(timing);
    } catch (const std::invalid_argument&) {
      // Port 0 has the same timing: it says what is wrong.
    }
    return bus_.SetTiming(timing);
  }

  Status Attach(uint8_t* data, uint64_t size, uint64_t base) override {
    const Status status = bus_.Attach(data, size, base);
    if (status != Status::kOk) return status;
    for (auto& memory : beside_.memories) memory->Attach(data, size, base);
    return status;
  }

  Status SetFault(const FaultRange& fault) override {
    for (auto& memory : beside_.memories) memory->SetFault(fault);
    return bus_.SetFault(fault);
  }

  Status WriteRegister(uint32_t address, uint32_t value) override {
    return bus_.WriteRegister(InPage(address), value);
  }
  Status ReadRegister(uint32_t address, uint32_t* value) override {
    return bus_.ReadRegister(InPage(address), value);
  }

  RunOutcome Run(const RunRequest& request) override {
    beside_.page = 0;  // what is polled lies in the shared page
    return bus_.Run(request);
  }

  Status OpenWaves(const std::string& path) override { return bus_.OpenWaves(path); }
  Status CloseWaves() override { return bus_.CloseWaves(); }
  uint64_t total_cycles() const override { return bus_.total_cycles(); }
  const ViolationRecord& violation() const override { return bus_.violation(); }
  const std::string& error_text() const override { return bus_.error_text(); }

 private:
  // Chooses the page; an address beyond all pages stays as it is, and is refused.
  uint32_t InPage(uint32_t address) {
    if (address >= kPages << kPageBits) return address;
    beside_.page = address >> kPageBits << kPageBits;
    return address - beside_.page;
  }

  Beside beside_;
  BusSimulation<SystemModel> bus_;
};

}  // namespace

std::unique_ptr<Simulation> CreateSimulation(uint32_t max_burst_beats, const MemoryTiming& timing,
                                             const Geometry*, uint32_t initial_seed) {
  return std::make_unique<SystemSimulation>(max_burst_beats, timing, initial_seed);
}

}  // namespace tilewright
