// SPDX-License-Identifier: Apache-2.0
// Included before every source of a model: the verilated code prints through this function.
#ifndef TILEWRIGHT_SIM_HARNESS_MODEL_PRINT_H_
#define TILEWRIGHT_SIM_HARNESS_MODEL_PRINT_H_

// Like printf, but keeps the message of an assertion for the error that follows it.
int tilewright_model_print(const char* format, ...) __attribute__((format(printf, 1, 2)));

#endif  // TILEWRIGHT_SIM_HARNESS_MODEL_PRINT_H_
