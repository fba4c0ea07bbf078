# SPDX-License-Identifier: Apache-2.0
# Synthesis of the whole block design, placement, routing, and the check of timing.

file mkdir reports
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
write_checkpoint -force work/routed.dcp
report_utilization -file reports/utilisation.txt
report_utilization -hierarchical -file reports/utilisation_by_unit.txt
report_timing_summary -file reports/timing.txt
report_drc -file reports/drc.txt

# The path with the least slack; kind is setup or hold.
proc worst_path {kind} {
    set path [lindex [get_timing_paths -$kind -max_paths 1 -nworst 1] 0]
    if {$path eq "" || [get_property SLACK $path] eq ""} {
        error "tilewright error: no path has a $kind requirement: the clock is missing"
    }
    return $path
}

set period_ns [expr {1e9 / $clock_hz}]
set slack(setup) [get_property SLACK [worst_path setup]]
set slack(hold) [get_property SLACK [worst_path hold]]
# Where the routed design would just meet timing.
set limit_mhz [expr {1e3 / ($period_ns - $slack(setup))}]
foreach kind {setup hold} {
    if {$slack($kind) < 0} {
        set path [worst_path $kind]
        report_timing -of_objects $path -file reports/worst_path.txt
        error [format "tilewright error: timing is not met: %s slack %s ns at %.3f MHz, from %s to %s, %s\
            levels of logic; reports/worst_path.txt has the path. Remedy: --clock %.0f, or more\
            mac_pipeline" $kind $slack($kind) [expr {$clock_hz / 1e6}] \
            [get_property STARTPOINT_PIN $path] [get_property ENDPOINT_PIN $path] \
            [get_property LOGIC_LEVELS $path] [expr {floor($limit_mhz)}]]
    }
}

# The first file of this name below a folder; the folders, hidden ones among them, differ between
# versions of Vivado.
proc find_file {folder name} {
    foreach path [glob -nocomplain -directory $folder * .gen] {
        if {[file isdirectory $path]} {
            set path [find_file $path $name]
        }
        if {[file tail $path] eq $name} {
            return $path
        }
    }
    return ""
}

set hardware [find_file [pwd] system.hwh]
if {$hardware eq ""} {
    error "tilewright error: Vivado wrote no system.hwh below [pwd]"
}
file copy -force $hardware tilewright.hwh
write_bitstream -force tilewright.bit
