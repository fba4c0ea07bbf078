# SPDX-License-Identifier: Apache-2.0
"""Mapping: how a loop nest runs on a *described* spatial accelerator, what it costs, what is best.

`nest` is the problem, `architecture` the hardware, `mapping` a point, `cost` its price (computed by
`native/cost.h`). May import `tuner.search`, `host.network`, `host.common` and `sim.tools`.
"""
