// SPDX-License-Identifier: Apache-2.0
// A testbench in C++ alone around a built model: what the simulation costs without Python.
//
//   plain_simulation LIBRARY BURST_BEATS INSN_BASE INSN_COUNT IMAGE RUNS
//
// Prints one line a run: clock cycles of the run and CPU seconds. The memory is `ideal`.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <vector>

#include "capi.h"
#include "generated/tilewright_isa.h"

namespace {

constexpr uint64_t kMemoryBase = 0x10000000;
constexpr uint64_t kMaxCycles = 1000000000;

template <typename Function>
Function* Bind(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 9) {
    std::fprintf(stderr, "eight arguments are needed\n");
    return 2;
  }
  void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  auto* create = Bind<decltype(tw_create)>(library, "tw_create");
  auto* attach = Bind<decltype(tw_attach)>(library, "tw_attach");
  auto* write = Bind<decltype(tw_write_register)>(library, "tw_write_register");
  auto* run = Bind<decltype(tw_run)>(library, "tw_run");
  auto* error_text = Bind<decltype(tw_error_text)>(library, "tw_error_text");

  const uint64_t insn_base = std::strtoull(arguments[3], nullptr, 0);
  const uint32_t insn_count = std::strtoul(arguments[4], nullptr, 0);
  std::ifstream file(arguments[5], std::ios::binary);
  const std::vector<char> image((std::istreambuf_iterator<char>(file)), {});
  const int runs = std::atoi(arguments[6]);

  tw_simulation* simulation = nullptr;
  tilewright::MemoryTiming ideal;
  ideal.read_latency = std::strtoul(arguments[7], nullptr, 0);
  ideal.write_latency = std::strtoul(arguments[8], nullptr, 0);
  const uint32_t burst_beats = std::strtoul(arguments[2], nullptr, 0);
  int32_t status = create(burst_beats, &ideal, nullptr, 0, &simulation);
  for (int i = 0; status == 0 && i < runs; ++i) {
    std::vector<uint8_t> memory(image.begin(), image.end());
    const std::clock_t begin = std::clock();
    const uint32_t settings[][2] = {
        {tilewright::kRegInsnBaseLo, static_cast<uint32_t>(insn_base)},
        {tilewright::kRegInsnBaseHi, static_cast<uint32_t>(insn_base >> 32)},
        {tilewright::kRegMemBaseLo, static_cast<uint32_t>(kMemoryBase)},
        {tilewright::kRegMemBaseHi, static_cast<uint32_t>(kMemoryBase >> 32)},
        {tilewright::kRegMemSizeLo, static_cast<uint32_t>(memory.size())},
        {tilewright::kRegMemSizeHi, 0},
        {tilewright::kRegInsnCount, insn_count},
        {tilewright::kRegIrqStatus, 3},
        {tilewright::kRegIrqEnable, 3},
        {tilewright::kRegCtrl, 1},
    };
    status = attach(simulation, memory.data(), memory.size(), kMemoryBase);
    for (const auto& [address, value] : settings) {
      if (status == 0) status = write(simulation, address, value);
    }
    tilewright::RunRequest request;
    request.max_cycles = kMaxCycles;
    tilewright::RunOutcome outcome;
    if (status == 0) status = run(simulation, &request, &outcome);
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    if (status == 0) std::printf("%llu %.6f\n", (unsigned long long)outcome.cycles, seconds);
  }
  if (status != 0) std::fprintf(stderr, "%s\n", error_text(simulation));
  return status == 0 ? 0 : 1;
}
