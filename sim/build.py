# SPDX-License-Identifier: Apache-2.0
"""Build the verilated accelerator as a shared library, cached by the content of its inputs.

Layout of the cache (`cache_dir`)::

    models/<key>/libtilewright.so, build.json    one elaborated configuration
    objects/<key>.o                              run-time and harness objects, shared by models
    locks/<key>.lock                             one builder per key
    work/<key>.<random>/                         builds in progress

A result is made in ``work`` and renamed into place, so that it is complete or absent.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

from tilewright.host.errors import BuildError
from tilewright.host.hwconfig import PARAMETERS, HwConfig
from tilewright.sim.toolchain import (
    find_compiler,
    find_verilator,
    has_library,
    verilator_include,
)

ROOT: Final = Path(__file__).resolve().parent.parent
MANIFEST: Final = ROOT / "rtl" / "tilewright.f"
HARNESS_DIR: Final = Path(__file__).resolve().parent / "harness"
LINT_WAIVERS: Final = Path(__file__).resolve().parent / "lint.vlt"
TOP: Final = "tilewright_top"
LIBRARY_NAME: Final = "libtilewright.so"

_ERROR_LINES: Final = 12
_STANDARD: Final = "-std=gnu++17"
_COMMON_FLAGS: Final = (
    _STANDARD,
    "-fPIC",
    "-fvisibility=hidden",
    # Several models live in one process: nothing of one library may bind to another.
    "-fno-semantic-interposition",
    "-faligned-new",
    "-DVERILATOR=1",
    "-DVM_COVERAGE=0",
    "-DVM_SC=0",
    "-DVM_TIMING=0",
    "-DVM_TRACE_VCD=0",
    "-DVM_TRACE_SAIF=0",
    "-DVM_VPI=0",
    # simulation.cpp turns these into exceptions; the defaults end the process.
    "-DVL_USER_STOP",
    "-DVL_USER_FATAL",
    "-DVL_USER_FINISH",
)
_HARNESS_WARNINGS: Final = ("-Wall", "-Wextra", "-Werror")
_FAST: Final = "-O2"
_SLOW: Final = "-O1"
"""Optimisation of code that runs once (constructors, resets)."""

_VERILATOR_FLAGS: Final = (
    "--cc",
    "--assert",
    "--no-timing",
    "-Wall",
    "-O3",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
)


def cache_dir() -> Path:
    """TILEWRIGHT_CACHE, else the user's cache folder of the platform."""
    own = os.environ.get("TILEWRIGHT_CACHE", "")
    return Path(own).expanduser() if own else Path(platformdirs.user_cache_dir("tilewright"))


def read_manifest(manifest: Path = MANIFEST) -> list[Path]:
    """The RTL files of a manifest, in order; paths are relative to its folder.

    Raises:
        BuildError: the manifest or a file of it is missing, or a line is not a file name.
    """
    try:
        lines = manifest.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BuildError(
            "the RTL manifest cannot be read", field=str(manifest), remedy=str(error.strerror)
        ) from error
    files = []
    for number, raw in enumerate(lines, start=1):
        line = re.split(r"//|#", raw)[0].strip()
        if not line:
            continue
        path = manifest.parent / line
        if line[0] in "+-" or not path.is_file():
            raise BuildError(
                "a manifest line must name an existing RTL file",
                field=f"{manifest}:{number}",
                value=line,
                remedy="give the file's path relative to the manifest",
            )
        files.append(path)
    return files


