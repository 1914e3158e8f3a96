"""Elastic jobs as real processes: killed, stopped and added ranks, hosts that a script finds, nothing left behind."""

from __future__ import annotations

import os
import re
import selectors
import shlex
import signal
import sys
from contextlib import closing
from pathlib import Path

import pytest
from elastic_jobs import DEADLINE, nothing_runs, run, said, started, wait_until

from paceline.horovod.driver.hosts import Discovery
from paceline.horovod.driver.job import ElasticJob
from paceline.horovod.driver.limits import Limits
from paceline.horovod.driver.messages import Asked
from paceline.horovod.driver.rounds import Rounds
from paceline.horovod.driver.store import DriverStore
from paceline.horovod.run import main
from paceline.launch.job import Command
from paceline.launch.multi_host import new_mark
from paceline.launch.stderr import Collector

HERE = Path(__file__).parent


def script(folder: Path, steps: int) -> list[str]:
    return [sys.executable, str(HERE / "elastic_script.py"), str(folder), str(steps)]


def told(folder: Path) -> dict[int, list[tuple[int, ...]]]:
    """What each worker wrote, by its pid: rank, size, step, sum."""
    files = sorted((file for file in folder.iterdir() if file.name.isdigit()), key=lambda file: file.read_text())
    return {int(f.name): [tuple(map(int, line.split())) for line in f.read_text().splitlines()] for f in files}


def test_training_goes_on_from_the_last_commit_when_a_rank_is_killed(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "-np", "2", "--min-np", "1", sys.executable, str(HERE / "elastic_torch.py"))
    assert code == 0, err
    # Two committed steps of two ranks' ones, less the gradient, which is one; then four of one rank's.
    assert out == f"[0] 0 0 1 [1] {[[2 * (2.0 - 1.0) + 4 * (1.0 - 1.0)] * 2]} True\n", out + err
    assert re.search(r"elastic: rank 1 \(pid \d+\) was killed by SIGKILL\n.*elastic: round 2 with 1 rank", err), err


@pytest.mark.parametrize(
    ("option", "variable"), [(["--elastic-timeout", "10"], "300"), ([], "10")], ids=["option", "variable"]
)
def test_a_stopped_rank_is_left_out(option: list[str], variable: str, tmp_path: Path) -> None:
    (tmp_path / "stop-2").touch()
    arguments = ["-np", "3", "--min-np", "2", *option, *script(tmp_path, 6)]
    code, _, err = run(tmp_path, *arguments, timeout=3.0, HOROVOD_ELASTIC_TIMEOUT=variable)
    assert code == 0, err
    first, second, third = told(tmp_path).values()
    assert [line[1:] for line in first] == [line[1:] for line in second]
    assert first == [
        (0, 3, 1, 3),
        (0, 3, 2, 6),
        (0, 3, 3, 9),
        (0, 2, 3, 8),
        (0, 2, 4, 10),
        (0, 2, 5, 12),
        (0, 2, 6, 14),
    ]
    assert third[-1] == (2, 3, 3, 9)
    assert "elastic: rank 2 is ended: it did not come within 10 s" in err
    assert nothing_runs(tmp_path)


def test_who_gives_the_state_can_be_lost_and_a_host_can_come(tmp_path: Path) -> None:
    hosts, found = tmp_path / "hosts", tmp_path / "found"
    hosts.write_text("localhost:1\n127.0.0.1\n")
    (tmp_path / "kill-0").touch()
    (tmp_path / "hold").touch()
    options = ["-np", "2", "--min-np", "1", "--slots-per-host", "1", "--host-discovery-script", f"cat {hosts}"]
    with started(tmp_path, *options, *script(tmp_path, 8)) as launcher:
        wait_until(lambda: (tmp_path / "holding").exists())  # one rank goes on alone, as localhost failed
        found.write_text("localhost:1\n127.0.0.1:2\n")
        found.rename(hosts)
        wait_until(lambda: "round 3 with 2 ranks" in said(tmp_path))
        (tmp_path / "hold").unlink()
        assert launcher.wait(timeout=DEADLINE) == 0, said(tmp_path)
    lost, newcomer, survivor = sorted(told(tmp_path).values(), key=lambda lines: (len(lines), lines[0][2]))
    assert lost == [(0, 2, 1, 2), (0, 2, 2, 4), (0, 2, 3, 6)]
    assert survivor[3:6] == [(0, 1, 3, 5), (0, 1, 4, 6), (0, 1, 5, 7)]
    assert survivor[6:] == [(0, 2, step, 2 * step - 3) for step in (6, 7, 8)]
    assert newcomer == [(1, 2, step, 2 * step - 3) for step in (6, 7, 8)]
    assert nothing_runs(tmp_path)


