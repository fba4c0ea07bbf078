// SPDX-License-Identifier: Apache-2.0
// One verilated module behind a C ABI whose pins are plain memory: what
// sim/verilator/interactive.py binds. The generated file that includes this defines TW_MODEL and
// the list of ports.
#ifndef TILEWRIGHT_SIM_HARNESS_INTERACTIVE_H_
#define TILEWRIGHT_SIM_HARNESS_INTERACTIVE_H_

#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "verilated.h"
#if VM_TRACE_FST
#include "verilated_fst_c.h"
#endif

#define TW_API extern "C" __attribute__((visibility("default")))

// The run-time library calls these where its defaults would end the process. Thrown through the
// generated code, they end the call with an error instead.
struct RtlStopped : std::exception {
  explicit RtlStopped(std::string text) : text(std::move(text)) {}
  const char* what() const noexcept override { return text.c_str(); }
  std::string text;
};
inline std::string Where(const char* what, const char* file, int line) {
  return std::string(what) + " at " + (file != nullptr ? file : "?") + ":" + std::to_string(line);
}

template <typename Top>
struct InteractiveModel {
  std::unique_ptr<VerilatedContext> context = std::make_unique<VerilatedContext>();
  std::unique_ptr<Top> top;
  std::string error;
  bool stopped = false;
#if VM_TRACE_FST
  std::unique_ptr<VerilatedFstC> waves;
#endif

  InteractiveModel() {
    context->traceEverOn(true);
    top = std::make_unique<Top>(context.get());
  }

  ~InteractiveModel() {
    CloseWaves();
    if (!stopped) top->final();
  }

  // Lets outputs follow the inputs, then `units` of time pass. 0: done; 1: the RTL stopped.
  int Evaluate(uint64_t units) {
    try {
      top->eval();
    } catch (const std::exception& stop) {
      stopped = true;
      error = stop.what();
      return 1;
    }
#if VM_TRACE_FST
    if (waves && units != 0) waves->dump(context->time());
#endif
    context->timeInc(units);
    return 0;
  }

  // Whole cycles of a clock pin: inputs settle, the clock rises and falls.
  int Tick(uint8_t* clock, uint64_t cycles, uint64_t half_period) {
    for (uint64_t cycle = 0; cycle < cycles; ++cycle) {
      if (Evaluate(0) != 0) return 1;
      *clock = 1;
      if (Evaluate(half_period) != 0) return 1;
      *clock = 0;
      if (Evaluate(half_period) != 0) return 1;
    }
    return 0;
  }

  // Bytes through pins of a valid/ready source and sink (valid, ready, data). Ends when all of
  // `sent` were taken and `wanted` came, or nothing moved for `quiet` cycles. How many came; -1:
  // the RTL stopped.
  int64_t Stream(uint8_t* clock, uint64_t half_period, uint8_t* const* source, uint8_t* const* sink,
                 const uint8_t* sent, int64_t size, uint8_t* got, int64_t wanted, int64_t room,
                 int64_t quiet) {
    int64_t given = 0;
    int64_t came = 0;
    for (int64_t idle = 0; (given < size || came < wanted) && idle < quiet; ++idle) {
      *source[0] = given < size ? 1 : 0;
      if (given < size) *source[2] = sent[given];
      *sink[1] = came < room ? 1 : 0;
      if (Evaluate(0) != 0) return -1;
      const bool take = *source[0] != 0 && *source[1] != 0;
      const bool give = *sink[0] != 0 && *sink[1] != 0;
      if (give) got[came] = *sink[2];
      if (Tick(clock, 1, half_period) != 0) return -1;
      given += take ? 1 : 0;
      came += give ? 1 : 0;
      if (take || give) idle = 0;
    }
    *source[0] = 0;
    *sink[1] = 0;
    return Evaluate(0) != 0 ? -1 : came;
  }

  bool OpenWaves(const char* path) {
#if VM_TRACE_FST
    CloseWaves();
    waves = std::make_unique<VerilatedFstC>();
    top->trace(waves.get(), 99);
    waves->open(path);
    if (!waves->isOpen()) waves.reset();
    return waves != nullptr;
#else
    return path == nullptr;
#endif
  }

  void CloseWaves() {
#if VM_TRACE_FST
    if (waves) waves->close();
    waves.reset();
#endif
  }
};

#endif  // TILEWRIGHT_SIM_HARNESS_INTERACTIVE_H_
