# SPDX-License-Identifier: Apache-2.0
"""Jobs in processes that may crash or be killed: on this machine or on a Ray cluster.

Imports `verilator`.
"""
