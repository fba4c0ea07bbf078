# SPDX-License-Identifier: Apache-2.0
"""The `.tw` file: what is in it, and the rules that everything read from one has to pass.

Imports `lower`, `read` and `divide`.
"""
