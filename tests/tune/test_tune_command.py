"""`paceline tune` with real processes: what a run tells, what is kept after Ctrl-C, and what is started from it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jobs import PROGRAMS
from launched import DEADLINE, environment, finish, program, wait_until

from paceline.cli import main
from paceline.cpu.budget import available
from paceline.launch.interrupts import also_from_others
from paceline.launch.run import LaunchRequest
from paceline.tune.cache import Cache, Known
from paceline.tune.run import Run
from paceline.tune.setting import Samples, Setting
from paceline.tune.trial import Effort, trial
from paceline.tune.tune import Request, tune

TRAINS = [sys.executable, str(PROGRAMS / "watched_job.py"), "0", "-", "end{batch}"]
QUICK = Effort(seconds=0.2, timeout=DEADLINE)


def tried(words: list[str], effort: Effort = QUICK, processes: int = 1) -> Run:
    return trial(words, Setting(processes, 1), 0, environment(), effort, time.monotonic() + DEADLINE)


def test_a_run_of_two_processes_has_rates() -> None:
    run = tried(TRAINS, processes=2)
    assert run.reason == "" and len(run.rates) > 1 and all(rate > 0 for rate in run.rates)


@pytest.mark.parametrize(
    ("text", "timeout", "reason"),
    [
        (
            "raise ValueError('no data here')",
            DEADLINE,
            "rank 0 (pid {pid}) exited with code 1: ValueError: no data here",
        ),
        ("import time; time.sleep(600)", 1.0, "no step for 1 s and no use of Paceline"),
        ("", DEADLINE, "it ended, and none of its processes used Paceline for long enough to be asked"),
    ],
    ids=["fails", "hangs", "ends"],
)
def test_a_run_that_shows_nothing_says_why(text: str, timeout: float, reason: str, tmp_path: Path) -> None:
    run = tried([sys.executable, str(program(tmp_path, text))], Effort(timeout=timeout))
    head, _, tail = reason.partition("{pid}")
    assert run.rates == () and run.reason.startswith(head) and run.reason.endswith(tail)


def test_a_script_that_ends_early_is_measured_by_the_steps_that_it_makes() -> None:
    run = tried([*TRAINS[:2], "60", *TRAINS[3:]], Effort(seconds=60, timeout=DEADLINE))
    assert run.reason == "" and run.rates


@pytest.mark.parametrize(
    ("uses", "tried", "chosen"),
    [
        (set(), [(1, 1), (2, 1)], None),
        ({2}, [(1, 1), (2, 1), (2, 1)], Setting(2, 1)),
        ({1, 2}, [(1, 1), (1, 2), (2, 1)], Setting(1, 1)),
    ],
    ids=["never", "on several processes", "always"],
)
def test_a_script_that_goes_on_without_paceline_is_not_waited_for_again(
    uses: set[int], tried: list[tuple[int, int]], chosen: Setting | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    def stand_in(words: object, setting: Setting, number: int, *_: object) -> Run:
        ran.append((setting.processes, setting.threads))
        used = setting.processes in uses
        rates = (3.0 - setting.processes - setting.threads / 10,) * 3 if used else ()
        return Run(setting, number, QUICK.of(number), rates, "" if used else "no use of Paceline", not used)

    monkeypatch.setattr("paceline.tune.tune.trial", stand_in)
    settings = [Setting(1, 1), Setting(1, 2), Setting(2, 1)]
    request = Request(("train.py",), settings, Samples(strong=True), QUICK, DEADLINE)
    found = tune(request, {}, Known(), lambda known: None, lambda setting: None)
    assert ran[: len(tried)] == tried
    assert (found.choice.chosen.setting if found.choice else None, found.unused) == (chosen, not uses)


@pytest.mark.smoke
def test_a_search_is_interrupted_goes_on_and_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    env = environment(XDG_CACHE_HOME=str(tmp_path))
    rows = tmp_path / "rows.json"
    words = [sys.executable, "-m", "paceline", "tune", "--seconds", "0.05", "--batch", "8,16"]
    words += ["--json", str(rows), "--", *TRAINS]
    before = os.sched_getaffinity(0)

    def tune() -> subprocess.Popen[str]:
        return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def known() -> Known:
        return Cache(TRAINS, env, available()).read()

    os.sched_setaffinity(0, {min(before)})  # one CPU leaves two settings, one for each batch
    try:
        first = tune()
        wait_until(lambda: known().runs or first.poll() is not None, "a first run")
        first.send_signal(signal.SIGINT)
        code, out, err = finish(first)
        assert code == 130, err
        kept = known()
        assert not kept.complete and kept.chosen is not None and str(kept.chosen) in out
        assert "the search was interrupted" in err and "Traceback" not in err
        assert json.loads(rows.read_text())[0]["chosen"] is True

        code, out, err = finish(tune())
        assert code == 0, err
        whole = known()
        assert whole.complete and whole.runs[: len(kept.runs)] == kept.runs, "it went on where the first one stopped"
        found = json.loads(rows.read_text())
        assert {row["setting"] for row in found} == {"1 × 1, batch 8", "1 × 1, batch 16"}
        assert [row["chosen"] for row in found].count(True) == 1
        assert all(row["low"] <= row["throughput"] <= row["high"] and row["runs"] > 1 for row in found)

        code, again, err = finish(tune())
        assert (code, again) == (0, out) and "nothing had to be measured" in err

        requests: list[LaunchRequest] = []
        monkeypatch.setattr("paceline.cli.run.run", lambda request, *_: requests.append(request) or 0)
        monkeypatch.setattr(os, "environ", env)
        with pytest.raises(SystemExit):
            main.main(["run", "--tuned", "--", *TRAINS])
        assert whole.chosen is not None
        assert (requests[0].ranks, requests[0].threads) == ("1", 1)
        assert requests[0].arguments.program[-1] == f"end{whole.chosen.batch}"
        with pytest.raises(SystemExit):
            main.main(["run", "--tuned", "--", *TRAINS[:-1], "another"])
        assert "paceline run: nothing is known of this program" in capfd.readouterr().err
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("options", "last", "said"),
    [
        (["--shape", "2x1x8"], "x", "--shape needs a command that takes it"),
        ([], "{shape}", "the command has {shape}; --shape 1x2x1,2x1x8 says what to put there"),
        (["--shape", "1x1x1,2x8"], "{shape}", "--shape 1x1x1,2x8: '2x8' is not partitions x replicas x microbatches"),
        (["--shape", "99991x1x1"], "{shape}", "--shape 99991x1x1 needs 99991 processes, which do not divide the"),
        (["--batch", "8,16"], "x", "--batch has several values"),
    ],
)
def test_what_the_command_does_not_take_is_refused(
    options: list[str], last: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main.main(["tune", *options, "--", sys.executable, "train.py", last])
    assert caught.value.code == 2 and said in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_from_others_is_as_ctrl_c(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt), also_from_others():
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
