# SPDX-License-Identifier: Apache-2.0
"""Tuners that choose points on a fitted cost model: AutoTVM, MetaSchedule."""
