# SPDX-License-Identifier: Apache-2.0
"""The `tilewright` command: one module per command, which imports what it needs when it runs.

The help lists commands in panels, the common ones first (`application.ORDER`).

An option has one name everywhere: ``--hw``, ``--board``, ``--memory``, ``--network``, ``--seed``,
``--quick``, ``--json`` (`cli.common.arguments`, `cli.common.json_output`). Several names in one
option are separated by commas. A name that does not exist is answered with the nearest.
``--json -`` leaves standard output to the document alone.

This file imports nothing heavy, so that Ctrl-C is answered from the first moment.
"""

from __future__ import annotations

__all__ = ["app", "main"]


def main() -> None:
    """Entry point of the `tilewright` command."""
    from tilewright.host.common.children import (
        leave_working_directory,
        use_safe_path,
    )

    leave_working_directory()
    use_safe_path()

    import os
    import signal
    import sys

    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:  # closed: a store, opened next, would take its place
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  (stays open)

    code: str | int | None = 0
    try:
        from tilewright.cli.common.ending import end_by_sigterm

        end_by_sigterm()
        from tilewright.cli.commands import app

        app()
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:
        from tilewright.cli.common.ending import last_words

        text, number = last_words()
        os.write(2, f"{text}\n".encode())
        os._exit(number)
    except OSError as error:  # output of what stands before the commands
        from tilewright.cli.common.application import print_system_error

        print_system_error(error)
        code = 2
    from tilewright.cli.common.application import flush_output

    code = flush_output(code)
    for number in (signal.SIGINT, signal.SIGTERM):  # all is done: the interpreter only cleans up
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def __getattr__(name: str) -> object:
    if name == "app":
        from tilewright.cli.commands import app

        return app
    raise AttributeError(name)
