# SPDX-License-Identifier: Apache-2.0
"""The default search: a prior calibrated by a Gaussian process on what was measured."""
