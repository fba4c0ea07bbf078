# SPDX-License-Identifier: Apache-2.0
# The processing system of a Zynq UltraScale+: AXI4, high-performance ports of up to 128 bits.

namespace eval processor {
    variable type xilinx.com:ip:zynq_ultra_ps_e
    variable rule xilinx.com:bd_rule:zynq_ultra_ps_e
    variable automation {}

    # Pins and interfaces that the block design connects.
    variable clock pl_clk0
    variable port_clocks {maxihpm0_fpd_aclk saxihp0_fpd_aclk}
    variable reset pl_resetn0
    variable registers M_AXI_HPM0_FPD
    variable memory S_AXI_HP0_FPD
    variable segments SAXIGP2
    variable dram HP0_DDR_LOW
    variable interrupt pl_ps_irq0

    # GP0 to GP2 are called HPM0_FPD, HPM1_FPD and HPM0_LPD on masters; GP2 is HP0_FPD on slaves.
    # Every other port is off: a preset of a board may have opened it. HPM0_FPD has the width that
    # the PYNQ image boots with; pynq sets the width of HP0 from the .hwh file.
    proc configuration {settings_name} {
        upvar 1 $settings_name settings
        return [list \
            CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $settings(clock_mhz) \
            CONFIG.PSU__FPGA_PL0_ENABLE 1 \
            CONFIG.PSU__USE__FABRIC__RST 1 \
            CONFIG.PSU__USE__M_AXI_GP0 1 \
            CONFIG.PSU__USE__M_AXI_GP1 0 \
            CONFIG.PSU__USE__M_AXI_GP2 0 \
            CONFIG.PSU__MAXIGP0__DATA_WIDTH 128 \
            CONFIG.PSU__USE__S_AXI_GP0 0 \
            CONFIG.PSU__USE__S_AXI_GP1 0 \
            CONFIG.PSU__USE__S_AXI_GP2 1 \
            CONFIG.PSU__USE__S_AXI_GP3 0 \
            CONFIG.PSU__USE__S_AXI_GP4 0 \
            CONFIG.PSU__USE__S_AXI_GP5 0 \
            CONFIG.PSU__USE__S_AXI_GP6 0 \
            CONFIG.PSU__USE__S_AXI_ACP 0 \
            CONFIG.PSU__USE__S_AXI_ACE 0 \
            CONFIG.PSU__SAXIGP2__DATA_WIDTH $settings(port_bits) \
            CONFIG.PSU__USE__IRQ0 1 \
            CONFIG.PSU__USE__IRQ1 0]
    }
}
