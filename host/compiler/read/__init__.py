# SPDX-License-Identifier: Apache-2.0
"""Models as they come (ONNX, PyTorch) and calibration data, read as plain data and checked.

Imports no other room of the compiler.
"""
