# SPDX-License-Identifier: Apache-2.0
"""From a network to one program: import, quantise, partition, fuse, place, lower, run."""
