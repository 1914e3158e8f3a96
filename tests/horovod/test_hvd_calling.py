"""horovod.run: a function on several ranks."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, cast

import pytest

from paceline import horovod
from paceline.horovod import run_function
from paceline.launch.local import LocalJob


def summed(factor: float) -> tuple[int, Any]:
    import numpy as np

    import paceline

    group = paceline.init()
    array = np.array([factor * (group.rank + 1)])
    group.all_reduce(array)
    return group.rank, float(array[0])


def test_results_come_in_rank_order() -> None:
    assert horovod.run(summed, args=(2.0,), np=2, hosts="localhost:2", use_mpi=True) == [(0, 6.0), (1, 6.0)]


def test_what_only_this_process_knows_can_be_called() -> None:
    import threading

    base = [1, 2]

    class Answer:
        def __init__(self, rank: int) -> None:
            self.rank = rank

    def nested(extra: int) -> Answer:
        return Answer(sum(base) + extra + int(os.environ["RANK"]))

    answers = horovod.run(nested, (10,), num_proc=2)
    assert [(type(answer), answer.rank) for answer in answers] == [(Answer, 13), (Answer, 14)]
    assert horovod.run(lambda: os.environ["HOROVOD_LOCAL_RANK"], num_proc=1) == ["0"]

    lock = threading.Lock()
    with pytest.raises(ValueError, match=r"^the call of .*<lambda> cannot be sent to other processes: .*lock"):
        horovod.run(lambda: lock)
    with pytest.raises(RuntimeError, match=r"^rank 0 failed: what it returned cannot be sent back: .*lock"):
        horovod.run(lambda: threading.Lock())


SCRIPT = """
import paceline.horovod.run, os, sys
from paceline import horovod
assert not hasattr(horovod.run, "main") and horovod.run is paceline.horovod.run
def work():
    import paceline.horovod.torch as hvd
    hvd.init()
    hvd.allreduce(__import__("torch").ones(3), name="x")
    return hvd.rank(), sys.argv[1:]
print(horovod.run(work, num_proc=1))
"""


def test_a_script_calls_its_own_function_and_the_timeline_is_written(tmp_path: Path) -> None:
    script, timeline = tmp_path / "script.py", tmp_path / "timeline.json"
    script.write_text(SCRIPT)
    env = {**os.environ, "HOROVOD_TIMELINE": str(timeline)}
    command = [sys.executable, str(script), "--an-option"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=env)
    assert done.stdout == "[(0, ['--an-option'])]\n", done.stderr
    assert any(record["name"] == "ALLREDUCE" for record in json.loads(timeline.read_text()))


def joined() -> tuple[int, str]:
    from paceline.horovod import job

    job.start(None)
    rank = job.current().rank
    job.stop()
    return rank, "goes on"


def test_a_timeline_that_cannot_be_written_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "none" / "t.json"
    monkeypatch.setenv("HOROVOD_TIMELINE", str(place))
    assert horovod.run(joined, num_proc=1) == [(0, "goes on")]
    assert f"the timeline {place} is not written: No such file or directory" in capfd.readouterr().err


def failing(how: str) -> None:
    import numpy as np

    import paceline

    group = paceline.init()
    if group.rank == 1 and how == "raise":
        raise KeyError("of rank 1")
    if group.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    group.all_reduce(np.ones(1))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raise", "rank 1 failed: (?s:.*)KeyError: 'of rank 1'"),
        ("die", "rank [01] failed: (?s:.*rank 1 |its process was killed by SIGKILL)"),
    ],
)
def test_a_failure_is_raised_here(how: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        horovod.run(failing, kwargs={"how": how}, num_proc=2)


def test_of_answers_that_come_at_once_the_failure_that_was_first_is_told() -> None:
    class Ended:
        def poll(self) -> int:
            return 1

    class Job:
        processes = (Ended(), Ended())

    readers, writers = zip(Pipe(duplex=False), Pipe(duplex=False), strict=True)
    for writer, answer in zip(writers, [(False, "rank 1 is lost", 2.5), (False, "KeyError", 1.5)], strict=True):
        writer.send_bytes(pickle.dumps(answer))
    assert run_function._results(cast(LocalJob, Job()), readers)[1] == "rank 1 failed: KeyError"
    for pipe in (*readers, *writers):
        pipe.close()


def told(words: str) -> str:
    print(words, os.environ["HOROVOD_LOCAL_RANK"])
    print("error", os.environ["RANK"], file=sys.stderr)
    return os.environ["HOROVOD_START_TIMEOUT"]


def test_what_ranks_print_goes_to_files(tmp_path: Path) -> None:
    arguments = {"start_timeout": 7.5, "output_filename": str(tmp_path / "kept"), "ssh_port": 22, "mpi_args": "-x"}
    assert horovod.run(told, ("hello",), None, 2, **arguments) == ["7.5", "7.5"]
    for rank in (0, 1):
        kept = {file.name: file.read_text() for file in (tmp_path / "kept" / f"rank.{rank}").iterdir()}
        assert kept == {"stdout": f"hello {rank}\n", "stderr": f"error {rank}\n"}


def test_what_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one rank, not 0"):
        horovod.run(summed, num_proc=0)
    with pytest.raises(ValueError, match="host far is not this machine"):
        horovod.run(summed, num_proc=3, hosts="localhost:2,far:1")
    hosts = tmp_path / "hosts"
    hosts.write_text("far slots=2\n")
    with pytest.raises(ValueError, match="host far is not this machine"):
        horovod.run(summed, hostfile=str(hosts))
    with pytest.raises(ValueError, match="from hosts or from hostfile, not from both"):
        horovod.run(summed, hosts="localhost:1", hostfile=str(hosts))
    with pytest.raises(ValueError, match=r"ranks run .*, as this process does, and not executable='python2'"):
        horovod.run(summed, executable="python2")
    for elastic in ({"min_np": 1}, {"host_discovery_script": "./hosts.sh"}, {"reset_limit": 0}):
        with pytest.raises(ValueError, match="a function is called on ranks that stay the same"):
            horovod.run(summed, **elastic)
