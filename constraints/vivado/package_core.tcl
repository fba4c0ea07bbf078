# SPDX-License-Identifier: Apache-2.0
# The accelerator as IP-XACT in work/ip. The interfaces come from the attributes in tilewright.v.

create_project -force package work/package -part $settings(part)
add_files -norecurse [concat $settings(sources) tilewright.v]
set_property top tilewright [current_fileset]
update_compile_order -fileset sources_1

ipx::package_project -root_dir work/ip -vendor tilewright -library core -taxonomy /UserIP \
    -import_files -force
set core [ipx::current_core]
set_property name tilewright $core
set_property version 1.0 $core
set_property display_name "Tilewright $settings(config)" $core

# The packager infers in silence: what the block design needs must be there.
foreach {interface type mode} {
    s_axil  xilinx.com:interface:aximm_rtl:1.0      slave
    m_axi   xilinx.com:interface:aximm_rtl:1.0      master
    aclk    xilinx.com:signal:clock_rtl:1.0         slave
    aresetn xilinx.com:signal:reset_rtl:1.0         slave
    irq     xilinx.com:signal:interrupt_rtl:1.0     master
} {
    set found [ipx::get_bus_interfaces $interface -of_objects $core]
    if {$found eq ""} {
        error "tilewright error: interface $interface was not inferred; see the attributes in tilewright.v"
    }
    foreach {property wanted} [list abstraction_type_vlnv $type interface_mode $mode] {
        set given [get_property $property $found]
        if {$given ne $wanted} {
            error "tilewright error: $property of interface $interface is $given, must be $wanted"
        }
    }
}
set registers [ipx::get_memory_maps s_axil -of_objects $core]
if {[ipx::get_address_blocks reg0 -of_objects $registers] eq ""} {
    error "tilewright error: interface s_axil has no address block reg0"
}

ipx::create_xgui_files $core
ipx::update_checksums $core
ipx::check_integrity $core
ipx::save_core $core
close_project
