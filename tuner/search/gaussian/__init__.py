# SPDX-License-Identifier: Apache-2.0
"""The default tuner: a predicted cost, corrected by a Gaussian process on measurements."""
