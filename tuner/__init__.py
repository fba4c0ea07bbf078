# SPDX-License-Identifier: Apache-2.0
"""Search over accelerator configurations and layer schedules.

Rooms, lowest first: `search` (algorithms) and `measure`, `allocate` (which layer is measured
next), `schedule` (spaces and legality) and `store` (trials on disk), `study` (one tuning run) and
`exhaustive` (proven optima), `report`. Imports `host` and `sim`.
"""
