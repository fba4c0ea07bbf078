# SPDX-License-Identifier: Apache-2.0
# From the sources beside this file to tilewright.bit, .hwh and .yaml.
#
#     vivado -mode batch -source build.tcl
#
# settings.tcl is generated and holds every value; the other files are the same for all boards.

cd [file dirname [file normalize [info script]]]
source settings.tcl
# A build that fails leaves no bitstream of an earlier one behind. What no build made stays.
set made {work reports .gen .srcs tilewright.bit tilewright.hwh tilewright.yaml}
set found [glob -nocomplain -- {*}$made]
if {$found ne "" && ![file exists work/.tilewright]} {
    error "tilewright error: not of an earlier build here: $found. Remedy: move it away"
}
file delete -force {*}$made
file mkdir work
close [open work/.tilewright w]
foreach step [list package_core block_design implement_$settings(flow) check_timing write_manifest] {
    puts "tilewright: $step"
    source $step.tcl
}
puts "tilewright: done, [file normalize tilewright.bit]"
