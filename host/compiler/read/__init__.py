# SPDX-License-Identifier: Apache-2.0
"""Models as they come (ONNX, TensorFlow Lite, PyTorch) and calibration data, as checked plain data.

A file is untrusted: whatever is in it, the answer is a model or one `WorkloadError`.
May import `host.network` and `host.common`, and no other room of the compiler.
"""
