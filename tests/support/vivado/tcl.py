# SPDX-License-Identifier: Apache-2.0
"""A Tcl interpreter whose unknown commands Python answers.

Python's own (`tkinter.Tcl`) where it has one, or else a ``tclsh`` of the system. Without either,
the tests that need it are skipped with the reason, but fail in continuous integration: nothing else
looks at the scripts.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pytest

Answer = Callable[[str, list[str]], str]
"""Takes the name and the words of a command; returns its result or raises `ScriptError`."""

REMEDY: Final = (
    "a Tcl interpreter is needed: a Python with tkinter (Debian: apt install python3-tk) or tclsh "
    "(Debian: apt install tcl) on PATH"
)

# `ask` is the way to Python: it returns a list of a status and a value.
_PRELUDE: Final = """
proc answer {args} {
    lassign [ask {*}$args] status value
    if {$status} { return -code error $value }
    return $value
}
foreach name $names {
    if {[set space [namespace qualifiers $name]] ne ""} { namespace eval $space {} }
    proc ::$name {args} [format {return [answer %s {*}$args]} [list $name]]
}
rename puts channel_puts
proc puts {args} {
    if {[llength $args] == 1} { answer puts {*}$args } else { channel_puts {*}$args }
}
"""


class ScriptError(Exception):
    """A script stopped with an error; the text is Tcl's."""


def run_script(script: str, folder: Path, names: Iterable[str], answer: Answer) -> str:
    """The result of a Tcl script in a folder, in which Python answers commands of these names."""
    try:
        import tkinter  # noqa: PLC0415  (not every Python has it)
    except ImportError:
        tclsh = shutil.which("tclsh")
        if tclsh is None:
            if os.environ.get("CI"):
                raise AssertionError(REMEDY) from None
            pytest.skip(REMEDY)
        return run_in_tclsh(tclsh, script, folder, names, answer)
    return _run_in_python(tkinter.Tcl(), script, folder, names, answer)


def _ask(answer: Answer, words: list[str]) -> tuple[str, str]:
    try:
        return ("0", answer(words[0], words[1:]))
    except ScriptError as error:
        return ("1", str(error))


def _run_in_python(
    interpreter: object, script: str, folder: Path, names: Iterable[str], answer: Answer
) -> str:
    tcl = interpreter
    tcl.createcommand("ask", lambda *words: _ask(answer, [str(word) for word in words]))  # type: ignore[attr-defined]  # tkinter's stub lacks it
    tcl.setvar("names", tuple(names))  # type: ignore[attr-defined]  # tkinter's stub lacks it
    before = Path.cwd()
    os.chdir(folder)
    try:
        tcl.eval(_PRELUDE)  # type: ignore[attr-defined]  # tkinter's stub lacks it
        return str(tcl.eval(script))  # type: ignore[attr-defined]  # tkinter's stub lacks it
    except Exception as error:
        if type(error).__name__ != "TclError":
            raise
        raise ScriptError(str(error)) from error
    finally:
        os.chdir(before)


# Words go over the pipes in hexadecimal: nothing in them can be taken for the end of one.
_REMOTE: Final = """
proc encoded {text} { binary encode hex [encoding convertto utf-8 $text] }
proc decoded {text} { encoding convertfrom utf-8 [binary decode hex $text] }
proc ask {args} {
    set words [lmap word $args { string cat x [encoded $word] }]
    set write [expr {[llength [info commands channel_puts]] ? "channel_puts" : "puts"}]
    $write stdout $words
    flush stdout
    lassign [gets stdin] status value
    return [list $status [decoded [string range $value 1 end]]]
}
set names [decoded [gets stdin]]
set script [decoded [gets stdin]]
"""
_REMOTE_END: Final = """
set failed [catch { uplevel #0 $script } result]
ask [expr {$failed ? "failed" : "ended"}] $result
"""


def run_in_tclsh(
    tclsh: str, script: str, folder: Path, names: Iterable[str], answer: Answer
) -> str:
    """The same in a process of its own (see `run_script`)."""
    ended: list[tuple[bool, str]] = []
    with tempfile.TemporaryDirectory() as apart:  # scripts clear their own folder
        program = Path(apart, "stub.tcl")
        program.write_text(_REMOTE + _PRELUDE + _REMOTE_END, encoding="utf-8")
        with subprocess.Popen(
            [tclsh, str(program)],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="ascii",
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None

            def say(line: str) -> None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(line + "\n")
                    process.stdin.flush()

            say(" ".join(names).encode().hex())
            say(script.encode().hex())
            for line in process.stdout:
                words = [bytes.fromhex(word[1:]).decode() for word in line.split()]
                if words[0] in {"ended", "failed"}:
                    ended.append((words[0] == "failed", words[1]))
                    say("0 x")
                    break
                status, value = _ask(answer, words)
                say(f"{status} x{value.encode().hex()}")
    if not ended:
        raise ScriptError("tclsh ended early")
    failed, text = ended[0]
    if failed:
        raise ScriptError(text)
    return text
