# SPDX-License-Identifier: Apache-2.0
"""What runs on the host: configuration, instruction set, workloads, lowering, devices."""
