# SPDX-License-Identifier: Apache-2.0
"""A study of a few cells: rows, what is kept when it stops, and how it goes on."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

import psutil
import pytest

from tilewright.bench.framework.records import JsonLines, lines_beside
from tilewright.bench.framework.settings import option, quick_option, settings_of
from tilewright.bench.framework.study import Study, in_processes, run_study
from tilewright.host.common.errors import ConfigError, EnvironmentFaultError, StoreError
from tilewright.host.common.whole_file import MARK, ForeignFileError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Squares of numbers."""

    quick: bool = quick_option()
    numbers: tuple[int, ...] = option((1, 2, 3), "Numbers.", metavar="N,...", quick=(1,))
    names: tuple[str, ...] = option((), "Names.", known="tilewright.bench.arena.replay:ARMS")
    stop: int = option(0, "Ctrl-C comes with this number.")
    file: str | None = option(None, "File to take the numbers from.")
    order: str = option("up", "Order of the numbers.", quick="down", not_with="file")
    part: str = option("all", "Part of the file.", only_with="file")
    limit: float = option(float("inf"), "Largest number.")


class Squares(Study):
    """A row for each number."""

    resumes = True

    def cells(self):
        return [{"number": number} for number in self.settings.numbers]

    def measure(self, cell):
        if cell["number"] == self.settings.stop:
            raise KeyboardInterrupt
        return [{"square": cell["number"] ** 2}]

    def conditions(self):
        return {"power": 2}

    def summarise(self, rows):
        return {"sum": sum(row["square"] for row in rows)}


class Told(Squares):
    """Whose rows have a line of their own."""

    def line(self, row):
        return f"{row['number']:,}: {row['square']:,}"


class Cubes(Squares):
    """Under other conditions."""

    def conditions(self):
        return {"power": 3}


def test_an_interruption_writes_what_there_is_and_the_next_run_goes_on(tmp_path):
    written = []
    path = tmp_path / "s.json"
    with pytest.raises(KeyboardInterrupt):
        run_study(Squares(Settings(stop=3)), path=path, write=written.append)
    assert [row["number"] for row in written[0].rows] == [1, 2]
    assert not lines_beside(path).exists()
    document = json.loads(json.dumps(written[0].document))
    again = run_study(Squares(Settings(stop=1)), path=path, known=document, write=written.append)
    assert [row["number"] for row in again.rows] == [1, 2, 3]


def test_what_a_kill_leaves_goes_on_and_a_torn_line_is_lost_alone(tmp_path):
    path = tmp_path / "s.json"
    lines = lines_beside(path)
    JsonLines(lines).add({"generator": MARK, "conditions": {"power": 2}})
    head = lines.read_text()
    with lines.open("a") as file:
        file.write('[{"number":1,"square":1}]\n[{"number":2,"squ')
    study = Squares(Settings(stop=1))
    assert [row["number"] for row in run_study(study, path=path).rows] == [1, 2, 3]
    assert lines.is_file()
    run_study(study, path=path, write=lambda _: None)
    assert not lines.exists()
    lines.write_text(head)
    with pytest.raises(ConfigError, match="other conditions: power was 2"):
        run_study(Cubes(Settings()), path=path)
    with pytest.raises(ConfigError, match="other conditions"):
        run_study(Cubes(Settings()), known={"rows": [], "conditions": {"power": 2}})


