"""`make test` counts what ran, and its last lines say what failed and why tests skipped."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

import test_run
from test_run import Outcome

XML = """<testsuites><testsuite>
<testcase classname="tests.a" name="one"/>
<testcase classname="tests.a" name="two"><failure message="no">assert 0</failure></testcase>
<testcase classname="tests.a" name="three"><skipped message="needs a lab: none; to run it, make one"/></testcase>
<testcase classname="tests.a" name="four"><skipped message="needs a lab: none; to run it, make one"/></testcase>
<testcase name="five" status="fail"><system-out>ok four
x.cpp:3: CHECK(false) failed
</system-out></testcase>
</testsuite></testsuites>"""
WHY = "needs a lab: none; to run it, make one"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "results.xml"
    path.write_text(XML)
    return path


def test_what_is_counted(file: Path) -> None:
    outcome = test_run.of(file, 1, test_run.FOLDER / "x.log")
    assert (outcome.passed, outcome.failed) == (1, ["tests.a::two", "five"])
    assert dict(outcome.skipped) == {WHY: 2}
    assert outcome.printed[-3:] == ["five printed:", "ok four", "x.cpp:3: CHECK(false) failed"]


@pytest.mark.parametrize("text", [None, "<testsuites>"])
def test_a_command_that_fails_without_results_is_a_failure(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "results.xml"
    if text is not None:
        path.write_text(text)
    outcome = test_run.of(path, 3, test_run.FOLDER / "x.log")
    assert outcome.failed == ["ended with 3: build/test/x.log"]


def test_the_end_says_what_failed_and_why_tests_skipped(file: Path) -> None:
    lines = test_run.summary({"C++": Outcome(3), "Python": test_run.results(file)}, 125.0).splitlines()
    assert [line.split() for line in lines if line.startswith(("C++", "Python"))] == [
        ["C++", "3", "0", "0"],
        ["Python", "1", "2", "2"],
    ]
    assert f"     2  {WHY}" in lines
    assert "        Python: tests.a::two" in lines
    assert lines[-2:] == ["4 passed, 2 failed, 2 skipped", "Failed, after 2 min 5 s; the logs are in build/test."]


def test_nothing_that_ran_is_no_success() -> None:
    assert test_run.summary({"Python": Outcome()}, 1.0).splitlines()[-1].startswith("Failed")
    assert test_run.summary({"Python": Outcome(1)}, 59.6).splitlines()[-1] == "Passed, after 1 min 0 s."
