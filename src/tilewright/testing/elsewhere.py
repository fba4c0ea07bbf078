# SPDX-License-Identifier: Apache-2.0
"""Calls in another process: what depends on hashes or on leftovers of this one comes out there.

One process serves all suites of a run, so that heavy packages are imported once.
"""

from __future__ import annotations

import atexit
import functools
import json
import subprocess
from typing import Any

from tilewright.host.common.children import python_command, python_environment

_SERVER = """
import importlib, json, sys
for line in sys.stdin:
    module, function, arguments = json.loads(line)
    answer = getattr(importlib.import_module(module), function)(*arguments)
    print(json.dumps(answer), file=sys.__stdout__, flush=True)
"""


@functools.cache
def _server() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        python_command("-c", _SERVER),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=python_environment(PYTHONHASHSEED="99"),
    )
    atexit.register(process.kill)
    return process


def elsewhere(module: str, function: str, *arguments: Any) -> Any:
    """What a function returns in another process, as JSON; `RuntimeError` says why it ended."""
    process = _server()
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps([module, function, arguments]), file=process.stdin, flush=True)
    line = process.stdout.readline()
    if not line:
        _server.cache_clear()
        raise RuntimeError(f"{module}.{function}{arguments} failed in another process")
    return json.loads(line)
