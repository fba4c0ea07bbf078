# SPDX-License-Identifier: Apache-2.0
"""Group mappers: algorithms that map a group of jobs onto cores within a budget, one per file.

`mapper` is the contract, `registry` the names. Any tuner of `tuner.search` is one, too.
"""
