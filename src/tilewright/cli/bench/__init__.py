# SPDX-License-Identifier: Apache-2.0
"""`tilewright bench NAME`: every benchmark of `tilewright.bench`, by purpose.

`speed` times the toolkit itself, `search` compares tuners and allocators, `accelerator` and
`models` count cycles of the hardware. Each command prints as it goes and writes JSON on request.
"""
