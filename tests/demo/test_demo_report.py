"""What the demo prints and how it shows its progress, over results and stages made up by hand."""

import io
import os
import pty
import sys
from pathlib import Path

import pytest
from results import a_result, some_figures

from paceline.cli.demo import progress
from paceline.cli.demo.progress import Progress, Stage, read, tell
from paceline.cli.demo.report import print_header, print_result, unclear

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


def test_one_of_something_is_not_called_several(columns, capsys: pytest.CaptureFixture[str]) -> None:
    print_header(1, 1, "paceline", "gloo", 2)
    print_result(a_result(epochs=2))
    out = printed(capsys)
    assert ": 1 rank × 64 images per step on 1 core, paceline, gloo" in out
    assert "Medians of 1 epoch of 22 steps" in out


def test_too_few_epochs_are_one_sentence() -> None:
    (sentence,) = unclear(a_result(epochs=5))
    assert sentence == ("No ratio (–): fewer than 6 epochs were timed, too few to tell a difference from chance.")


def test_a_shortened_run_says_so(columns, capsys: pytest.CaptureFixture[str]) -> None:
    print_result(a_result(epochs=7))
    assert "trained 7 epochs and not 12, because the first of all copies took 5.5 s" in printed(capsys)


def test_sixty_columns_are_enough_for_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    many = some_figures(images_per_second=[12_345.0 + one for one in LOADED])
    print_header(4, 2, "paceline", "gloo", None)
    print_result(a_result(tested=many, beside=some_figures(images_per_second=[9_876.0] * 11)))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    for title in ("images/s", "  added by communication", "    with all ranks ready", "communication in all, s"):
        assert sum(line.startswith(title) and line.endswith(("–", "×")) for line in lines) == 1
    assert "…" not in "".join(lines)


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, name: str) -> "tuple[io.TextIOWrapper, int]":
    """Replace a standard stream by a terminal. Returns it, and the descriptor of its other end."""
    ours, theirs = pty.openpty()
    stream = os.fdopen(theirs, "w")
    monkeypatch.setattr(sys, name, stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream, ours


@pytest.mark.needs("a terminal")
def test_no_color_is_no_control_character(columns) -> None:
    columns.setenv("NO_COLOR", "1")
    stream, ours = on_a_terminal(columns, "stdout")
    print_header(4, 2, "paceline", "gloo", None)
    stream.flush()
    assert b"\x1b" not in os.read(ours, 4096)
    os.close(ours)


def test_the_last_stage_that_is_whole_is_read(tmp_path: Path) -> None:
    file = tmp_path / "progress"
    assert read(file) == Stage(0, 1, "starting ranks, importing torch")
    tell(None, Stage(1, 48, "is not told"))
    tell(file, Stage(1, 48, "paceline, epoch 1/12, loss 1.3"))
    tell(file, Stage(2, 48, "gloo, epoch 1/12, loss 1.3"))
    with file.open("a") as lines:
        lines.write("3 48 no commun")
    assert read(file) == Stage(2, 48, "gloo, epoch 1/12, loss 1.3")


@pytest.mark.needs("a terminal")
@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_bar_is_drawn_on_a_terminal_and_lines_with_no_color(columns, tmp_path: Path, no_color: str) -> None:
    columns.setenv("NO_COLOR", no_color)
    columns.setattr(progress, "LINE_SECONDS", 0.01)
    tell(tmp_path / "progress", Stage(12, 48, "gloo, epoch 3/12"))
    stream, ours = on_a_terminal(columns, "stderr")
    shown = b""
    with Progress(tmp_path / "progress"):
        while b"gloo, epoch 3/12" not in shown:
            shown += os.read(ours, 4096)
    stream.flush()
    os.close(ours)
    assert b"25%" in shown
    assert (b"\x1b" in shown) == (not no_color)
    assert (b"paceline: after 0 s 25%: gloo, epoch 3/12" in shown) == bool(no_color)


def test_a_file_gets_lines(columns, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns.setattr(progress, "LINE_SECONDS", 0.01)
    shown = ""
    with Progress(tmp_path / "progress"):
        while not shown:
            shown = capsys.readouterr().err
    assert shown.startswith("paceline: after 0 s 0%: starting ranks, importing torch\n")
    assert "\x1b" not in shown
    assert "\r" not in shown
