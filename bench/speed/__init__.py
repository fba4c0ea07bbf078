# SPDX-License-Identifier: Apache-2.0
"""How fast the toolkit is: simulation, lowering, builds, execution, store, agent."""
