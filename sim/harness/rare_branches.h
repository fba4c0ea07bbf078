// SPDX-License-Identifier: Apache-2.0
// Comes between the headers and the code that Verilator generates. Most conditions of a control
// path do not hold in most cycles; a compiler without a profile assumes even odds and lays both
// sides out in line. Told that a condition rarely holds, it keeps the usual path together (1.14x at
// 16x16).
#ifndef TILEWRIGHT_SIM_HARNESS_RARE_BRANCHES_H_
#define TILEWRIGHT_SIM_HARNESS_RARE_BRANCHES_H_

#define if(...) if (__builtin_expect_with_probability(!!(__VA_ARGS__), 0, 0.9))

#endif  // TILEWRIGHT_SIM_HARNESS_RARE_BRANCHES_H_
