"""The page on a run: whole, small, deaf to hostile names, and alive in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from recorded import report, without_profiles

from paceline.report.page.content import report_page
from paceline.report.page.data import MAX_RANKS, MAX_STEPS
from paceline.report.report import Report
from paceline.simulate.network import uniform
from paceline.topology import Link

SIZES = (4 << 20, 1 << 20, 2 << 20)
HOSTILE = '</script><script>document.title="owned"</script><img src=x onerror=alert(1)>&"\''
BROWSER = shutil.which("chromium")
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
    assert page.index('class="headline"') < page.index("What would help") < page.index('id="time"')
    assert ">up to 1." in page, "what a punctual last rank would give is a bound"
    titles = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    assert titles == [
        "Verdict", "Ranks over time", "Tensors", "Links between machines", "The load-imbalance susceptible window",
        "Cores",
    ]  # fmt: skip
    data = json.loads(embedded(page))
    assert [len(row) for row in data["steps"]] == [7] * 4
    assert [one["late"][3] for one in data["tensors"]] == [max(one["late"]) for one in data["tensors"]]


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


PROBE = """<script>
addEventListener("load", () => {
  const click = (selector) => document.querySelector(selector).click();
  document.querySelector("#tensor-table button.open").click();
  const late = document.querySelectorAll(".late li").length;
  const shown = document.querySelector("#timeline output").textContent;
  click("#timeline button");
  const earlier = document.querySelector("#timeline output").textContent;
  click("#tensor-table button.sort");
  const names = [...document.querySelectorAll("#tensor-table button.open")].map((one) => one.textContent);
  const found = {
    title: document.title, errors: window.errors, late, shown, earlier, names,
    boxes: document.querySelectorAll("#timeline rect").length,
    sorted: document.querySelector("#tensor-table th").getAttribute("aria-sort"),
    wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
    nameless: [...document.querySelectorAll("button, select, input, svg, [role=region]")].filter(
      (one) => !(one.textContent.trim() || one.getAttribute("aria-label"))).length,
    loaded: performance.getEntriesByType("resource").length,
  };
  document.body.replaceChildren(JSON.stringify(found));
});
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="needs a browser: chromium")
@pytest.mark.parametrize("width", [1200, 360])
def test_a_browser_draws_it_and_its_buttons_work(tmp_path: Path, width: int) -> None:
    assert BROWSER is not None
    catch = '<script>window.errors = []; addEventListener("error", (e) => window.errors.push(e.message));</script>'
    page = report_page(job(), "run.json").replace("<head>", f"<head>{catch}").replace("</body>", f"{PROBE}</body>")
    (tmp_path / "page.html").write_text(page)
    argv = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={width},900", "--virtual-time-budget=3000", "--dump-dom", f"file://{tmp_path / 'page.html'}",
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    body = re.search(r"<body>(\{.*\})\s*</body>", done.stdout, re.DOTALL)
    assert body, done.stdout[-2000:] + done.stderr[-2000:]
    text = body[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    found = json.loads(text)
    assert found["errors"] == []
    assert found["title"].startswith("run.json: 4 ranks on 2 machines")
    assert found["names"] == sorted([HOSTILE, "tensor 0", "tensor 2"])
    assert (found["late"], found["sorted"], found["nameless"], found["loaded"]) == (4, "ascending", 0, 0)
    assert found["shown"].startswith("Steps 3 to 7 of 7, ") and found["earlier"].startswith("Steps 1 to 5 of 7, ")
    assert found["boxes"] >= 4 * 5 * 2
    assert not found["wide"], "it scrolls sideways"
