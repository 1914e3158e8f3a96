"""What follows from measured rounds, the file that keeps rows, and the page that tells them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, replace
from html import escape, unescape
from pathlib import Path

import pytest
from browser import Browser
from hypothesis import given
from hypothesis import strategies as st

from paceline.cli.usage import UsageError
from paceline_bench.characterize.answers import answers
from paceline_bench.characterize.page import characterisation_page
from paceline_bench.characterize.results import FORMAT, Results
from paceline_bench.characterize.row import Round, Row, of_replies, summary
from paceline_bench.characterize.show import ordered

ROW = Row(
    approach="paceline",
    kind="no-gRPC",
    framework="torch",
    network="two",
    machines=2,
    model="MobileNet",
    image_size=64,
    batch=8,
    ranks=4,
    images_per_s=100.0,
    images_per_s_q1=90.0,
    images_per_s_q3=110.0,
    efficiency=0.8,
    efficiency_q1=0.7,
    efficiency_q3=0.9,
    step_ms=320.0,
    compute_ms=250.0,
    waiting_ms=10.0,
    negotiation_ms=None,
    copies_ms=2.0,
    transfer_ms=58.0,
    cpu_ms=1000.0,
    gradient_bytes=14_019_488,
    bound_ms=112.0,
    wrong=0,
    steps=10,
    load=1.5,
)
SECONDS = st.floats(0.01, 10)
A4 = 718
"""The width of A4 paper without margins of 1 cm, in px."""


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=3, max_size=9))
def test_the_parts_of_a_step_are_the_step_unless_it_was_faster_than_computing(pairs):
    alone = [Round(slowest=compute, mean=compute, cpu=0.0, waiting=0.0) for compute, _ in pairs]
    rounds = [Round(compute + more, compute, 0.0, more / 4, copies=more / 8) for compute, more in pairs]
    found = summary(rounds, alone, images=16)
    parts = found["compute_ms"] + found["waiting_ms"] + found["copies_ms"] + found["transfer_ms"]
    assert found["negotiation_ms"] is None
    assert parts >= found["step_ms"] - 0.01
    assert found["transfer_ms"] == 0 or math.isclose(parts, found["step_ms"], abs_tol=0.01)
    assert 0 < found["efficiency_q1"] <= found["efficiency"] <= found["efficiency_q3"] <= 1


def test_rates_are_compared_round_by_round():
    alone = [Round(seconds, seconds, 0.0, 0.0) for seconds in (1.0, 2.0, 4.0)]
    rounds = [Round(seconds, seconds, 0.0, 0.0) for seconds in (2.0, 2.0, 16.0)]
    found = summary(rounds, alone, images=8)
    assert (found["efficiency"], found["images_per_s"]) == (0.5, 4.0)


def test_ranks_wait_for_the_last_one_of_each_step():
    replies = [
        {"seconds": 4.0, "cpu_seconds": 3.0, "ready": [10.0, 20.0], "requests": None},
        {"seconds": 5.0, "cpu_seconds": 1.0, "ready": [11.0, 17.0], "requests": None},
    ]
    assert of_replies(replies, steps=2) == Round(2.5, 2.25, 2.0, waiting=1.0, negotiation=None, copies=None)


def test_negotiation_and_copies_count_where_nothing_hides_them():
    """A rank is ready at 10 s, the last one at 12 s. What happens before that is hidden by computation."""
    early = [9.0, 9.5, 10.5, 11.0]
    first = [11.5, 11.6, 13.0, 14.0]  # reduced until 13 s, copied until 14 s
    second = [14.5, 14.75, 16.0, 16.25]  # agreed on half a second later; copied for a quarter before and after
    hidden = [13.5, 14.75, 15.0, 15.5]  # its copies overlap with the first's and the second's
    one = {"seconds": 7.0, "cpu_seconds": 1.0, "ready": [10.0], "over": [17.0], "requests": [early, first, second]}
    other = {**one, "ready": [12.0], "requests": [early, first, second, hidden]}
    found = of_replies([one, other], steps=1)
    # alone: 0.5 s of negotiation, 1 + 0.25 + 0.25 s of copies; with the hidden one 0 and 1.75 + 0.25
    assert (found.negotiation, found.copies) == (pytest.approx((0.5 + 0.0) / 2), pytest.approx((1.5 + 2.0) / 2))


def test_rows_are_kept_and_replaced_and_a_cut_line_is_forgotten(tmp_path):
    file = tmp_path / "rows.jsonl"
    other = replace(ROW, approach="gloo")
    Results(file).add([ROW, other])
    with file.open("ab") as stream:
        stream.write(b'{"format": "pace')
    kept = Results(file)
    assert kept.rows == [ROW, other]
    newer = replace(ROW, images_per_s=120.0)
    kept.add([newer])
    assert Results(file).rows == [other, newer]
    assert Results(file).done() == {(ROW.configuration, "paceline"), (ROW.configuration, "gloo")}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"format": "other"}, "lacks the format"),
        ({"format": FORMAT, **asdict(ROW), "ranks": "many"}, "ranks"),
        ({"format": FORMAT, **asdict(ROW), "step_ms": None}, "step_ms"),
    ],
)
def test_a_file_of_something_else_is_refused(line, said, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(line) + "\n")
    with pytest.raises(UsageError, match=f"line 1.*{said}"):
        Results(file)


def test_answers_have_the_numbers_of_the_rows():
    rows = [
        replace(ROW, efficiency=0.5, images_per_s=90.0),
        replace(ROW, approach="gloo", efficiency=0.4, images_per_s=72.0),
        replace(ROW, approach="paceline-tensorflow", framework="tensorflow", efficiency=0.6, images_per_s=75.0),
        replace(ROW, approach="grpc", kind="gRPC", framework="tensorflow", efficiency=0.3, images_per_s=30.0),
        replace(ROW, batch=2, efficiency=0.25, compute_ms=56.0),
        replace(ROW, approach="mpich", wrong=3, efficiency=1.0),
    ]
    found = dict(answers(rows))
    ahead = found["Which approach is ahead, and how well does it scale?"]
    assert ahead[0].startswith("Approaches without gRPC are ahead of those with it in 1 of 1 configurations")
    assert "2.00× to 2.00× the efficiency" in ahead[0]
    assert "trains 2.50× as many images a second" in ahead[1]
    assert "more than 50% is impossible" in ahead[2] and "paceline is the most efficient, with 25%" in ahead[2]
    assert (
        "paceline-tensorflow is the most efficient, with 60%" in ahead[3] and "computing, which could hide" in ahead[3]
    )
    assert found["What does the batch size do?"] == [
        "With MobileNet at 64 px on 4 ranks (two), from 2 to 8 images a rank the efficiency goes for paceline from 25%"
        " to 50%."
    ]
    assert "1.25×: paceline 50% and gloo 40%" in found["What does the collective library do?"][0]
    assert "What does the connection between machines do?" not in found
    assert "With gloo, 22% of a step is exchange" in found["Where does the time go?"][1]


def cells(page: str) -> list[list[str]]:
    """The text of all rows of all tables."""
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    return [[unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in rows]


def test_the_page_shows_every_row():
    rows = [ROW, replace(ROW, approach="gloo", copies_ms=None), replace(ROW, batch=2)]
    told = characterisation_page(rows)
    found = cells(told)
    parts = ["320.0", "250.0", "10.0", "–", "–", "58.0"]
    assert ["gloo", "no-gRPC", "100.0", "90.0–110.0", "80.0%", *parts] in found
    assert sum(row[:5] == ["paceline", "no-gRPC", "100.0", "90.0–110.0", "80.0%"] for row in found) == 2
    assert "faster than 112 ms" in told
    for question, sentences in answers(ordered(rows)):
        assert escape(question) in told and all(escape(sentence) in told for sentence in sentences)
    assert len(re.findall(r'class="bar"', told)) == 3 and len(told.encode()) < 400_000


def test_the_page_fetches_nothing_and_believes_no_name():
    told = characterisation_page([replace(ROW, network="<script>alert(1)</script>")])
    assert "<script>alert" not in told and "default-src 'none'" in told
    assert not re.search(r"(?:src|href)=[\"'](?!#)", told)


@pytest.mark.parametrize(
    ("width", "scheme", "media"),
    [(1200, "light", "screen"), (1200, "dark", "screen"), (360, "dark", "screen"), (A4, "dark", "print")],
)
def test_a_browser_draws_the_page(browser: Browser, tmp_path: Path, width: int, scheme: str, media: str):
    rows = [ROW, replace(ROW, approach="gloo", step_ms=640.0), replace(ROW, batch=2)]
    (tmp_path / "page.html").write_text(characterisation_page(rows))
    browser.open(tmp_path / "page.html", width, scheme, media)
    assert browser.troubles() == []
    assert browser.evaluate("document.querySelector('.headline').checkVisibility()")
    found = browser.evaluate("[...document.querySelectorAll('.bar')].map((one) => one.getBoundingClientRect().width)")
    half, *whole = sorted(found)
    assert [2 * half] * 2 == pytest.approx(whole, rel=0.02), "bars are as long as steps"
    white = browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert white is (scheme == "light" or media == "print")
