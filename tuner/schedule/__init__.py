# SPDX-License-Identifier: Apache-2.0
"""The spaces of this accelerator, their rules and their closed-form priors.

Imports `search` and the host.
"""
