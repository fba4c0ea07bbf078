# SPDX-License-Identifier: Apache-2.0
"""Which clock a netlist may reach: delays of cells, wires by fan-out, longest paths.

Nothing is placed and nothing is routed here; `sim.synth.place_route` does that for ECP5.
"""
