"""The page on a run: whole, small, deaf to hostile names, and alive in a real browser."""

from __future__ import annotations

import html
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from browser import Browser
from recorded import report, without_profiles
from rich.console import Console

from paceline.formats.numbers import number, percent
from paceline.observe.report import Report
from paceline.observe.stragglers import Last
from paceline.report.page.content import report_page
from paceline.report.page.data import MAX_RANKS, MAX_STEPS, PARTS
from paceline.report.show import show
from paceline.report.verdict.of_report import verdict
from paceline.simulate.network import uniform
from paceline.topology import Link

SIZES = (4 << 20, 1 << 20, 2 << 20)
HOSTILE = '</script><script>document.title="owned"</script><img src=x onerror=alert(1)>&"\''
MOST = 400_000
"""Bytes of a page beside its data."""


def job(steps: int = 8) -> Report:
    """A job of named tensors, one of which has a hostile name, as has a host; the last rank is late."""
    whole = report(SIZES, [[0.02, 0.02, 0.02, 0.05]] * steps, named=True)
    ranks = []
    for rank in whole.ranks:
        profile = rank.figures.profile
        assert profile is not None
        requests = tuple(each._replace(name=HOSTILE) if each.name == "tensor 1" else each for each in profile.requests)
        host = f"beta{HOSTILE}" if rank.figures.host == "beta" else rank.figures.host
        figures = replace(rank.figures, host=host, profile=replace(profile, requests=requests))
        ranks.append(replace(rank, figures=figures))
    return replace(whole, ranks=tuple(ranks), topology=whole.topology.replace("beta", '"beta<b>"'))


def embedded(page: str) -> str:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return found


def test_the_verdict_comes_first_and_every_section_is_there() -> None:
    page = report_page(job(), "run.json")
    assert page.index('class="headline"') < page.index('id="time"') < page.index("What would help")
    assert ">up to 1." in page, "what a punctual last rank would give is a bound"
    titles = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    assert titles == [
        "Verdict", "Ranks over time", "What would help", "Who came last", "Tensors", "Links between machines",
        "The load-imbalance susceptible window", "Cores",
    ]  # fmt: skip
    data = json.loads(embedded(page))
    assert [len(row) for row in data["steps"]] == [7] * 4
    assert [one["late"][3] for one in data["tensors"]] == [max(one["late"]) for one in data["tensors"]]


def test_the_page_and_the_terminal_have_the_same_headline() -> None:
    whole = report(SIZES, [[0.134, 0.134, 0.207, 0.134]] * 8)
    console = Console(record=True, width=1000, file=io.StringIO())
    show(whole, verdict(whole, "run.json").text, console)
    headline = "straggler-bound: rank 2 on beta computes 207 ms a step, the others 134 ms, "
    assert headline in console.export_text()
    assert f'<p class="headline">{headline}' in report_page(whole, "run.json")


@pytest.mark.parametrize("blocking", [False, True])
def test_the_picture_shows_what_the_bar_says(blocking: bool) -> None:
    """Rank 2 comes late to each of three calls, for which the others wait one by one, or all at the end."""
    whole = report(SIZES, [[0.1, 0.1, 0.4, 0.1]] * 10, waits=blocking)
    waits = 1e3 * (0.45 if blocking else 0.05)
    whole = replace(
        whole, ranks=tuple(replace(rank, rates=replace(rank.rates, exposed_ms=waits)) for rank in whole.ranks)
    )
    page = report_page(whole, "run.json")
    found = verdict(whole, "run.json").evidence
    assert found is not None
    steps = [step for row in json.loads(embedded(page))["steps"] for step in row]
    drawn = dict.fromkeys(PARTS, 0.0)
    for step in steps:
        for begin, part, end in zip(step[0::2], step[1::2], step[2::2], strict=False):
            drawn[PARTS[part]] += 1e-6 * (end - begin) / len(steps)
    assert {part: seconds for part, seconds in drawn.items() if seconds} == pytest.approx(found.parts, abs=1e-5)
    assert (max(map(len, steps)) > 2 * len(PARTS)) is blocking, "each call has its wait"


def test_what_stands_on_the_page_and_in_the_terminal_is_the_same() -> None:
    whole = report(SIZES, [[0.134, 0.134, 0.207, 0.134]] * 8)
    lasts = [Last(0.1, 40, 1.25), Last(0.2, 40, 2.5), Last(0.6, 40, 72.5), Last(0.1, 40, None)]
    ranks = tuple(replace(rank, last=last) for rank, last in zip(whole.ranks, lasts, strict=True))
    whole = replace(whole, ranks=ranks, cut={1: "rank 1 died"}, end="SIGTERM ended rank 0.")
    console = Console(record=True, width=1000, file=io.StringIO())
    show(whole, verdict(whole, "run.json").text, console)
    shown, page = console.export_text(), report_page(whole, "run.json")
    plain = html.unescape(re.sub(r"<[^>]*>", " ", page))
    found = verdict(whole, "run.json")
    for sentence in (found.headline, *found.details, *whole.remarks):
        assert sentence in shown and sentence in plain
    for rank, last in enumerate(lasts):
        words = [str(rank), whole.ranks[rank].figures.host, percent(last.share), number(last.late_ms)]
        row = r"\s+".join(map(re.escape, words))
        assert re.search(rf"^\s*{row}\s", shown, re.MULTILINE) and re.search(rf"\s{row}\s", plain)


def test_it_loads_nothing_and_names_from_outside_stay_text() -> None:
    page = report_page(job(), "run.json")
    assert page.count("<script") == 2 and page.count("</script") == 2
    assert "<img" not in page and "<b>" not in page
    assert {one["name"] for one in json.loads(embedded(page))["tensors"]} == {"tensor 0", HOSTILE, "tensor 2"}
    assert not re.search(r"""(src|href)=["'](?!#)|@import|url\(|fetch\(""", page.replace(embedded(page), ""))
    assert "default-src 'none'" in page


