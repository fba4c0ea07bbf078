// What stands around the accelerator on a ULX3S, in dependency order, after tilewright.f and the
// generated tilewright.v. Paths are relative to this folder.
tw_uart_rx.sv
tw_uart_tx.sv
tw_host_link.sv
tw_axil_access.sv
tw_block_memory.sv
tw_byte_shell.sv
tw_uart_shell.sv
ulx3s/ulx3s_top.sv
