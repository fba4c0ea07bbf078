# SPDX-License-Identifier: Apache-2.0
"""What is computed: workloads, schedules, tensor layouts and the integer arithmetic of a layer.

Imports `machine` and `common`.
"""
