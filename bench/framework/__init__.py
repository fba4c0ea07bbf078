# SPDX-License-Identifier: Apache-2.0
"""What all studies share: settings and command line, processes, records, statistics, tables.

A study is a class of three parts: its grid (`Study.cells`, from frozen settings), its measurement
(`Study.measure`, of one cell), and its page (`Study.summarise`, `Study.tables`, `Study.page`).
"""
