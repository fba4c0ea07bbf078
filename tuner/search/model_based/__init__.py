# SPDX-License-Identifier: Apache-2.0
"""Searches that plan on a fitted cost model: AutoTVM, MetaSchedule."""
