# SPDX-License-Identifier: Apache-2.0
"""Search over accelerator configurations and layer schedules."""
