# SPDX-License-Identifier: Apache-2.0
# Reports of the routed design, which is open, and the check of timing. Then the bitstream.

file mkdir reports
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
if {$settings(flow) eq "project"} {
    file copy -force [get_property DIRECTORY [get_runs impl_1]]/system_wrapper.bit tilewright.bit
} else {
    write_bitstream -force tilewright.bit
}
