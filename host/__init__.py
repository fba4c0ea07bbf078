# SPDX-License-Identifier: Apache-2.0
"""What runs on the host: from a model to a program, and from a program to a device.

Rooms, lowest first: `common`, `machine` (the accelerator's parameters and instructions), `network`
(layers and schedules), `lowering` (a layer becomes a program) and `runtime` (programs on devices),
`compiler` (a whole model becomes one file), `deploy` (which a board runs). Imports nothing of `sim`
and `tuner`.
"""
