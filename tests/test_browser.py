"""The report in a real browser: silent, offline, legible in both modes, usable by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import proportio as pp
from browser import CHROMIUM, Browser
from proportio import report

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium")

CONTRAST = """
(() => {
  const light = (c) => {
    const v = c.match(/[\\d.]+/g).slice(0, 3).map((x) => x / 255)
      .map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2];
  };
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (c !== "rgba(0, 0, 0, 0)" && c !== "transparent") return c;
    }
    return "rgb(255, 255, 255)";
  };
  let least = 99, where = "";
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || ["SCRIPT", "STYLE"].includes(e.tagName) || e.closest("[hidden]")) continue;
    const style = getComputedStyle(e), ink = e.closest("svg") ? style.fill : style.color;
    const [a, b] = [light(ink), light(ground(e.parentElement && e.closest("svg") ? e.closest("svg").parentElement : e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least) { least = ratio; where = e.outerHTML.slice(0, 120); }
  }
  return [least, where];
})()
"""
BOXES = """
[...document.querySelectorAll("figure svg, table")].map((e) => {
  const r = (e.closest(".scroll") || e).getBoundingClientRect();
  return [r.left, r.right, r.width, r.height];
})
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    rng = np.random.default_rng(0)
    y = np.repeat(["blue", "green", "red", "</script>"], 100)
    X = rng.normal(size=(400, 2)) + 3 * np.repeat(np.arange(4), 100)[:, None]
    model = pp.RFFM(n_features=100, soft=True).fit(X, y)
    est = model.estimate(np.concatenate([X[150:], rng.normal(size=(40, 2)) - 8]))
    folder = tmp_path_factory.mktemp("pages")
    texts = {
        "one": report.page(est, truth=np.append(np.full(4, 0.22), 0.12), model=model),
        "many": report.page({f"sample {i}": model.estimate(X[rng.choice(400, 200)]) for i in range(12)}),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text)
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as b:
        yield b


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["one", "many"])
def test_the_page_is_silent_offline_and_legible(
    browser: Browser, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    browser.open(pages[name], width=width, dark=dark)
    assert browser.messages == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [pages[name].as_uri()]
    assert browser.ask("document.documentElement.scrollWidth") <= width
    boxes = browser.ask(BOXES)
    assert len(boxes) >= 4
    assert all(left >= 0 and right <= width and w > 150 and h > 60 for left, right, w, h in boxes)
    ratio, where = browser.ask(CONTRAST)
    assert ratio >= 4.5, where  # WCAG 2, level AA
    dark_paper = browser.ask("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark_paper == dark


@pytest.mark.parametrize("name", ["one", "many"])
def test_print_is_on_white_and_as_wide_as_the_paper(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name], width=700, dark=True, media="print")  # A4 between margins of a centimetre
    assert browser.ask("document.documentElement.scrollWidth") <= 700
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_table_is_sorted_by_keyboard(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["one"])
    shares = "[...document.querySelectorAll('tbody tr')].slice(0, 5).map((r) => +r.cells[2].dataset.value)"
    before = browser.ask(shares)
    for _ in range(20):
        browser.press("Tab")
        if browser.ask("document.activeElement.textContent") == "Share":
            break
    for expected in (sorted(before, reverse=True), sorted(before)):
        browser.press("Enter")
        assert browser.ask(shares) == expected
    assert browser.ask("document.activeElement.closest('th').getAttribute('aria-sort')") == "ascending"


def test_a_tooltip_repeats_what_the_row_says(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["one"])
    x, y = browser.ask(
        "(() => { const r = document.querySelector('tbody tr').getBoundingClientRect(); return [r.x + 90, r.y + 8]; })()"
    )
    browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert browser.ask("document.getElementById('tip').hidden") is False
    assert "reference" in browser.ask("document.getElementById('tip').textContent")