def test_a_job_without_known_steps_still_has_its_page() -> None:
    page = report_page(replace(without_profiles(job()), missing={9: HOSTILE}), "run.json")
    assert "no verdict: run.json is of a run that did not end well: rank 9 gave no figures" in page
    assert page.count("<script") == 2
    assert json.loads(embedded(page)) == {"ranks": [], "steps": [], "tensors": []}


def test_it_does_not_grow_with_the_job() -> None:
    network = uniform(MAX_RANKS + 6, 10, Link(1e9, 1e9))
    whole = report((1 << 20,), [[0.01] * (MAX_RANKS + 6)] * (MAX_STEPS + 9), topology=network)
    page = report_page(whole, "run.json")
    data = json.loads(embedded(page))
    assert (len(data["steps"]), {len(row) for row in data["steps"]}) == (MAX_RANKS, {MAX_STEPS})
    assert "6 ranks, which were ready earlier than these, are not drawn." in page
    assert len(page) - len(embedded(page)) < MOST


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "page.html"
    file.write_text(report_page(job(), "run.json"))
    return file


NAMES = "[...document.querySelectorAll('#tensor-table button.open')].map((one) => one.textContent)"
SHOWN = "document.querySelector('#timeline output').textContent"
LATE = "document.querySelectorAll('.late li').length"
FOCUS = "document.activeElement.textContent.trim() || document.activeElement.getAttribute('aria-label')"


@pytest.mark.parametrize("width", [1200, 360])
def test_a_browser_draws_it_and_its_buttons_work(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width)
    assert browser.evaluate("document.title").startswith("run.json: 4 ranks on 2 machines")
    assert browser.evaluate(SHOWN).startswith("Steps 3 to 7 of 7, ")
    assert browser.evaluate("document.querySelectorAll('#timeline rect').length") >= 4 * 5 * 2
    for button in ("#timeline button", "#tensor-table button.open", "#tensor-table button.sort"):
        browser.evaluate(f"document.querySelector('{button}').click()")
        if "open" in button:
            assert browser.evaluate(LATE) == 4
    assert browser.evaluate(SHOWN).startswith("Steps 1 to 5 of 7, ")
    assert browser.evaluate(NAMES) == sorted([HOSTILE, "tensor 0", "tensor 2"])
    assert browser.evaluate("document.querySelector('#tensor-table th').getAttribute('aria-sort')") == "ascending"
    nameless = """[...document.querySelectorAll("button, select, input, svg, [role=region]")]
        .filter((one) => !(one.textContent.trim() || one.getAttribute("aria-label"))).length"""
    assert browser.evaluate(nameless) == 0
    assert browser.troubles() == []


def test_keys_do_what_the_mouse_does(browser: Browser, page: Path) -> None:
    """Tab reaches everything that can be used, in its order; Enter and the space bar press it."""
    browser.open(page)
    usable = """[...document.querySelectorAll("a[href], button, select, input, [tabindex='0']")]
        .filter((one) => !one.disabled && one.checkVisibility())"""
    count = browser.evaluate(f"{usable}.length")
    for place in range(count):
        browser.press("Tab")
        assert browser.evaluate(f"{usable}.indexOf(document.activeElement)") == place
        assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "it shows"

    def go_to(start: str) -> None:
        for _ in range(count + 2):
            if browser.evaluate(FOCUS).startswith(start):
                return
            browser.press("Tab")
        raise AssertionError(f"Tab does not reach {start}")

    go_to("Earlier")
    browser.press("Enter")
    assert browser.evaluate(SHOWN).startswith("Steps 1 to 5 of 7, ")
    go_to("Later")
    browser.press(" ")
    assert browser.evaluate(SHOWN).startswith("Steps 3 to 7 of 7, ")
    go_to("tensor 2")
    browser.press("Enter")
    assert browser.evaluate(LATE) == 4
    browser.press("Enter")
    assert browser.evaluate(LATE) == 0
    go_to("bytes")
    browser.press("Enter")
    assert browser.evaluate(NAMES) == ["tensor 0", "tensor 2", HOSTILE]
    assert browser.troubles() == []


def test_it_is_dark_where_the_user_wants_that_and_black_on_white_on_paper(browser: Browser, page: Path) -> None:
    colours = "['backgroundColor', 'color'].map((one) => getComputedStyle(document.body)[one])"
    buttons = "[...document.querySelectorAll('.controls, .skip')].filter((one) => one.checkVisibility()).length"
    for scheme, media, paper_is_light in (
        ("light", "screen", True), ("dark", "screen", False), ("light", "print", True), ("dark", "print", True),
    ):  # fmt: skip
        browser.open(page, scheme=scheme, media=media)
        paper, ink = (luminance(colour) for colour in browser.evaluate(colours))
        assert (paper > ink) is paper_is_light
        assert (max(paper, ink) + 0.05) / (min(paper, ink) + 0.05) >= 7, "WCAG 2.2, success criterion 1.4.6"
        assert (browser.evaluate(buttons) == 0) is (media == "print"), "paper has no buttons"
        box, picture = (
            browser.evaluate(f"document.querySelector('{one}').getBoundingClientRect().right")
            for one in ("#timeline", "#timeline svg")
        )
        assert picture <= box, "the picture is cut off"
        assert browser.troubles() == []


def luminance(colour: str) -> float:
    """The relative luminance of "rgb(…)", 0 to 1, as WCAG 2.2 defines it."""
    channels = [int(value) / 255 for value in re.findall(r"[0-9]+", colour)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
