# SPDX-License-Identifier: Apache-2.0
"""Commands that start children run no Python file of the folder that they are run in."""

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import onnx
import pytest
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.bench.framework.study import in_processes
from tilewright.host.common.children import python_command, python_environment, spawn_context

NAMES = (
    *("pickle", "json", "numpy", "os", "runpy", "sitecustomize", "usercustomize", "tilewright"),
    *("multiprocessing", "threading", "typing", "onnx", "onnxruntime", "tvm", "ray", "scipy"),
    *("platformdirs", "sqlalchemy", "yaml", "encodings", "resource_tracker", "socket", "struct"),
    *("logging", "tempfile", "pyosys", "sqlite3", "typer", "click", "rich", "signal", "random"),
)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder of modules that note that they ran; each child is then broken as well."""
    folder = tmp_path / "download"
    folder.mkdir()
    for name in NAMES:
        text = f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + ' ')\n"
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def save_conv(path: Path) -> None:
    model = Model(fresh_rng())
    onnx.save(
        model.proto(model.add("Conv", model.input(1, 4, 8, 8), model.weights(8, 4, 1, 1))), path
    )


def run(folder: Path, *words: str, command: list[str] | None = None, **more: str) -> None:
    tilewright = [str(Path(sys.executable).with_name("tilewright"))]
    done = subprocess.run(
        [*(command or tilewright), *words],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")}
        | more,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not (folder.parent / "ran").exists(), (folder.parent / "ran").read_text()
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "where",
    [
        pytest.param((), id="processes"),
        pytest.param(("--ray", "local"), id="ray", marks=pytest.mark.slow),
    ],
)
def test_tune_runs_nothing_of_its_folder(hostile, where):
    run(hostile, "tune", "resnet18", "--hw", "tiny-4x4", "--layers", "C10", "--budget", "2",
        "--name", "s", *where)  # fmt: skip


def test_compile_and_run_run_nothing_of_their_folder(hostile):
    save_conv(hostile / "m.onnx")
    run(
        hostile,
        "compile",
        "m.onnx",
        "--random-calibration",
        "2",
        "--hw",
        "tiny-4x4",
        "--search",
        "0",
    )
    run(hostile, "run", "m.tw", "--random", "--device", "reference")


def test_a_module_of_pythons_leaves_the_folder(hostile):
    """`python -m` searches the folder for what the parent imports before any code of ours."""
    for name in ("runpy", "tilewright", "encodings", "os", "typing"):
        (hostile / f"{name}.py").unlink()
    for name in NAMES:
        if name in sys.stdlib_module_names:
            (hostile / f"{name}.py").unlink(missing_ok=True)
    run(hostile, "boards", command=[sys.executable, "-m", "tilewright.cli"])


@pytest.mark.parametrize("paths", [":/nonexistent", "."])
def test_an_empty_entry_of_the_search_path_is_no_folder(hostile, paths):
    """What Python itself imports before any code of ours is beyond reach."""
    for name in ("sitecustomize", "usercustomize", "tilewright", "encodings", "os", "typing"):
        (hostile / f"{name}.py").unlink()
    run(hostile, "configs", PYTHONPATH=paths)


SEARCHED = "{'', __import__('os').getcwd()} & {*__import__('sys').path}"


def test_no_kind_of_child_searches_its_folder(hostile, monkeypatch):
    monkeypatch.chdir(hostile)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    with ProcessPoolExecutor(1, mp_context=spawn_context()) as pool:
        assert pool.submit(pow, 2, 3).result() == 8
        assert not pool.submit(eval, SEARCHED).result()
    assert list(in_processes(abs, [-8], 2)) == [(0, 8)]
    monkeypatch.syspath_prepend(str(hostile))
    environment = python_environment()
    monkeypatch.undo()
    done = subprocess.run(
        python_command("-c", "import json, pickle, sys; print(sys.flags.safe_path)"),
        cwd=hostile, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "True\n"
    assert not (hostile.parent / "ran").exists()


def test_every_child_is_started_in_the_one_way():
    """A new `subprocess` of this Python goes through `host.common.children`."""
    root = Path(__file__).parents[2]
    found = [
        f"{path.relative_to(root)}: {word}"
        for folder in ("host", "sim", "tuner", "bench", "src")
        for path in (root / folder).rglob("*.py")
        if path.name != "children.py"
        for text in [path.read_text(encoding="utf-8")]
        for word in ("[sys.executable", 'get_context("spawn")', "ProcessPoolExecutor(workers)")
        if word in text
    ]
    assert not found
