// SPDX-License-Identifier: Apache-2.0
// The top that Yosys wrote with write_cxxrtl as a model of BusSimulation.
#include <cstring>
#include <stdexcept>
#include <vector>

#include "bus_simulation.h"
#include "cxxrtl_top.h"
#include "simulation.h"

namespace tilewright {
namespace {

// An assertion of the RTL that fails ends the simulation; $display goes nowhere.
struct Checker : public cxxrtl::performer {
  void on_print(const cxxrtl::lazy_fmt&, const cxxrtl::metadata_map&) override {}
  void on_check(cxxrtl::flavor type, bool condition, const cxxrtl::lazy_fmt& formatter,
                const cxxrtl::metadata_map&) override {
    const bool checks = type == cxxrtl::flavor::ASSERT || type == cxxrtl::flavor::ASSUME;
    if (checks && !condition) throw RtlStop("assertion: " + formatter());
  }
};

// Yosys keeps an output in a value, or in a wire where a register drives it.
template <size_t Bits>
const cxxrtl::value<Bits>& Current(const cxxrtl::value<Bits>& port) {
  return port;
}
template <size_t Bits>
const cxxrtl::value<Bits>& Current(const cxxrtl::wire<Bits>& port) {
  return port.curr;
}

template <typename Port>
uint32_t Get(const Port& port) {
  return Current(port).data[0];
}

template <typename Port>
uint64_t GetWide(const Port& port) {
  const auto& value = Current(port);
  const uint64_t high = value.chunks > 1 ? value.data[value.chunks - 1] : 0;
  return high << 32 | value.data[0];
}

template <size_t Bits>
void Put(cxxrtl::value<Bits>& port, uint32_t value) {
  port.data[0] = value;
}

class CxxrtlModel {
 public:
  static constexpr bool kHasWaves = false;
  static constexpr bool kRegistersSlave = false;
  static constexpr uint32_t kRegisterBytes = 4096;

  std::vector<std::unique_ptr<MemoryModel>> other_memories() const { return {}; }
  uint32_t beat_bytes() const { return decltype(top_.p_m__axi__rdata)::bits / 8; }
  const uint8_t* write_data() const {
    return reinterpret_cast<const uint8_t*>(Current(top_.p_m__axi__wdata).data);
  }

  void SetReset(bool asserted) { Put(top_.p_aresetn, !asserted); }

  // Every output had settled before the edge, so one evaluation gives the next state; Fall settles
  // what follows from it.
  void Rise() {
    Put(top_.p_aclk, 1);
    top_.eval(&checker_);
    top_.commit();
  }
  void Fall() {
    Put(top_.p_aclk, 0);
    Settle();
  }
  void Settle() { top_.step(&checker_); }
  void Finish(bool) {}

  bool irq() const { return Get(top_.p_irq__o); }
  bool requests() const {
    return Get(top_.p_m__axi__arvalid) || Get(top_.p_m__axi__awvalid) || Get(top_.p_m__axi__wvalid);
  }

  void Sample(AxiRequest* request) const {
    request->ar_valid = Byte(top_.p_m__axi__arvalid);
    request->aw_valid = Byte(top_.p_m__axi__awvalid);
    request->w_valid = Byte(top_.p_m__axi__wvalid);
    request->r_ready = Byte(top_.p_m__axi__rready);
    request->b_ready = Byte(top_.p_m__axi__bready);
    if (request->ar_valid) {
      request->ar = {GetWide(top_.p_m__axi__araddr), Byte(top_.p_m__axi__arlen),
                     Byte(top_.p_m__axi__arsize), Byte(top_.p_m__axi__arburst),
                     Byte(top_.p_m__axi__arid)};
    }
    if (request->aw_valid) {
      request->aw = {GetWide(top_.p_m__axi__awaddr), Byte(top_.p_m__axi__awlen),
                     Byte(top_.p_m__axi__awsize), Byte(top_.p_m__axi__awburst),
                     Byte(top_.p_m__axi__awid)};
    }
    if (request->w_valid) {
      request->w_last = Byte(top_.p_m__axi__wlast);
      request->w_strobe = GetWide(top_.p_m__axi__wstrb);
    }
  }

