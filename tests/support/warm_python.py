# SPDX-License-Identifier: Apache-2.0
"""Python children that begin with the heavy packages loaded: forks of one process that has them.

To import TVM takes three seconds, and many tests start a `tilewright` command or one of its
children. `Popen` stands in for that of `subprocess`. Only `CHILDREN` begin so, and a command whose
environment says `WARM`: they are processes as any other, with environment, folder, streams, limits
and end of their own. All others start as ever, and so do theirs.
"""

import atexit
import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

COMMAND = "tilewright.cli"
CHILDREN = (
    "support.search.study_process",
    "tilewright.host.compiler.quantise.prepare_process",
    "tilewright.host.compiler.run.host_child",
)
WARM = {"TILEWRIGHT_WARM": "1"}
SELDOM = ("botorch", "cmaes", "nevergrad", "optuna", "ray", "scipy", "sklearn", "torch", "xgboost")
"""What is heavy and few commands need."""
ROOM = 1 << 20
"""Bytes of a request: the words and the environment of a child."""


class Popen(subprocess.Popen):
    """A child process; warm where it runs one of `CHILDREN`, or a `COMMAND` that may."""

    address = ""
    """Socket of the process that forks; empty: none runs yet."""
    _status: socket.socket | None = None

    def _execute_child(
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo,
        creationflags, shell, *rest,
    ) -> None:  # fmt: skip
        plain = not (preexec_fn or shell or pass_fds) and executable in (None, sys.executable)
        variables = os.environ if env is None else env
        words = _module_words(args, variables) if plain else None
        if words is None:
            super()._execute_child(
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo,
                creationflags, shell, *rest,
            )  # fmt: skip
            return
        streams, sessions = rest[:6], rest[-2:]
        request = {
            "words": words,
            "cwd": os.fspath(cwd or Path.cwd()),
            "env": dict(variables),
            "session": bool(sessions[0]),
        }
        own = [number if fd < 0 else fd for number, fd in enumerate(streams[i] for i in (0, 3, 5))]
        Popen.address = Popen.address or _start()
        self._status = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._status.connect(Popen.address)
            socket.send_fds(self._status, [json.dumps(request).encode()], own)
            self.pid = int(self._status.recv(64))
            self._child_created = True
        finally:
            self._close_pipe_fds(*streams)

    def _internal_poll(self, *args: Any, **options: Any) -> int | None:
        if self._status is None:
            return super()._internal_poll(*args, **options)
        return self._ended(0)

    def _wait(self, timeout: float | None) -> int:
        if self._status is None:
            return super()._wait(timeout)
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            with self._waitpid_lock:  # another thread may wait, too
                if self.returncode is None:
                    self.returncode = int(self._status.recv(64) or -signal.SIGKILL)
        return self.returncode


Popen.__module__, Popen.__qualname__ = "subprocess", "Popen"  # as which it is pickled


def _module_words(args: Any, variables: Mapping[str, str]) -> list[str] | None:
    """Module and arguments of a command that can begin warm; ``-P`` comes first where it has it."""
    if isinstance(args, str | bytes | os.PathLike):
        return None
    words = [os.fspath(word) for word in args]
    safe = words[1:2] == ["-P"]
    rest = words[1 + safe :]
    if words[:1] != [sys.executable] or rest[:1] != ["-m"]:
        return None
    if rest[1] not in CHILDREN and not (rest[1] == COMMAND and variables.items() >= WARM.items()):
        return None
    return [*(["-P"] if safe else []), *rest[1:]]


def _start() -> str:
    """Start the process that forks; it ends when this one has."""
    folder = tempfile.mkdtemp(prefix="tilewright-warm-")
    address = os.path.join(folder, "socket")  # noqa: PTH118  (an address)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen(64)
    code = f"from support.warm_python import serve; serve({listener.fileno()}, {address!r})"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OPENBLAS_NUM_THREADS": "1",  # its threads would not survive a fork
    }
    process = Popen.__base__(
        [sys.executable, "-P", "-c", code], stdin=subprocess.PIPE, env=environment,
        pass_fds=[listener.fileno()],
    )  # fmt: skip
    listener.close()

    def end() -> None:
        process.kill()
        process.wait()
        Path(address).unlink()
        Path(folder).rmdir()

    atexit.register(end)
    return address


