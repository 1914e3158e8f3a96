"""What the demo prints, over results made up by hand."""

import pytest
from results import a_result, some_figures

from paceline.demo.report import print_result, unclear

LOADED = [-11.1, -18.0, 3.0, -4.0, -13.0, -12.0, 2.0, -20.0, -9.0, -11.5, 1.0]
"""Milliseconds that a step takes longer with all-reduces than without, beside another load."""


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("COLUMNS", "100")
    return monkeypatch


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_a_loaded_run_says_what_is_within_its_spread(columns, capsys: pytest.CaptureFixture[str]) -> None:
    result = a_result(
        tested=some_figures(added_ms=LOADED, images_per_second=[1935.0] * 11),
        beside=some_figures(added_ms=[one / 8 for one in LOADED], images_per_second=[1408.0] * 11),
    )
    print_result(result)
    out = printed(capsys)
    assert "added by communication -11.1 ± 5.5 -1.4 ± 0.7 – " in out
    assert "(–) for added by communication: both are within their spread of zero." in out
    assert "(–) for ms per step; communication, total; " in out
    assert "fewer than 10 of the 11 epochs agree on is within its spread" in out
    assert "images/s 1,935 ± 0 1,408 ± 0 1.37× " in out
    assert "7.89" not in out


def test_a_quiet_run_has_all_ratios_and_no_excuse() -> None:
    half = some_figures(
        **dict.fromkeys(
            ("images_per_second", "step_ms", "added_ms", "total_ms", "transfer_ms", "exposed_ms"), [5.0] * 11
        )
    )
    assert unclear(a_result(tested=half)) == []


def test_too_few_epochs_are_one_sentence() -> None:
    (sentence,) = unclear(a_result(epochs=5))
    assert sentence == ("No ratio (–): fewer than 6 epochs were timed, too few to tell a difference from chance.")
