# SPDX-License-Identifier: Apache-2.0
"""A study: from its settings through its searches to the best network, resumable.

Imports every room but `report` and `exhaustive`.
"""
