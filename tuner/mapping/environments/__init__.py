# SPDX-License-Identifier: Apache-2.0
"""Mapping search as environments of reinforcement learning: one step proposes one mapping.

`game` is the environment for whole batches, without a library. `single_agent` (Gymnasium) and
`multi_agent` (PettingZoo) are the interfaces of others around it; `registration` gives them ids.
May import what `tuner.mapping` may; Gymnasium and PettingZoo in the files of their interface alone.
"""
