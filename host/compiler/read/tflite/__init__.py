# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite files as ONNX models.

`file` takes a flatbuffer apart, as untrusted input; `graph` holds the ONNX model that grows;
`operators` is the table of what becomes of each operator, with the conversions in `layers`, `moves`
and `functions`; `model` puts them together.
"""
