# SPDX-License-Identifier: Apache-2.0
"""From a float model to an int8 one: ranges, equalisation, bias correction.

Imports `read`.
"""
