# SPDX-License-Identifier: Apache-2.0
# From the sources beside this file to tilewright.bit, .hwh and .yaml. Vivado's non-project mode.
#
#     vivado -mode batch -source build.tcl
#
# settings.tcl is generated and holds every value; the other files are the same for all boards.

cd [file dirname [file normalize [info script]]]
source settings.tcl
# A build that fails leaves no bitstream of an earlier one behind.
file delete -force work reports .gen .srcs tilewright.bit tilewright.hwh tilewright.yaml
foreach step {package_core block_design implement write_manifest} {
    puts "tilewright: $step"
    source $step.tcl
}
puts "tilewright: done, [file normalize tilewright.bit]"
