# SPDX-License-Identifier: Apache-2.0
"""A new trial store may be opened by many at once, and by the next after a kill."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from tilewright.tuner.store.store import Store

OPEN = (
    "import sys, time\nfrom pathlib import Path\nfrom tilewright.tuner.store.store import Store\n"
    "print('ready', flush=True)\nsys.stdin.read(1)\n"
    "with Store(Path(sys.argv[1])) as store:\n    store.studies()\n"
)
DIE = (
    "import os, signal, sys\nfrom pathlib import Path\nimport sqlalchemy as sa\n"
    "from tilewright.tuner.store.store import Store\n"
    "made = []\n"
    "def stop(conn, cursor, statement, *_):\n"
    "    made.append('CREATE TABLE' in statement)\n"
    "    if sum(made) == int(sys.argv[2]):\n"
    "        os.kill(os.getpid(), signal.SIGKILL)\n"
    "sa.event.listen(sa.engine.Engine, 'after_cursor_execute', stop)\n"
    "Store(Path(sys.argv[1]))\n"
)


@pytest.mark.parametrize("attempt", range(4))
def test_processes_that_open_a_new_store_together_all_get_it(tmp_path, attempt):
    path = tmp_path / "studies.sqlite"
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for opener in openers:
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        opener.stdin.write("x")
        opener.stdin.flush()
    ends = [(opener.communicate()[1], opener.returncode) for opener in openers]
    assert ends == [("", 0)] * len(openers)


@pytest.mark.parametrize("table", [1, 2, 4])
def test_a_kill_while_the_tables_are_made_leaves_a_store_that_opens(tmp_path, table):
    path = tmp_path / "studies.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", DIE, str(path), str(table)], check=False, env=dict(os.environ)
    )
    assert done.returncode == -signal.SIGKILL
    with Store(path) as store:
        assert store.studies() == []


def test_a_store_waits_for_another_process_that_writes_before_the_log_is_switched(tmp_path):
    """SQLite refuses the switch at once then, whatever its timeout."""
    path = tmp_path / "studies.sqlite"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.5, other.execute, ["ROLLBACK"])
    release.start()
    with Store(path) as store:
        assert store.studies() == []
    release.join()
    other.close()
