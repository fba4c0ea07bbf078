# SPDX-License-Identifier: Apache-2.0
"""From a configuration to boards that tune, calibrate and classify, played through without one."""
