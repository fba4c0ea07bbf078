# SPDX-License-Identifier: Apache-2.0
"""Searches whose agents learn: CHAMELEON, DCOC and its ablations."""
