# SPDX-License-Identifier: Apache-2.0
"""Random legal programs without races: what devices are compared on.

Imports `reference`.
"""
