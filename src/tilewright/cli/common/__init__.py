# SPDX-License-Identifier: Apache-2.0
"""What all commands share: the application, arguments, options from settings, and output."""
