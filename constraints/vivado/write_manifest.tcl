# SPDX-License-Identifier: Apache-2.0
# tilewright.yaml: what tilewright.bit is. Tilewright takes the clock from it.

# The number in the "Used" column of a row of report_utilization.
proc used {report pattern} {
    if {![regexp -line "^\\| *(?:$pattern)\\*? *\\| *(\[0-9.\]+) *\\|" $report -> number]} {
        error "tilewright error: report_utilization has no row $pattern"
    }
    return $number
}

source sha256.tcl

set report [report_utilization -return_string]
set file [open tilewright.yaml.part w]
puts $file "# What tilewright.bit is. Give this file to Tilewright as --board."
puts $file $settings(manifest)
puts $file [format "clock_mhz: %.6f" [expr {$clock_hz / 1e6}]]
puts $file "timing:"
puts $file "  setup_slack_ns: $slack(setup)"
puts $file "  hold_slack_ns: $slack(hold)"
puts $file [format "  limit_mhz: %.1f" $limit_mhz]
puts $file "utilisation:"
puts $file "  lut: [used $report {Slice LUTs|CLB LUTs}]"
puts $file "  ff: [used $report {Slice Registers|CLB Registers}]"
puts $file "  bram36: [used $report {Block RAM Tile}]"
puts $file "  dsp: [used $report {DSPs}]"
puts $file "strategy: $settings(strategy)"
puts $file "flow: $settings(flow)"
puts $file "preset: $preset"
puts $file "vivado: \"[version -short]\""
puts $file "files:"
foreach name {tilewright.bit tilewright.hwh} {
    puts $file "  $name: \"[sha256::digest $name]\""
}
close $file
file rename -force tilewright.yaml.part tilewright.yaml