def build_model(
    hw: HwConfig,
    *,
    waves: bool = False,
    exact_mac: bool = False,
    manifest: Path = MANIFEST,
    jobs: int = 2,
) -> Path:
    """The shared library that simulates ``hw``, built when the cache does not hold it.

    Args:
        hw: configuration to elaborate.
        waves: support FST recording (slower even when none is made).
        exact_mac: elaborate the MAC style of ``hw``. By default the plain style is used: it gives
            the same results in the same cycles and simulates faster.
        manifest: RTL file list.
        jobs: compilers that may run at a time.

    Returns:
        Path of the library; it stays valid while the cache is not deleted.

    Raises:
        BuildError: Verilator or the compiler refuses; the text holds their first error lines.
        ToolError: a tool is missing.
    """
    recipe = _recipe(hw, waves=waves, exact_mac=exact_mac, manifest=manifest)
    target = cache_dir() / "models" / recipe.key
    if (library := _complete(target)) is not None:
        return library
    with _builder(recipe.key) as work:
        if (library := _complete(target)) is not None:
            return library
        started = time.perf_counter()
        result = work / "result"
        result.mkdir()
        _verilate(recipe, work / "verilated")
        _compile_model(recipe, work, result / LIBRARY_NAME, jobs)
        record = {
            "bytes": (result / LIBRARY_NAME).stat().st_size,
            "parameters": dict(recipe.parameters),
            "config_hash": hw.config_hash,
            "waves": waves,
            "verilator": find_verilator().version,
            "compiler": find_compiler().version,
            "seconds": round(time.perf_counter() - started, 3),
        }
        (result / "build.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        _install(result, target)
    return target / LIBRARY_NAME


def build_memory_model() -> Path:
    """The memory model alone as a shared library (see memory_capi.cpp), for tests.

    Raises:
        BuildError: the compiler refuses.
        ToolError: the compiler is missing.
    """
    names = ("memory_model.cpp", "memory_capi.cpp")
    flags = (_FAST, *_compiler_flags(), *_HARNESS_WARNINGS, "-shared")
    key = "memory-" + _digest([*flags, find_compiler().version, *_harness_texts()])
    target = cache_dir() / "models" / key
    if (library := _complete(target)) is not None:
        return library
    with _builder(key) as work:
        if (library := _complete(target)) is not None:
            return library
        result = work / "result"
        result.mkdir()
        output = result / LIBRARY_NAME
        sources = [str(HARNESS_DIR / name) for name in names]
        _run_compiler([*flags, *sources, "-o", str(output)])
        record = {"bytes": output.stat().st_size}
        (result / "build.json").write_text(json.dumps(record) + "\n", encoding="utf-8")
        _install(result, target)
    return target / LIBRARY_NAME


@dataclass(frozen=True, kw_only=True)
class _Recipe:
    """Everything that decides what a build gives."""

    key: str
    sources: Sequence[Path]
    parameters: Mapping[str, str]
    waves: bool
    compat: Sequence[str]
    """Include flags of the stand-ins for missing libraries."""
    libraries: Sequence[str]


def _recipe(hw: HwConfig, *, waves: bool, exact_mac: bool, manifest: Path) -> _Recipe:
    values = {p.rtl_name: str(getattr(hw, p.name)) for p in PARAMETERS}
    if not exact_mac:
        values["MacPacked"] = "0"
    values["ConfigHash"] = f"32'h{hw.config_hash:08x}"
    compat: list[str] = []
    libraries: list[str] = []
    if waves:
        for header, library, folder in (("lz4.h", "lz4", "lz4"), ("zlib.h", "z", "zlib")):
            if has_library(header, library):
                libraries.append(f"-l{library}")
            else:
                compat.append(f"-I{HARNESS_DIR / 'compat' / folder}")
    sources = read_manifest(manifest)
    included = sorted(p for ext in ("*.svh", "*.vh") for p in manifest.parent.rglob(ext))
    inputs = [
        *(f"{path.name}\0{_text(path)}" for path in (*sources, *included, LINT_WAIVERS)),
        *_harness_texts(),
        json.dumps(values, sort_keys=True),
        *(_VERILATOR_FLAGS, *_compiler_flags(waves=waves), _FAST, _SLOW, *_HARNESS_WARNINGS),
        *libraries,
        find_verilator().version,
        find_compiler().version,
    ]
    return _Recipe(
        key=_digest([json.dumps(item) for item in inputs]),
        sources=sources,
        parameters=values,
        waves=waves,
        compat=compat,
        libraries=libraries,
    )


def _verilate(recipe: _Recipe, folder: Path) -> None:
    verilator = find_verilator()
    command = [
        str(verilator.path),
        *_VERILATOR_FLAGS,
        *(["--trace-fst"] if recipe.waves else []),
        *(f"-G{name}={value}" for name, value in recipe.parameters.items()),
        "--top-module",
        TOP,
        "--prefix",
        f"V{TOP}",
        "--Mdir",
        str(folder),
        str(LINT_WAIVERS),
        *(str(path) for path in recipe.sources),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=verilator.full_environment(),
    )
    if done.returncode != 0:
        raise _tool_failure("Verilator refuses the RTL", done.stderr + done.stdout, r"^%")


def _compile_model(recipe: _Recipe, work: Path, output: Path, jobs: int) -> None:
    """Compile the generated code and the harness, link them with the shared objects."""
    verilated = work / "verilated"
    include = verilator_include(find_verilator())
    common = [
        *_compiler_flags(waves=recipe.waves),
        f"-isystem{verilated}",
        f"-isystem{include}",
        f"-isystem{include / 'vltstd'}",
    ]
    tasks: list[tuple[list[str], Path]] = []
    for index, (flag, files) in enumerate(_unity_groups(verilated, jobs)):
        unit = work / f"unit{index}.cpp"
        unit.write_text("".join(f'#include "{path}"\n' for path in files), encoding="utf-8")
        tasks.append(([flag, "-w", *common], unit))
    simulation = HARNESS_DIR / "simulation.cpp"
    tasks.append(([_FAST, *_HARNESS_WARNINGS, *common], simulation))

    shared = [(["-w"], include / f"{name}.cpp") for name in _runtime_units(verilated)]
    shared += [
        ([*_HARNESS_WARNINGS], HARNESS_DIR / name) for name in ("memory_model.cpp", "capi.cpp")
    ]
    runtime_flags = [_FAST, *common, *recipe.compat]

    def compile_own(task: tuple[list[str], Path]) -> Path:
        flags, source = task
        target = work / f"{source.stem}.o"
        _run_compiler([*flags, "-c", str(source), "-o", str(target)])
        return target

    def compile_shared(task: tuple[list[str], Path]) -> Path:
        flags, source = task
        return _shared_object(source, [*runtime_flags, *flags], recipe.waves)

    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        own = [pool.submit(compile_own, task) for task in tasks]
        common_objects = [pool.submit(compile_shared, task) for task in shared]
        objects = [future.result() for future in (*own, *common_objects)]
    _run_compiler(
        [
            "-shared",
            "-Wl,-Bsymbolic",
            "-Wl,--exclude-libs,ALL",
            "-Wl,--no-undefined",
            *map(str, objects),
            *recipe.libraries,
            "-pthread",
            "-o",
            str(output),
        ]
    )


def _unity_groups(verilated: Path, jobs: int) -> list[tuple[str, list[Path]]]:
    """(optimisation flag, files) of each compilation: hot files over ``jobs`` even groups."""
    files = sorted(verilated.glob("*.cpp"))
    slow = [path for path in files if "__Slow" in path.name or "__Syms" in path.name]
    hot = sorted(
        (path for path in files if path not in slow), key=lambda p: p.stat().st_size, reverse=True
    )
    groups: list[list[Path]] = [[] for _ in range(max(1, min(jobs, len(hot))))]
    for path in hot:
        min(groups, key=lambda group: sum(p.stat().st_size for p in group)).append(path)
    return [*((_FAST, group) for group in groups), *([(_SLOW, slow)] if slow else [])]


def _runtime_units(verilated: Path) -> list[str]:
    """Names of the run-time sources that Verilator lists for the model."""
    text = (verilated / f"V{TOP}_classes.mk").read_text(encoding="utf-8")
    units: list[str] = []
    for variable in ("VM_GLOBAL_FAST", "VM_GLOBAL_SLOW"):
        match = re.search(rf"^{variable} \+= \\\n((?:[ \t]+\S+ \\\n)*)", text, re.MULTILINE)
        if match is not None:
            units += [word for word in match[1].split() if word != "\\"]
    return units


def _shared_object(source: Path, flags: Sequence[str], waves: bool) -> Path:
    """An object file that every model of the same flags and tools links."""
    headers = _harness_texts() if source.parent == HARNESS_DIR else []
    # Model-specific include paths are no part of what these sources see.
    stable = [flag for flag in flags if not flag.startswith(("-I", "-isystem"))]
    compat = [Path(flag[2:]).name for flag in flags if flag.startswith("-I")]
    key = f"{source.stem}-" + _digest(
        [
            *stable,
            *compat,
            str(waves),
            _text(source),
            *headers,
            find_verilator().version,
            find_compiler().version,
        ]
    )
    target = cache_dir() / "objects" / f"{key}.o"
    if target.is_file():
        return target
    with _builder(key) as work:
        if not target.is_file():
            _run_compiler([*flags, "-c", str(source), "-o", str(work / "unit.o")])
            target.parent.mkdir(parents=True, exist_ok=True)
            (work / "unit.o").replace(target)
    return target


def _compiler_flags(*, waves: bool = False) -> list[str]:
    flags = [*_COMMON_FLAGS, f"-DVM_TRACE={int(waves)}", f"-DVM_TRACE_FST={int(waves)}"]
    if "clang" not in find_compiler().version:
        flags.append("-fno-gnu-unique")
    return flags


def _run_compiler(arguments: Sequence[str]) -> None:
    compiler = find_compiler()
    done = subprocess.run(
        [str(compiler.path), *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise _tool_failure("the C++ compiler fails", done.stderr, r"error|undefined|cannot")


def _tool_failure(rule: str, output: str, pattern: str) -> BuildError:
    lines = [line for line in output.splitlines() if line.strip() and "Exiting due to" not in line]
    marked = [line for line in lines if re.search(pattern, line)] or lines
    marked.sort(key=lambda line: "warning" in line.lower())  # errors first; the sort is stable
    shown = "\n".join(marked[:_ERROR_LINES]) or "no message"
    return BuildError(f"{rule}:\n{shown}")


def _complete(folder: Path) -> Path | None:
    """The library in a finished folder; None when it is missing or was truncated later."""
    library = folder / LIBRARY_NAME
    try:
        record = json.loads((folder / "build.json").read_text(encoding="utf-8"))
        whole = library.stat().st_size == record["bytes"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return library if whole else None


def _install(result: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():  # damaged: `_complete` refused it and this builder holds its lock
        shutil.rmtree(target)
    result.replace(target)


@contextlib.contextmanager
def _builder(key: str) -> Iterator[Path]:
    """Hold the key's lock and give an empty work folder, removed at the end.

    The kernel drops the lock when its holder dies; the next builder clears what that one left.
    """
    root = cache_dir()
    locks, works = root / "locks", root / "work"
    try:
        locks.mkdir(parents=True, exist_ok=True)
        works.mkdir(parents=True, exist_ok=True)
        lock = (locks / f"{key}.lock").open("w")
    except OSError as error:
        raise BuildError(
            f"the build cache must be writable ({error.strerror})",
            field=str(root),
            remedy="set TILEWRIGHT_CACHE to a folder of your own",
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in works.glob(f"{key}.*"):
            shutil.rmtree(leftover, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f"{key}.", dir=works))
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _harness_texts() -> list[str]:
    files = sorted(path for ext in ("*.h", "*.cpp") for path in HARNESS_DIR.rglob(ext))
    return [f"{path.relative_to(HARNESS_DIR)}\0{_text(path)}" for path in files]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BuildError(
            "a source file cannot be read", field=str(path), remedy=str(error.strerror)
        ) from error


def _digest(parts: Sequence[str]) -> str:
    """Hash of a list of texts; boundaries between them count."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode()
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()[:32]
