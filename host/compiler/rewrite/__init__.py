# SPDX-License-Identifier: Apache-2.0
"""Rewrites of a checked model, by subject, into operators that the compiler lowers.

A rewrite keeps what a model computes; `rewrites` says in which order those of float models run.
May import `host.compiler.read`, `host.network` and `host.common`.
"""
