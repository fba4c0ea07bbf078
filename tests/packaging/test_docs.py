# SPDX-License-Identifier: Apache-2.0
"""The commands that README.md and the documents show exist, and their links lead somewhere."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from tilewright.cli import app
from tilewright.host.common import generated_files
from tilewright.host.machine.area import fits
from tilewright.host.machine.board import load_board, named_boards
from tilewright.host.machine.hwconfig import load_hwconfig

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
sys.path.insert(0, str(ROOT / "docs" / "site"))

import board_guides  # noqa: E402  (a file of the documents)
import errors_page  # noqa: E402  (see above)
import filled_pages  # noqa: E402  (see above)


def console_lines(text):
    """Commands of the ```console blocks: the lines after ``$ ``, continuations joined."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    joined = "".join(blocks).replace("\\\n", " ")
    return [line[2:].strip() for line in joined.splitlines() if line.startswith("$ ")]


def make_targets(makefile):
    """Targets with a help text."""
    return set(re.findall(r"^([a-z-]+):.*?## ", makefile, re.MULTILINE))


def complaint(line, targets, commands):
    """What is wrong with a ``make`` or ``tilewright`` command line; empty when nothing is."""
    words = shlex.split(line.split("#")[0])
    while words and (re.fullmatch(r"[A-Z_]+=.*", words[0]) or words[0] == "time"):
        words.pop(0)
    if not words:
        return ""
    tool, rest = Path(words[0]).name, words[1:]
    if tool == "make":
        wanted = [w for w in rest if not w.startswith("-") and "=" not in w]
        unknown = [w for w in wanted if w not in targets]
        return f"no make target {', '.join(unknown)}" if unknown else ""
    if tool == "tilewright":
        if not rest or rest[0].startswith("-"):
            return ""
        name = " ".join(rest[:2]) if " ".join(rest[:2]) in commands else rest[0]
        group = any(known.startswith(f"{name} ") for known in commands)
        if name not in commands or (group and not all(w.startswith("-") for w in rest[1:2])):
            return f"no command {' '.join(rest[:2])}"
        unknown = [
            w for w in (r.split("=")[0] for r in rest)
            if w.startswith("--") and w not in (*commands[name], "--help")
        ]  # fmt: skip
        return f"{name} has no option {', '.join(unknown)}" if unknown else ""
    return ""


def cli_commands():
    """Commands of the CLI, those of groups with the group's name, and their options."""
    found = dict(typer.main.get_command(app).commands)
    for name, command in list(found.items()):
        found |= {f"{name} {part}": of for part, of in getattr(command, "commands", {}).items()}
    return {
        name: {
            option
            for parameter in command.params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        for name, command in found.items()
    }


TARGETS = make_targets((ROOT / "Makefile").read_text(encoding="utf-8"))
COMMANDS = cli_commands()


def test_commands_in_the_readme_exist():
    lines = console_lines(README.read_text(encoding="utf-8"))
    assert any(line.startswith("make ") for line in lines), "README.md shows how to start"
    assert not {line: text for line in lines if (text := complaint(line, TARGETS, COMMANDS))}


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]


def test_commands_in_the_documents_exist():
    wrong = {}
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    for page, text in texts.items():
        if page.name == "CHANGELOG.md":  # names what is gone, too
            continue
        lines = [*console_lines(text), *re.findall(r"^tilewright .*", text, re.MULTILINE)]
        lines += [
            " ".join(code.split()) for code in re.findall(r"`((?:tilewright|make) [^`]*)`", text)
        ]
        lines = [line for line in lines if "|" not in line and "[" not in line]
        wrong |= {(page.name, line): told for line in lines
                  if (told := complaint(line, TARGETS, COMMANDS))}  # fmt: skip
    assert not wrong


def kept_files():
    """Files and folders that the repository keeps, without what a build has left in it."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:  # an unpacked source distribution
        return set(ROOT.rglob("*"))
    files = {ROOT / name for name in listed.stdout.splitlines()}
    return files | {folder for file in files for folder in file.parents}


KEPT = kept_files()


def prose(text):
    """A page without its blocks of code."""
    return re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text):
    """Anchors that GitHub gives the headings of a page."""
    found = set(re.findall(r"\bid=\"([^\"]+)\"", text))
    for heading in re.findall(r"^#{1,6} +(.*)$", prose(text), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        again = (f"{slug}-{count}" for count in range(1, 100))
        found.add(slug if slug not in found else next(name for name in again if name not in found))
    return found


def dead_links(page, text):
    """Links of a page, read in the repository, that lead to no file or to no heading."""
    links = re.findall(r"\]\(([^)\s]+)[^)]*\)", prose(text))
    links += re.findall(r"\b(?:src|srcset|href)=\"([^\"]+)\"", prose(text))
    dead = []
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        path = Path(os.path.normpath(page.parent / name)) if name else page
        if path != page and path not in KEPT:
            dead.append(link)
        elif anchor and path.suffix == ".md":
            there = text if path == page else path.read_text(encoding="utf-8")
            dead += [link] * (anchor not in anchors(there))
    return dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere_in_the_repository(page):
    assert not dead_links(page, page.read_text(encoding="utf-8"))


def test_documents_name_no_folder_of_a_machine() -> None:
    """A record that was made somewhere held the folders of that day."""
    kept = [p for p in (ROOT / "docs").rglob("*") if p.suffix in {".md", ".json", ".csv", ".yaml"}]
    texts = {p: p.read_text(encoding="utf-8") for p in (*kept, README, ROOT / "CHANGELOG.md")}
    folder = re.compile(r"(?<![\w.$])/(?:tmp|root|work)/[^\s\"']*")
    found = {page: folder.findall(text) for page, text in texts.items()}
    assert not {page: names for page, names in found.items() if names}


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("[a](glossary.md)", False),
        ("[a](tutorials)", False),
        ("[a](https://example.org/gone.md)", False),
        ("# A b\n[a](#a-b)", False),
        ("# `--json -`: what?\n[a](#--json---what)", False),
        ("```text\n[a](gone.md)\n```", False),
        ("[a](gone.md)", True),
        ("[a](tutorials/first-layer.ipynb)", True),
        ("# A b\n[a](#a-c)", True),
        ("[a](index.md#no-such-heading)", True),
        ('<img alt="a" src="pictures/gone.svg">', True),
    ],
)
def test_the_check_of_links_finds_dead_ones(text, dead):
    assert bool(dead_links(ROOT / "docs" / "page.md", text)) == dead


def test_the_figures_of_the_guide_are_those_of_the_boards():
    assert not generated_files.stale_files(board_guides.OUTPUTS), "run `make generate`"
    guide = board_guides.guide()
    assert "\ntiny-4x4 fits pynq-z2:" in guide
    assert f"| {' | '.join(board_guides.COLUMNS)} |" in guide


def test_the_guide_has_every_board_that_a_bitstream_can_be_built_for():
    guide = board_guides.guide()
    assert {*re.findall(r"^\| [^|]+ \| `([\w-]+)` \| xc", guide, re.M)} == set(named_boards())
    for board, large in re.findall(r"^\| [^|]+ \| `([\w-]+)` \| xc.* `([\w-]+)` \|$", guide, re.M):
        assert fits(load_hwconfig(large), load_board(board)).ok, (board, large)


@pytest.mark.parametrize("name", filled_pages.SECTIONS)
def test_pages_that_the_site_fills_say_what_a_reader_of_the_repository_can_do(name):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    head, mark, instead = text.partition(filled_pages.MARK)
    assert head.startswith("# ")
    assert mark
    assert "`make docs`" in instead


def test_messages_that_troubleshooting_names_are_those_of_the_sources():
    text = (ROOT / "docs" / "how-to" / "troubleshooting-boards.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    shown = [part for cell in cells for part in re.findall(r"`([^`]+)`", cell)]
    assert len(shown) > 30
    known = [f"{message.rule}; {message.remedy}" for message in errors_page.messages()]
    sources = [
        *(ROOT / "constraints" / "vivado").glob("*.tcl"),
        *(ROOT / "host" / "deploy").glob("*.py"),
        *(ROOT / "tuner" / "measure").glob("*.py"),
    ]
    texts = (path.read_text(encoding="utf-8") for path in sources)
    known += [re.sub(r"[{$][\w.:(){}]*", "...", text) for text in texts]
    patterns = {each: re.escape(each).replace(r"\.\.\.", ".{0,60}") for each in shown}
    assert not [each for each in shown if not any(re.search(patterns[each], one) for one in known)]


def test_code_and_pages_name_documents_that_exist():
    files = [*PAGES, ROOT / "Makefile"]
    for room in ("bench", "host", "sim", "src", "tests", "tuner"):
        files += [f for f in (ROOT / room).rglob("*") if f.suffix in {".py", ".sv", ".h", ".cpp"}]
    told = {
        name
        for file in files
        for name in re.findall(r"\bdocs/[a-z/-]+\.md\b", file.read_text(encoding="utf-8"))
    }
    assert not {name for name in told if not (ROOT / name).exists()}


def test_the_places_that_contributing_names_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    places = set(re.findall(r"`([a-z_]+/[\w./-]*)`", text)) - {"x/y.py"}
    places -= {"tests/unit/x", "dist/"}
    assert len(places) > 50
    assert not {place for place in places if not (ROOT / place).exists()}


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) < 120


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("make tune MODEL=resnet18 ARGS='--budget 8'", False),
        ("make -j2 test", False),
        ("make frobnicate", True),
        ("make test frobnicate", True),
        ("tilewright tune resnet18 --board pynq-z2", False),
        ("CXX=clang++ .venv/bin/tilewright doctor  # check", False),
        ("tilewright --help", False),
        ("tilewright frobnicate", True),
        ("tilewright tune resnet18 --frobnicate=3", True),
        ("tilewright verify mutate --count 5", False),
        ("tilewright verify mutate --frobnicate", True),
        ("tilewright verify frobnicate", True),
        ("tilewright compile net.onnx --no-equalisation", False),
        ("git clone somewhere", False),
    ],
)
def test_the_check_itself_finds_what_does_not_exist(line, wrong):
    assert bool(complaint(line, TARGETS, COMMANDS)) == wrong


def test_only_console_blocks_are_read():
    text = "```console\n$ make a \\\n    b\noutput\n```\n```sh\n$ make c\n```\n"
    assert console_lines(text) == ["make a      b"]
