// SPDX-License-Identifier: Apache-2.0
// What ends a verilated model: an assertion, $stop, $fatal and $finish become an RtlStop.
//
// Verilator's run-time library calls the functions at the end (it is built with VL_USER_STOP,
// _FATAL and _FINISH); its own end the process.
#include <cstdarg>
#include <cstdio>
#include <string>

#include "bus_simulation.h"
#include "verilated.h"

namespace tilewright {
namespace {

// Message of the assertion that is about to stop the simulation; the RTL prints it, then stops.
thread_local std::string assertion_text;

[[noreturn]] void ThrowStop(const char* what, const char* file, int line, const char* scope) {
  std::string text = std::string(what) + " at " + (file ? file : "?") + ":" + std::to_string(line);
  if (scope != nullptr && *scope != '\0') text += std::string(" in ") + scope;
  if (!assertion_text.empty()) text += ": " + assertion_text;
  assertion_text.clear();
  throw RtlStop(text);
}

}  // namespace
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
