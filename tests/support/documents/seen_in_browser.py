# SPDX-License-Identifier: Apache-2.0
"""A page as a browser shows it: on a screen and on a phone, light and dark."""

from pathlib import Path

from support.documents.browser import Browser

VIEWS = tuple((width, dark) for width in (1400, 390) for dark in (False, True))

OVERFLOW = """
const page = document.documentElement;
return page.scrollWidth > page.clientWidth || document.body.scrollWidth > page.clientWidth
  ? [...document.querySelectorAll("body *")]
      .filter((e) => !e.closest(".scroll"))
      .filter((e) => e.getBoundingClientRect().right > page.clientWidth + 1)
      .map((e) => e.outerHTML.slice(0, 120)).slice(0, 5).concat("page")
  : [];
"""

NARROWEST = """
return [...document.querySelectorAll("td, th, dd")]
  .filter((e) => e.checkVisibility() && e.textContent.length > 12 && e.clientWidth < 60)
  .map((e) => e.textContent);
"""

OUTSIDE = """
const found = [];
for (const svg of document.querySelectorAll("svg.chart")) {
  if (!svg.checkVisibility()) continue;
  const box = svg.getBoundingClientRect();
  for (const text of svg.querySelectorAll("text")) {
    const own = text.getBoundingClientRect();
    if (own.left < box.left - 3 || own.right > box.right + 3 || own.bottom > box.bottom + 3)
      found.push(text.textContent);
  }
}
return found;
"""


def assert_shown_well(browser: Browser, page: Path) -> None:
    """Nothing overflows, no text leaves its chart, no column is a word wide, no error is told."""
    papers = set()
    for width, dark in VIEWS:
        browser.view(page, width=width, dark=dark)
        where = f"{width} px, {'dark' if dark else 'light'}"
        assert browser.run("return document.documentElement.clientWidth") == width, where
        assert browser.run(OVERFLOW) == [], where
        assert browser.run(OUTSIDE) == [], where
        assert browser.run(NARROWEST) == [], where
        assert browser.console() == [], where
        papers.add((dark, browser.run("return getComputedStyle(document.body).backgroundColor")))
    assert len(papers) == 2
