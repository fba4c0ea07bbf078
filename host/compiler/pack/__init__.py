# SPDX-License-Identifier: Apache-2.0
"""The `.tw` file: what is in it, and the rules that everything read from one has to pass.

A file is untrusted: sizes are checked before anything is decompressed, values before they are used.
May import `divide`, `lower` and `read`.
"""
