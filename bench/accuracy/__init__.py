# SPDX-License-Identifier: Apache-2.0
"""Accuracy of trained networks on real inputs, float against int8."""
