# SPDX-License-Identifier: Apache-2.0
# In a project on disk, as overlays of PYNQ are built: each IP is synthesised on its own, in runs.

set design [get_files system.bd]
generate_target all $design
add_files -norecurse [make_wrapper -files $design -top]
set_property top system_wrapper [current_fileset]
update_compile_order -fileset sources_1
add_files -fileset constrs_1 -norecurse tilewright.xdc

# Strategy: $settings(strategy) in every step that has directives.
foreach step {OPT_DESIGN PLACE_DESIGN PHYS_OPT_DESIGN ROUTE_DESIGN POST_ROUTE_PHYS_OPT_DESIGN} {
    set_property STEPS.$step.ARGS.DIRECTIVE $settings(strategy) [get_runs impl_1]
}
foreach step {PHYS_OPT_DESIGN POST_ROUTE_PHYS_OPT_DESIGN} {
    set_property STEPS.$step.IS_ENABLED true [get_runs impl_1]
}

# Vivado waits for a run that failed as for one that ended.
proc finish_run {name args} {
    launch_runs $name {*}$args -jobs 4
    wait_on_run $name
    set run [get_runs $name]
    if {[get_property PROGRESS $run] ne "100%"} {
        error "tilewright error: run $name: [get_property STATUS $run]; read\
            [get_property DIRECTORY $run]/runme.log"
    }
}

finish_run synth_1
finish_run impl_1 -to_step write_bitstream
open_run impl_1
