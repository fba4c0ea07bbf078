# SPDX-License-Identifier: Apache-2.0
"""Mapping: how a loop nest runs on a *described* spatial accelerator, what it costs, what is best.

`nest` is the problem, `architecture` the hardware, `mapping` a point, `cost` its price (computed by
`native/cost.h`). `accelerator` describes our own. May import `tuner.search`, `host.network`,
`host.machine`, `host.common` and `sim.tools`.
"""
