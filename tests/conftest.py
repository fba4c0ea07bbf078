# SPDX-License-Identifier: Apache-2.0
"""Makes the helper modules of this folder importable from every test, as ``support.<module>``."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

# A shell ignores SIGINT in what it starts in the background, and that is inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
