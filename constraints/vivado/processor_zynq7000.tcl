# SPDX-License-Identifier: Apache-2.0
# The processing system of a Zynq-7000: AXI3, 64-bit high-performance ports.

namespace eval processor {
    variable type xilinx.com:ip:processing_system7
    variable rule xilinx.com:bd_rule:processing_system7
    variable automation {make_external "FIXED_IO, DDR" Master "Disable" Slave "Disable"}

    # Pins and interfaces that the block design connects.
    variable clock FCLK_CLK0
    variable port_clocks {M_AXI_GP0_ACLK S_AXI_HP0_ACLK}
    variable reset FCLK_RESET0_N
    variable registers M_AXI_GP0
    variable memory S_AXI_HP0
    variable segments S_AXI_HP0
    variable dram HP0_DDR_LOWOCM
    variable interrupt IRQ_F2P

    # Every other port is off: a preset of a board may have opened it.
    proc configuration {settings_name} {
        upvar 1 $settings_name settings
        return [list \
            CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ $settings(clock_mhz) \
            CONFIG.PCW_FPGA_FCLK0_ENABLE 1 \
            CONFIG.PCW_EN_CLK0_PORT 1 \
            CONFIG.PCW_EN_RST0_PORT 1 \
            CONFIG.PCW_USE_M_AXI_GP0 1 \
            CONFIG.PCW_USE_M_AXI_GP1 0 \
            CONFIG.PCW_USE_S_AXI_GP0 0 \
            CONFIG.PCW_USE_S_AXI_GP1 0 \
            CONFIG.PCW_USE_S_AXI_ACP 0 \
            CONFIG.PCW_USE_S_AXI_HP0 1 \
            CONFIG.PCW_USE_S_AXI_HP1 0 \
            CONFIG.PCW_USE_S_AXI_HP2 0 \
            CONFIG.PCW_USE_S_AXI_HP3 0 \
            CONFIG.PCW_S_AXI_HP0_DATA_WIDTH $settings(port_bits) \
            CONFIG.PCW_USE_FABRIC_INTERRUPT 1 \
            CONFIG.PCW_IRQ_F2P_INTR 1]
    }
}
