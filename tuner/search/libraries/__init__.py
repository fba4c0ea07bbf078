# SPDX-License-Identifier: Apache-2.0
"""Searches of kept libraries behind the contract: Optuna, BoTorch, Nevergrad."""
