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
