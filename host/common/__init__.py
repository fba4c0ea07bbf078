# SPDX-License-Identifier: Apache-2.0
"""What every room uses: errors, names, tables, files that are written whole, YAML.

Nothing here knows the accelerator. It imports nothing of Tilewright.
"""
