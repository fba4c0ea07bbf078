# SPDX-License-Identifier: Apache-2.0
# Block design "system": processing system, accelerator, a SmartConnect for registers and one for
# DRAM, reset. One clock, which the processing system makes. SmartConnect converts protocol and width:
# AXI3 of a Zynq-7000 or the 128-bit AXI4 of an UltraScale+ to AXI4-Lite, and the accelerator's AXI4
# to the high-performance port.

source processor_$settings(processor).tcl

# Vivado answers a name that nothing has with a warning and an empty list.
proc named {kind name} {
    set found [get_bd_$kind -quiet $name]
    if {$found eq ""} {
        error "tilewright error: the block design has no $kind $name"
    }
    return $found
}

# One net from a driver to every pin that reads it.
proc wire {driver args} {
    foreach reader $args {
        connect_bd_net [named pins $driver] [named pins $reader]
    }
}

proc link {master slave} {
    connect_bd_intf_net [named intf_pins $master] [named intf_pins $slave]
}

proc make_cell {type name args} {
    set cell [create_bd_cell -type ip -vlnv $type $name]
    if {[llength $args]} {
        set_property -dict $args $cell
    }
    return $cell
}

if {$settings(flow) eq "project"} {
    create_project -force system work/project -part $settings(part)
} else {
    create_project -in_memory -part $settings(part)
}
# A preset needs the board's files, which Vivado may not have. A bitstream that Linux loads does not
# need one: the boot image has set up DRAM and pins. What the ports need is set below either way.
set board [lindex [get_board_parts -quiet -latest_file_version $settings(board_part)] 0]
if {$board ne "" && [get_property PART_NAME $board] eq $settings(part)} {
    set_property board_part $board [current_project]
    set preset 1
} else {
    puts "tilewright: no board files $settings(board_part) for $settings(part): no preset"
    set preset 0
}
set_property ip_repo_paths [file normalize work/ip] [current_project]
update_ip_catalog
file mkdir work/design
create_bd_design -dir work/design system

make_cell $processor::type processor
apply_bd_automation -rule $processor::rule \
    -config [concat $processor::automation [list apply_board_preset $preset]] \
    [named cells processor]
if {!$preset} {
    set_property -dict $settings(processor_properties) [named cells processor]
}
set_property -dict [processor::configuration settings] [named cells processor]

make_cell tilewright:core:tilewright:1.0 accelerator
make_cell xilinx.com:ip:proc_sys_reset reset
foreach name {to_registers to_dram} {
    make_cell xilinx.com:ip:smartconnect $name CONFIG.NUM_SI 1 CONFIG.NUM_MI 1 CONFIG.NUM_CLKS 1
}

set readers {
    accelerator/aclk to_registers/aclk to_dram/aclk reset/slowest_sync_clk
}
foreach pin $processor::port_clocks {
    lappend readers processor/$pin
}
wire processor/$processor::clock {*}$readers
wire processor/$processor::reset reset/ext_reset_in
wire reset/peripheral_aresetn accelerator/aresetn to_registers/aresetn to_dram/aresetn
wire accelerator/irq processor/$processor::interrupt

link processor/$processor::registers to_registers/S00_AXI
link to_registers/M00_AXI accelerator/s_axil
link accelerator/m_axi to_dram/S00_AXI
link to_dram/M00_AXI processor/$processor::memory

# The driver finds the registers through the .hwh file; the accelerator reaches DRAM and nothing else.
assign_bd_address -offset $settings(registers_base) -range $settings(registers_bytes) \
    -target_address_space [named addr_spaces processor/Data] \
    [named addr_segs accelerator/s_axil/reg0]
set dram_segment processor/$processor::segments/$processor::dram
assign_bd_address -offset $settings(memory_base) -range $settings(memory_bytes) \
    -target_address_space [named addr_spaces accelerator/m_axi] \
    [named addr_segs $dram_segment]
foreach segment [get_bd_addr_segs -quiet processor/$processor::segments/*] {
    if {[string trimleft $segment /] ne $dram_segment} {
        exclude_bd_addr_seg -target_address_space [named addr_spaces accelerator/m_axi] $segment
    }
}

validate_bd_design
save_bd_design
# What the clock really is: PLLs divide by whole numbers.
set clock_hz [get_property CONFIG.FREQ_HZ [named pins processor/$processor::clock]]
