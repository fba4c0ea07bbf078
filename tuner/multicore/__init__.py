# SPDX-License-Identifier: Apache-2.0
"""Many networks on many cores: which core runs which job, in which order, with which bandwidth.

`job_table` says what each job takes on each core, `allocation` how cores that share a memory slow
each other down. docs/explanation/multicore-model.md derives it.
"""
