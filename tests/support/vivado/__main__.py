# SPDX-License-Identifier: Apache-2.0
"""``vivado -mode batch -source SCRIPT`` for those who have no Vivado: checks, and builds nothing.

The bitstream that it writes is no bitstream, the figures in its manifest are made up.
"""

from __future__ import annotations

import sys
from pathlib import Path

from support.vivado.stub import Vivado
from support.vivado.tcl import ScriptError

script = sys.argv[sys.argv.index("-source") + 1]
vivado = Vivado(Path.cwd())
try:
    vivado.run(script)
except ScriptError as error:
    sys.exit(f"ERROR: {error}")
finally:
    print("\n".join(vivado.said))  # noqa: T201  (output)
