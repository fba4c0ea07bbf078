# SPDX-License-Identifier: Apache-2.0
"""The functional reference: what a program computes, bit by bit, without any timing.

Imports `tools`.
"""