@pytest.mark.parametrize(
    ("policy", "groups", "codec"),
    [("board", "0", ""), pytest.param("graph", "1", "lossless", marks=pytest.mark.verify)],
)
def test_the_gradients_of_a_rank_that_comes_are_averaged_with_the_first_ones(
    policy: str, groups: str, codec: str, tmp_path: Path
) -> None:
    """It makes its optimizer while the others are in the midst of training, which began with one rank.

    Between machines it gets the state of the first rank by the codec of PACELINE_COMPRESS, bit for bit.
    """
    wishes = {"PACELINE_POLICY": policy, **({"PACELINE_COMPRESS": codec} if codec else {})}
    hosts, found = tmp_path / "hosts", tmp_path / "found"
    hosts.write_text("localhost:1\n")
    program = [sys.executable, str(HERE / "elastic_grow.py"), str(tmp_path), groups]
    options = ["-np", "1", "--min-np", "1", "--host-discovery-script", f"cat {hosts}"]
    with started(tmp_path, *options, *program, **wishes) as launcher:
        wait_until(lambda: (tmp_path / "holding").exists())
        found.write_text("localhost:2\n")
        found.rename(hosts)
        assert launcher.wait(timeout=DEADLINE) == 0, said(tmp_path)
    weight = -2 * 1.0 - 3 * 1.5
    first, other = (line.rsplit(maxsplit=3) for line in sorted((tmp_path / "out").read_text().splitlines()))
    assert [first[0], other[0]] == [f"[{rank}] {rank} 2 {[[weight] * 2]}" for rank in (0, 1)]
    for _, codecs, _, after in (first, other):
        assert ("lossless" in codecs) == (codec == "lossless") and after == first[2]
    assert other[2] != first[2]


def test_a_rank_that_is_lost_while_process_sets_are_registered_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "kill-1").touch()
    program = [sys.executable, str(HERE / "elastic_sets.py"), str(tmp_path)]
    code, out, err = run(tmp_path, "-np", "3", "--min-np", "2", *program)
    assert code == 0, err
    assert sorted(out.splitlines()) == [f"[{rank}] round 2: 2 ranks, 1 in the set, sum 2" for rank in (0, 1)]
    assert re.search(r"elastic: rank 1 \(pid \d+\) was killed by SIGKILL\n.*elastic: round 2 with 2 ranks", err), err
    assert nothing_runs(tmp_path)


class Hosts:
    """Hosts that the test says."""

    def __init__(self) -> None:
        self.latest = {"a": 1}


def test_a_newcomer_that_fails_before_it_joins_does_not_decide_the_exit_code(tmp_path: Path) -> None:
    source, trained = Hosts(), tmp_path / "trained"
    programs = {"a": f"while [ ! -e {trained} ]; do sleep 0.01; done", "b": "exit 3"}

    def command(worker: int, host: str, place: int) -> Command:
        return Command(("sh", "-c", programs[host]), os.environ, f"worker {worker}")

    with (
        closing(DriverStore([], b"secret")) as store,
        selectors.DefaultSelector() as selector,
        closing(Collector(selector)) as collector,
    ):
        rounds = Rounds(Limits(1, 1, awaits_hosts=True))
        with ElasticJob(rounds, source, store, command, new_mark(), collector) as job:
            store.inbox.put(Asked(0, 0))
            wait_until(lambda: job.poll() is None and rounds.number == 1)
            source.latest = {"a": 1, "b": 1}
            wait_until(lambda: job.poll() is None and len(job.processes) == 2 and job.processes[1].poll() is not None)
            assert job.poll() is None
            trained.touch()
            job.processes[0].wait(DEADLINE)
            assert job.poll() == 0


