# SPDX-License-Identifier: Apache-2.0
"""The forms of `tilewright map`, and what they print."""
