# SPDX-License-Identifier: Apache-2.0
"""Mappers: algorithms that search a nest's mappings within a budget of samples, one per file.

`mapper` is the contract, `registry` the names. Any tuner of `tuner.search` is one, too.
"""
