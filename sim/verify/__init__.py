# SPDX-License-Identifier: Apache-2.0
"""How the RTL is checked: random programs, coverage, proofs, mutants, lint, netlists.

Imports any room of `sim`; no product path imports it.
"""
