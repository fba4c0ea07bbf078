# SPDX-License-Identifier: Apache-2.0
"""Makes the helper modules of this folder importable from every test, as ``support.<module>``."""

import signal
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).resolve().parent))

# A shell ignores SIGINT in what it starts in the background, and that is inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Nothing is timed: a loaded machine may take long to draw or to check an example.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
