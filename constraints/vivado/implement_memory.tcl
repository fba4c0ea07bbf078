# SPDX-License-Identifier: Apache-2.0
# Without a project on disk: synthesis of the whole block design at once, placement, routing.

set design [get_files system.bd]
set_property synth_checkpoint_mode None $design
generate_target all $design
read_verilog [make_wrapper -files $design -top]
read_xdc tilewright.xdc
auto_detect_xpm

# Strategy: $settings(strategy) in every step that has directives.
synth_design -top system_wrapper -part $settings(part) -flatten_hierarchy rebuilt
opt_design -directive $settings(strategy)
place_design -directive $settings(strategy)
phys_opt_design -directive $settings(strategy)
route_design -directive $settings(strategy)
phys_opt_design -directive $settings(strategy)
