# SPDX-License-Identifier: Apache-2.0
"""Tuners with reinforcement-learning agents: CHAMELEON, DCOC and its ablations."""
