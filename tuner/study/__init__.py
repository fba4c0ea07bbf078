# SPDX-License-Identifier: Apache-2.0
"""A study: one tuning run, from its settings to the best network; it can be resumed.

Imports every room but `report` and `exhaustive`.
"""
