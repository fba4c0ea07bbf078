# SPDX-License-Identifier: Apache-2.0
"""Makes the helper modules of this folder importable from every test, as ``support.<module>``."""

import functools
import gc
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).resolve().parent))

from support import warm_python
from support.randomness import SEED, VARIABLE

# A shell ignores SIGINT in what it starts in the background, and that is inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Nothing is timed: a loaded machine may take long to draw or to check an example. What failed in
# an earlier run is no part of this one: the seed alone decides what is drawn, in continuous
# integration too, where hypothesis would draw the same examples in every run.
settings.register_profile(
    "untimed",
    deadline=None,
    database=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("untimed")


# Typer builds all commands anew for each call of one: a tenth of a second, some thousand times.
typer.testing._get_command = functools.cache(typer.main.get_command)

subprocess.Popen = warm_python.Popen  # half of what children take is to import


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give hypothesis the seed of the run, unless the command line names another."""
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(SEED)


def pytest_collection_finish() -> None:
    """Collect seldom, and never what was loaded by now: a twentieth of the time of a run."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    if "torch" in sys.modules:  # whose exporter reads its operators anew for every model
        from torch.onnx._internal._lazy_import import onnxscript_apis as apis  # noqa: PLC0415  (heavy, and may be absent)

        apis.get_torchlib_ops = functools.cache(
            lambda: apis.__getattr__("get_torchlib_ops")()  # noqa: PLW0108  (loads onnxscript)
        )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int | pytest.ExitCode
) -> None:
    """Say how a run that failed is repeated."""
    if exitstatus:
        terminalreporter.write_line(f"{VARIABLE}={SEED} repeats every random test of this run")


@pytest.fixture(autouse=True)
def parts_of_a_test_end_with_it(tmp_path_factory):
    """A user's folder on the path of imports, and its modules, are not those of the next test."""
    yield
    own = str(tmp_path_factory.getbasetemp())
    if any(entry.startswith(own) for entry in sys.path):
        sys.path[:] = [entry for entry in sys.path if not entry.startswith(own)]
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(own):
                del sys.modules[name]
