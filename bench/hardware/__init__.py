# SPDX-License-Identifier: Apache-2.0
"""What the accelerator does, layer by layer: bounds, mechanisms, decoding, row functions."""
