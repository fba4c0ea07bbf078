# SPDX-License-Identifier: Apache-2.0
"""What learning mappers are made of: the decisions of agents, and who takes which.

May import `tuner.mapping`'s model and space, `tuner.search` and SciPy; mappers import this.
"""
