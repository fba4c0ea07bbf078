# SPDX-License-Identifier: Apache-2.0
"""Tuners of other libraries behind the contract: Optuna, BoTorch, Nevergrad."""
