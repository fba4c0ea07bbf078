// SPDX-License-Identifier: Apache-2.0
// Attaches the assertions about what units promise each other. That queues have room is asserted of
// every queue (fifo_checks). A halted unit may get beats of a burst that is longer than asked for.
bind tw_fetch unit_checks u_one_unit_takes_an_instruction (
    .clk_i,
    .rst_i,
    .two_i   (!$onehot0({finish_o, push_o})),
    .orphan_i(beat_valid_i && reserved_q == '0 && !halt_i)
);

bind tw_load unit_checks u_one_memory_is_written (
    .clk_i,
    .rst_i,
    .two_i   (!$onehot0(write_mem_o)),
    .orphan_i(place && !act_valid_q && !halt_i)
);

bind tw_read unit_checks u_beats_have_an_owner (
    .clk_i,
    .rst_i,
    .two_i   (&req_ready_o),
    .orphan_i(rvalid_i && !expected && !halt_i)
);

bind tw_gemm unit_checks u_gemm_retires_what_it_took (
    .clk_i,
    .rst_i,
    .two_i   (1'b0),
    .orphan_i(retire && !unused_taken_valid)
);

bind tw_vector unit_checks u_vector_retires_what_it_took (
    .clk_i,
    .rst_i,
    .two_i   (1'b0),
    .orphan_i(retire && !unused_taken_valid)
);

bind tw_store unit_checks u_answers_have_a_burst (
    .clk_i,
    .rst_i,
    .two_i   (1'b0),
    .orphan_i(answer_q && !tag_valid)
);

// An error stops LOAD in the cycle in which what it wrote with it is seen.
bind tw_core unit_checks u_banks_of_acc_have_one_owner (
    .clk_i,
    .rst_i   (unit_rst),
    .two_i   ((gemm_lock & vector_lock) != '0),
    .orphan_i(write_mem[tw_pkg::MemAcc] && !stop_q[0] && 1'((~load_lock | gemm_lock | vector_lock) >>
                                                           (write_at.tile >> u_load.bank_shift)))
);
