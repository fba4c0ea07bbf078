# SPDX-License-Identifier: Apache-2.0
"""From a compiled network to a bundle that a board runs with Python 3.10, numpy and pynq alone.

`bundle`, `measure` and `board_run` run on the board; the bundle carries them and what they import
(`bundle_modules`).
"""
