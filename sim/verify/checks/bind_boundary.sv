// SPDX-License-Identifier: Apache-2.0
// Attaches the assertions about queues and about the boundary between runs.
bind tw_fifo fifo_checks u_fifo_checks (
    .clk_i,
    .rst_i,
    .push_i,
    .full_o
);

bind tw_control control_checks u_control_checks (
    .clk_i,
    .rst_i,
    .idle(state_q == Idle),
    .bus_idle_i,
    .unit_reset_o
);