# -- in the process that forks ----------------------------------------------------------------


def serve(listener_number: int, address: str) -> None:
    """Fork a child for each request until the process that asks is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    warnings.simplefilter("ignore", DeprecationWarning)
    mine = {os.path.realpath(entry) for entry in os.environ["PYTHONPATH"].split(os.pathsep)}
    packages = [entry for entry in sys.path if os.path.realpath(entry) not in mine]
    packages += [e for e in sys.path if e not in packages and ("python3" in e or "/src" in e)]
    _load()
    listener = socket.socket(fileno=listener_number)
    while True:
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork():
            connection.close()
            continue
        listener.close()
        data, streams, _, _ = socket.recv_fds(connection, ROOM, 3)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        child = os.fork()
        if child:
            _keep(connection, child, streams)
        connection.close()
        Popen.address = address
        subprocess.Popen = Popen
        _warn_as_python_does()
        _become(json.loads(data), streams, packages)
        return


def _warn_as_python_does() -> None:
    """The filters that an interpreter starts with."""
    warnings.resetwarnings()
    for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", kind)
    warnings.filterwarnings("default", category=DeprecationWarning, module="__main__")


def _load() -> None:
    """Load the package, and what it needs for networks, except what only PyTorch's files need."""
    import onnxruntime  # noqa: F401, PLC0415  (heavy)

    import tilewright  # noqa: PLC0415  (see above)
    from tilewright.host.common import library_loading as heavy  # noqa: PLC0415  (see above)

    heavy.load_onnx_ir()
    heavy.load_tvm()
    sys.modules.update(dict.fromkeys(SELDOM))
    for folder in ("host", "sim", "tuner", "interface", "cli"):
        place = next(Path(path) / folder for path in tilewright.__path__)
        for file in sorted(place.rglob("*.py")):
            words = [folder, *file.relative_to(place).with_suffix("").parts]
            if not words[-1].startswith("__"):
                with contextlib.suppress(ImportError):  # of a board, or of another package
                    import_module(".".join(["tilewright", *words]))
    for name in SELDOM:
        del sys.modules[name]
    gc.freeze()  # a child would copy every page that its collector looks at


def _keep(connection: socket.socket, child: int, streams: Sequence[int]) -> None:
    """Tell the one who asked of the child, and of its end."""
    for stream in (0, *streams):
        os.close(stream)
    with contextlib.suppress(OSError):  # nobody waits for it
        connection.send(str(child).encode())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.send(str(code).encode())
    os._exit(0)


def _become(request: dict[str, Any], streams: Sequence[int], packages: list[str]) -> None:
    """Run the module of a request as the main program; the interpreter ends as ever."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["session"]:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 4096)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        errors = "backslashreplace" if name == "stderr" else "strict"
        stream = open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115  (stays)
        if mode == "w":
            unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
            stream.reconfigure(line_buffering=name == "stderr", write_through=unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    words = request["words"]
    safe = words[0] == "-P" or bool(os.environ.get("PYTHONSAFEPATH"))
    module, *rest = words[words[0] == "-P" :]
    stated = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [*([] if safe else [str(Path.cwd())]), *stated, *packages]
    sys.argv = [module, *rest]
    for name in ("support.warm_python", module):
        sys.modules.pop(name, None)
    ended = None
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        if not isinstance(ended := ending.code, int | None):
            raise
    threading._shutdown()
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):  # the interpreter tells of broken streams
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit((ended or 0) & 0xFF)  # to free what was loaded takes half a second
    sys.exit(ended)
