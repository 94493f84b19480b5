"""The report as a person meets it in a browser: charts that answer, and pictures where no script runs."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.results.report import build_report
from harness.results.sweeps.report import build_sweep_report
from tests.e2e.browser import PROGRAM, Browser
from tests.harness.results.comparisons import KL, REPEAT, comparison
from tests.harness.results.journals import ended, retried_run, successful_run
from tests.harness.results.synthetic import attempt

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs Chromium on PATH")
PLOT = "[data-chart={}] .plot"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("pages")
    for name, write in (("good", successful_run), ("retried", retried_run)):
        (root / name).mkdir()
        build_report(root / name, write(root / name))
    rows = [(step, {"loss": math.nan if step > 60 else 10.0 ** (step % 50)}) for step in range(1, 101)]
    attempt(root / "nan").exit().metrics(rows)
    build_report(root / "nan", ended())
    build_sweep_report(root / "sweep", comparison((KL, REPEAT), 3, root / "sweep"))
    named = {name: root / name / "report.html" for name in ("good", "retried", "nan")}
    return {**named, "sweep": root / "sweep" / "sweep_report.html"}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def legend(browser: Browser, chart: str) -> dict[str, str]:
    rows = f"[...document.querySelectorAll('{PLOT.format(chart)} .u-series')]"
    pairs = f"{rows}.map(row => ['.u-label', '.u-value'].map(part => row.querySelector(part).textContent))"
    return dict(browser.js(pairs))


def box(browser: Browser, selector: str) -> dict[str, float]:
    found = f"document.querySelector('{selector}')"
    place = f"{found}.scrollIntoView({{block: 'center'}}), {found}.getBoundingClientRect().toJSON()"
    return dict(browser.js(f"({place})"))


def axis_of(browser: Browser, chart: str) -> list[Any]:
    """Steps at the ends of the chart, by what the legend says with the mouse there."""
    over = box(browser, f"{PLOT.format(chart)} .u-over")
    ends = []
    for x in (over["left"] + 1, over["right"] - 2):
        browser.mouse(("Moved", x, over["top"] + 20))
        ends.append(float(legend(browser, chart)["step"]))
    return ends


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("name", ["good", "retried", "nan", "sweep"])
def test_every_chart_is_drawn_without_a_word_in_the_console_and_nothing_is_cut_off(
    browser: Browser, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    browser.open(pages[name], width, scheme)
    drawn = browser.js("document.querySelectorAll('.plot canvas').length")
    panels = browser.js(
        "JSON.parse(document.getElementById('chart-data').textContent).flatMap(c => c.panels).length"
    )
    assert drawn == panels > 0 and browser.problems == []
    assert browser.js("document.documentElement.scrollWidth") <= width
    assert browser.js("document.querySelectorAll('.chart img').length") == 0


def test_hovering_shows_the_values_of_that_step_in_every_chart(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages["good"])
    over = box(browser, f"{PLOT.format('reward')} .u-over")
    browser.mouse(("Moved", over["left"] + over["width"] / 2, over["top"] + 30))
    shown, other = legend(browser, "reward"), legend(browser, "kl")
    assert 50 < float(shown["step"]) < 70 and shown["step"] == other["step"]
    data = json.loads(browser.js("document.getElementById('chart-data').textContent"))
    (line,) = next(chart for chart in data if chart["name"] == "reward")["panels"][0]["lines"]
    row = line["y"][line["x"].index(float(shown["step"]))]
    assert float(shown["critic/rewards/mean"]) == pytest.approx(row, rel=1e-4)


def test_dragging_zooms_in_and_a_double_click_zooms_out(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["good"])
    over = box(browser, f"{PLOT.format('kl')} .u-over")
    y, start, end = over["top"] + 50, over["left"] + over["width"] * 0.25, over["left"] + over["width"] * 0.5
    browser.mouse(("Moved", start, y), ("Pressed", start, y), ("Moved", end, y), ("Released", end, y))
    low, high = axis_of(browser, "kl")
    assert 25 < low < 36 and 55 < high < 66
    browser.js(
        f"document.querySelector('{PLOT.format('kl')} .u-over').dispatchEvent(new MouseEvent('dblclick'))"
    )
    browser.settle()
    low, high = axis_of(browser, "kl")
    assert low < 3 and high > 117


def test_the_keyboard_reaches_every_value_and_tells_it(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["good"])
    browser.js(f"document.querySelector('{PLOT.format('reward')}').focus()")
    spoken = "document.querySelector('[data-chart=reward] [aria-live]').textContent"
    browser.press("Home", "ArrowRight", "ArrowRight")
    assert browser.js(spoken).startswith("step: 3, critic/rewards/mean: 0.")
    browser.press("End")
    assert browser.js(spoken).startswith("step: 120, ")
    browser.press("+", "+")
    assert axis_of(browser, "reward")[0] > 80
    browser.press("0")
    low, high = axis_of(browser, "reward")
    assert low < 3 and high > 117
    log = "document.querySelector('#figure-reward .tools button').getAttribute('aria-pressed')"
    browser.press("l")
    assert browser.js(log) == "true" and browser.problems == []
    key = "document.querySelector('[data-chart=validation] .u-legend th[role=button]')"
    browser.js(f"{key}.focus()")
    browser.press("Enter")
    assert browser.js(f"{key}.getAttribute('aria-pressed')") == "false"


def test_smoothing_and_overlays_change_the_picture_alone(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["good"])
    before = legend(browser, "reward")["critic/rewards/mean"]
    set_to = (
        "Object.assign(document.getElementById('smoothing'), {value: %s}).dispatchEvent(new Event('input'))"
    )
    browser.js(set_to % 0.9)
    assert legend(browser, "reward")["critic/rewards/mean"] != before
    browser.js(set_to % 0)
    assert legend(browser, "reward")["critic/rewards/mean"] == before
    select = "document.querySelector('#figure-reward select')"
    browser.js(f"Object.assign({select}, {{value: '0'}}).dispatchEvent(new Event('change'))")
    assert "KL to the start model (right axis)" in legend(browser, "reward") and browser.problems == []


def test_absurd_values_have_a_logarithmic_axis_and_nan_is_marked(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages["nan"])
    assert browser.js("document.querySelector('.tools button').getAttribute('aria-pressed')") == "true"
    red = (
        "(() => { const canvas = document.querySelector('.plot canvas'), ctx = canvas.getContext('2d');"
        " const column = x => ctx.getImageData(canvas.width * x, canvas.height * .3, 1, 1).data;"
        " return [.4, .85].map(x => column(x)[0] - column(x)[2]); })()"
    )
    clear, marked = browser.js(red)
    assert clear < 10 < marked


def test_without_scripts_the_pictures_beside_the_page_are_seen(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages["good"], scripts=False)
    sizes = browser.js("[...document.querySelectorAll('noscript img')].map(img => img.naturalWidth)")
    assert len(sizes) == 7 and min(sizes) > 0
    assert browser.js("document.querySelectorAll('canvas').length") == 0


def test_names_from_outside_stay_text_in_the_charts_too(browser: Browser, tmp_path: Path) -> None:
    name = "</script><img src=x onerror=document.title=1>\u2028loss"
    made = attempt(tmp_path).exit().metrics([(step, {name: 1.0 / step, "b": 1.0}) for step in (1, 2, 3)])
    made.pane(f"{name}\n")
    browser.open(build_report(tmp_path, ended()).html)
    assert browser.js("document.title") != "1" and browser.problems == []
    assert browser.js("document.querySelectorAll('img').length") == 0
    assert browser.js("document.querySelector('.u-series + .u-series .u-label').textContent.includes('<img')")
