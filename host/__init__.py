# SPDX-License-Identifier: Apache-2.0
"""Everything that runs on the host: configuration, instruction set, workloads, lowering, devices."""
