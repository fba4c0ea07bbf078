# SPDX-License-Identifier: Apache-2.0
"""`python -m tilewright.cli`."""

from tilewright.cli import main

main()