def test_too_few_ranks_end_the_job_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "kill-1").touch()
    code, _, err = run(tmp_path, "-np", "2", "--min-np", "2", *script(tmp_path, 6))
    assert code == 128 + signal.SIGKILL
    words = r"elastic: the job ends: 1 rank of at least 2 can go on \(rank 1 \(pid \d+\) was killed by SIGKILL\); "
    assert len(re.findall(words + "localhost gets no new ranks after a failure", err)) == 1, err
    assert nothing_runs(tmp_path)


def test_it_says_that_it_waits_for_hosts(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("localhost:1\n")
    options = ["-np", "2", "--elastic-timeout", "7", "--host-discovery-script", f"cat {tmp_path / 'hosts'}"]
    code, _, err = run(tmp_path, *options, "true")
    words = (
        r"elastic: waits for hosts with free slots, as there are slots for 1 of the 2 ranks to begin with; \d+ s more"
    )
    assert code == 1 and len(re.findall(words, err)) == 1, err
    assert "elastic: the job ends: 0 ranks of the 2 to begin with can be started" in err


def test_a_program_that_cannot_start_is_not_tried_for_ever(tmp_path: Path) -> None:
    program = ["--blacklist-cooldown-range", "1", "2", sys.executable, "-c", "raise SystemExit('no')", str(tmp_path)]
    code, _, err = run(tmp_path, "-np", "2", "--min-np", "1", *program)
    assert code == 1 and "the job ends: no rank came as far as its first round" in err and err.endswith("no\n"), err


def test_the_job_ends_with_its_launcher(tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    for number, code in ((signal.SIGINT, 128 + signal.SIGINT), (signal.SIGKILL, -signal.SIGKILL)):
        with started(tmp_path, "-np", "2", "--min-np", "1", *script(tmp_path, 8)) as launcher:
            wait_until(lambda: (tmp_path / "holding").exists())
            launcher.send_signal(number)
            assert launcher.wait(timeout=DEADLINE) == code
        wait_until(lambda: nothing_runs(tmp_path))
        (tmp_path / "holding").unlink()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("-np 2 --host-discovery-script yes true", "the host discovery script yes printed more than 1024 KiB"),
        ("-np 2 --host-discovery-script false true", "the host discovery script false failed with code 1"),
        ("-np 2 --host-discovery-script /none true", "cannot start the host discovery script /none: No such file"),
        ("-np 2 --host-discovery-script 'echo a b' true", "false should print lines like host:2, got 'a b'"),
        ("-np 2 --host-discovery-script true -H a:2 true", "the hosts come from --host-discovery-script or from -H"),
        ("--host-discovery-script true true", "say how many ranks to start with"),
        ("-np 2 --min-np 1 --elastic-timeout 0 true", "--elastic-timeout 0 should be more than 0 seconds"),
        ("-np 2 --min-np 3 true", "--min-np 3 should be from 1 to -np, which is 2"),
        ("-np 2 --reset-limit 3 true", "--reset-limit requires --min-np or --host-discovery-script"),
    ],
)
def test_a_bad_request_gets_one_sentence(arguments: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(shlex.split(arguments))
    err = capsys.readouterr().err
    assert words.replace("false should", "echo should") in err.splitlines()[-1], err


def test_a_script_that_prints_no_host_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    Discovery("true", 1, os.environ).close()
    assert capsys.readouterr().err == (
        "paceline: the host discovery script true prints no host yet; it should print lines like host:2\n"
    )