@pytest.mark.parametrize(
    "rows",
    [
        [{"number": 1}], [{"number": 1, "square": None}], [{"number": 1, "square": "x"}],
        [5], "rows", [[]], {"number": 1},
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["document", "lines"])
def test_rows_that_no_run_wrote_are_told(tmp_path, rows, where):
    path, known = tmp_path / "s.json", None
    if where == "document":
        known = {"rows": rows, "conditions": {"power": 2}}
    else:
        JsonLines(lines_beside(path)).add({"generator": MARK, "conditions": {"power": 2}})
        JsonLines(lines_beside(path)).add(rows)
    with pytest.raises(ConfigError, match="rows that an earlier run of this study wrote"):
        run_study(Told(Settings()), path=path, known=known)


@pytest.mark.parametrize("conditions", [None, [], 5, "x", {"power": 3}])
def test_a_document_of_other_conditions_is_told(conditions):
    with pytest.raises(ConfigError, match=r"earlier run of this study|other conditions"):
        run_study(Squares(Settings()), known={"rows": [], "conditions": conditions})
    with pytest.raises(ConfigError, match="earlier run of this study"):
        run_study(Squares(Settings()), known={"rows": []})


def test_a_file_of_a_users_in_the_place_of_the_lines_stays(tmp_path, monkeypatch):
    lines = lines_beside(tmp_path / "s.json")
    lines.write_text("mine")
    for resumes in (True, False):
        monkeypatch.setattr(Squares, "resumes", resumes)
        with pytest.raises(ForeignFileError):
            run_study(Squares(Settings()), path=tmp_path / "s.json")
    assert lines.read_text() == "mine"


def test_nothing_is_left_of_a_study_that_had_nothing(tmp_path):
    written = []
    with pytest.raises(KeyboardInterrupt):
        run_study(Squares(Settings(stop=1)), path=tmp_path / "s.json", write=written.append)
    assert written == []
    assert list(tmp_path.iterdir()) == []


def test_a_killed_worker_is_told_and_is_no_failure_of_a_cell():
    failures: list[object] = []
    with pytest.raises(EnvironmentFaultError, match="was killed"):
        list(in_processes(os._exit, [1], 1, failed=lambda *told: failures.append(told)))
    assert failures == []


PARENT = """
import os, sys, time
from tilewright.bench.framework.study import limited
from tilewright.bench.framework.study import in_processes

def hang(_):
    print(os.getpid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    if sys.argv[1] == "pool":
        list(in_processes(hang, [1, 2], 2))
    limited(hang, 1, seconds=600, memory_bytes=1 << 34)
"""


@pytest.mark.parametrize(("how", "count"), [("pool", 2), ("limited", 1)])
def test_no_worker_outlives_a_study_that_is_killed(tmp_path, how, count):
    script = tmp_path / "parent.py"
    script.write_text(PARENT, encoding="utf-8")
    parent = subprocess.Popen([sys.executable, script, how], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [psutil.Process(int(parent.stdout.readline())) for _ in range(count)]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    _, alive = psutil.wait_procs(workers, timeout=10)
    for each in alive:
        each.kill()
    assert not alive


def test_failures_are_told_apart_and_the_time_ends_the_start_of_cells():
    failures = []
    found = in_processes(int, ["1", "x", "3"], 2, failed=lambda place, _: failures.append(place))
    assert sorted(found) == [(0, 1), (2, 3)]
    assert failures == [1]
    assert list(in_processes(int, ["1"], 1, seconds=0)) == []
    with pytest.raises(ValueError, match="invalid literal"):
        list(in_processes(int, ["x"], 2))


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="writable"):
        JsonLines(tmp_path / "file" / "runs.jsonl")


def test_settings_come_from_the_command_line():
    assert settings_of(Settings, {}).numbers == (1, 2, 3)
    assert settings_of(Settings, {"quick": True}).numbers == (1,)
    assert settings_of(Settings, {"quick": True, "numbers": "5, 6"}).numbers == (5, 6)
    assert settings_of(Settings, {"names": "masked,masked"}).names == ("masked",)
    assert settings_of(Settings, {"numbers": "5,6,5"}).numbers == (5, 6)
    assert settings_of(Settings, {"quick": True}).order == "down"
    assert settings_of(Settings, {"quick": True, "file": "f"}).order == "up"
    assert settings_of(Settings, {"file": "f", "part": "half"}).part == "half"
    for given, told in (
        ({"numbers": "1,x"}, "must be numbers of at least 0"),
        ({"numbers": "1.5"}, "must be numbers of at least 0"),
        ({"names": "masked,,"}, "leave no name empty"),
        ({"names": "mask"}, "did you mean masked"),
        ({"file": "f", "order": "down"}, "--order: does not go with --file"),
        ({"part": "half"}, "--part: needs --file"),
        ({"limit": float("nan")}, "--limit: must be a number"),
    ):
        with pytest.raises(ConfigError, match=told):
            settings_of(Settings, given)