  void Drive(const AxiResponse& response, bool read_ended) {
    Put(top_.p_m__axi__arready, response.ar_ready);
    Put(top_.p_m__axi__awready, response.aw_ready);
    Put(top_.p_m__axi__wready, response.w_ready);
    Put(top_.p_m__axi__rvalid, response.r_valid);
    Put(top_.p_m__axi__bvalid, response.b_valid);
    if (response.r_new) {
      std::memcpy(top_.p_m__axi__rdata.data, response.r_data, beat_bytes());
      Put(top_.p_m__axi__rresp, response.r_resp);
      Put(top_.p_m__axi__rlast, response.r_last);
      Put(top_.p_m__axi__rid, response.r_id);
    } else if (read_ended) {
      Put(top_.p_m__axi__rlast, 0);
    }
    if (response.b_valid) {
      Put(top_.p_m__axi__bresp, response.b_resp);
      Put(top_.p_m__axi__bid, response.b_id);
    }
  }

  void ReleaseRegisterPins() {
    Put(top_.p_s__axil__awvalid, 0);
    Put(top_.p_s__axil__wvalid, 0);
    Put(top_.p_s__axil__bready, 0);
    Put(top_.p_s__axil__arvalid, 0);
    Put(top_.p_s__axil__rready, 0);
  }

  void PutWriteAddress(uint32_t address) {
    Put(top_.p_s__axil__awaddr, address);
    Put(top_.p_s__axil__awvalid, 1);
    Put(top_.p_s__axil__bready, 1);
  }
  void PutWriteData(uint32_t value) {
    Put(top_.p_s__axil__wdata, value);
    Put(top_.p_s__axil__wstrb, 0xf);
    Put(top_.p_s__axil__wvalid, 1);
  }
  void DropWriteAddress() { Put(top_.p_s__axil__awvalid, 0); }
  void DropWriteData() { Put(top_.p_s__axil__wvalid, 0); }
  bool write_address_taken() const {
    return Get(top_.p_s__axil__awvalid) && Get(top_.p_s__axil__awready);
  }
  bool write_data_taken() const {
    return Get(top_.p_s__axil__wvalid) && Get(top_.p_s__axil__wready);
  }
  bool write_answered() const { return Get(top_.p_s__axil__bvalid); }
  uint32_t write_response() const { return Get(top_.p_s__axil__bresp); }

  void PutReadAddress(uint32_t address) {
    Put(top_.p_s__axil__araddr, address);
    Put(top_.p_s__axil__arvalid, 1);
    Put(top_.p_s__axil__rready, 1);
  }
  void DropReadAddress() { Put(top_.p_s__axil__arvalid, 0); }
  bool read_address_taken() const {
    return Get(top_.p_s__axil__arvalid) && Get(top_.p_s__axil__arready);
  }
  bool read_answered() const { return Get(top_.p_s__axil__rvalid); }
  uint32_t read_response() const { return Get(top_.p_s__axil__rresp); }
  uint32_t read_data() const { return Get(top_.p_s__axil__rdata); }

  bool OpenWaves(const std::string&) { return false; }
  void CloseWaves() {}

 private:
  template <typename Port>
  static uint8_t Byte(const Port& port) {
    return static_cast<uint8_t>(Get(port));
  }

  cxxrtl_design::p_tilewright__top top_;
  Checker checker_;
};

}  // namespace

std::unique_ptr<Simulation> CreateSimulation(uint32_t max_burst_beats, const MemoryTiming& timing,
                                             const Geometry*, uint32_t initial_seed) {
  if (initial_seed != 0) throw std::invalid_argument("CXXRTL models start with zeros");
  return std::make_unique<BusSimulation<CxxrtlModel>>(max_burst_beats, timing);
}

}  // namespace tilewright
