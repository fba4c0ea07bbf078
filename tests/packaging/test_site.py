# SPDX-License-Identifier: Apache-2.0
"""The site of the documents builds strictly, is complete, and needs no network to be read."""

import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import typer

from tilewright.cli import app

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "site"))

import errors_page  # noqa: E402  (a file of the documents)
import filled_pages  # noqa: E402  (see above)
import root_pages  # noqa: E402  (see above)

LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=[\"']?([^\"'\s>]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def pages(site: Path) -> dict[str, str]:
    return {
        path.relative_to(site).as_posix(): path.read_text(encoding="utf-8")
        for path in site.rglob("*.html")
    }


def test_every_page_is_built(site):
    built = set(pages(site))
    wanted = {
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        for path in (ROOT / "docs").rglob("*.md")
    }
    assert wanted | {"CONTRIBUTING.html"} <= built


def test_the_site_has_sections_where_the_repository_says_how_to_get_them(site):
    for name in filled_pages.SECTIONS:
        text = (site / name).with_suffix(".html").read_text(encoding="utf-8")
        assert "build/site/" not in text, name


def test_no_page_loads_anything_from_elsewhere(site):
    told = {
        (name, target)
        for name, text in pages(site).items()
        for target in LOADED.findall(text)
        if re.match(r"(https?:)?//", target) and "canonical" not in target
    }
    assert not told
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"url\([\"']?https?:", styles)


def test_every_command_and_option_is_in_the_reference(site):
    text = pages(site)["reference/cli.html"]
    for name, command in typer.main.get_command(app).commands.items():
        assert f"<code>tilewright {name}</code>" in text
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or f"<code>{option}</code>" in text, option


def test_every_class_of_errors_and_its_messages_are_in_the_reference(site):
    text = pages(site)["reference/errors.html"]
    kinds = errors_page.error_kinds()
    assert {"TilewrightError", "ConfigError", "DeviceStatusError", "UsageError"} <= set(kinds)
    assert all(f"<code>{name}</code>" in text for name in kinds)
    assert len(errors_page.messages()) > 400
    assert "a trace needs a device with time" in text
    assert "leave out --device reference" in text


def test_links_out_of_the_documents_lead_to_the_pages_of_the_site():
    mended = root_pages.linked
    assert mended("[a](../../SECURITY.md)", "docs/how-to/tuning.md") == "[a](../SECURITY.md)"
    assert mended("[a](docs/how-to/tuning.md#b)", "CHANGELOG.md") == "[a](how-to/tuning.md#b)"
    assert mended("[a](../results/x.md)", "docs/how-to/tuning.md") == "[a](../results/x.md)"
    assert mended("[a](../../Makefile)", "docs/how-to/tuning.md") == "`Makefile`"
    assert mended("[a](../../gone.md)", "docs/how-to/tuning.md") == "[a](../../gone.md)"
    assert (
        mended("[a](https://x.org/y.md)", "docs/results/synthesis.md") == "[a](https://x.org/y.md)"
    )


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_the_search_works_in_pages_that_are_opened_as_files(site, tmp_path):
    words = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    done = subprocess.run(
        [
            "chromium", *words, "--virtual-time-budget=20000", "--dump-dom",
            f"file://{site}/index.html?q=watchdog",
        ],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert "matching documents" in done.stdout
    assert "reference/registers.html" in done.stdout.split("md-search-result__meta")[1]


def test_readers_are_led_on_in_the_order_of_the_navigation(site):
    """Next of each page is the page behind it in the menu; how-to pages stand as at home."""
    menu = re.findall(r'<a href="([^"]+)" class="md-nav__link', (site / "index.html").read_text())
    pages = [each for each in dict.fromkeys(menu) if each.endswith(".html")]
    howto = [each for each in pages if each.startswith("how-to/")]
    home = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"\((how-to/[\w-]+)\.md\)", home)
    assert howto == [f"{each}.html" for each in dict.fromkeys(listed)]
    for page, after in pairwise(pages):
        found = re.search(r'href="([^"]+)" class="md-footer__link md-footer__link--next"',
                          (site / page).read_text())  # fmt: skip
        assert found is not None, page
        assert ((site / page).parent / found[1]).resolve() == (site / after).resolve()


def test_copy_gives_commands_without_prompts(site):
    page = (site / "how-to" / "pictures.html").read_text()
    assert 'src="../assets/javascripts/copy.js"' in page
    assert '<span class="gp">$ </span>' in page, "what the script looks for"
