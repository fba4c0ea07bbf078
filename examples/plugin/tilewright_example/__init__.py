# SPDX-License-Identifier: Apache-2.0
"""Parts of one's own for Tilewright."""
