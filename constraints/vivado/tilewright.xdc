# SPDX-License-Identifier: Apache-2.0
# Constraints of the whole design, the same for every board.
#
# Clock: the processing system makes the only one, and its own constraints create it with the
# frequency that it was given. A create_clock here would override that. implement.tcl refuses a
# design without a timed path.
#
# I/O: no port of the accelerator leaves the device. DDR and FIXED_IO of a Zynq-7000 are fixed pins
# of the processing system, placed by its own constraints. So there are no delays and no pins.
#
# Interrupt: a level, held until the driver clears it. The interrupt controller samples it with a
# clock of its own, so its path has no requirement to meet.
set_false_path -quiet -to [get_pins -quiet -hierarchical \
    -filter {NAME =~ *PS7_i/IRQF2P* || NAME =~ *PS8_i/PLPSIRQ0*}]
