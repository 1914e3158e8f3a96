"""Shared memory that MPIs name in /dev/shm: a run takes away what its own ranks made, and nothing else."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from paceline_bench.ranks import wire
from paceline_bench.ranks.segments import FOLDER, NAMES, Segments, mapped, remove
from paceline_bench.run import BenchRequest, started
from paceline_bench.session import SessionFailed
from paceline_bench.systems import System

HERE = Path(__file__).parent
DEADLINE = 150.0

pytestmark = pytest.mark.skipif(not os.access(FOLDER, os.W_OK), reason="/dev/shm is not there to be written to")


@pytest.fixture
def segment():
    """The path of a segment that nobody has made yet; taken away at the end."""
    path = FOLDER / f"{NAMES[0]}of_a_test_{os.getpid()}"
    yield path
    path.unlink(missing_ok=True)


def make(path):
    """Makes a segment and maps it, in this process."""
    with path.open("w+b") as file:
        file.truncate(4096)
        return mmap.mmap(file.fileno(), 4096)


def ranks(path, then):
    here = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    environment = {"PYTHONPATH": here, "SEGMENT": f"{path} {then}"}
    return System("mpi", "none", "alone:Alone", {"call": "segment"}, environment=environment)


def test_what_is_mapped_here_is_found_and_what_is_not_is_not(segment):
    other = segment.with_name(f"{NAMES[1]}of_a_test_{os.getpid()}")
    with ExitStack() as stack:
        stack.enter_context(make(segment))
        other.touch()
        stack.callback(other.unlink)
        assert [found.path for found in mapped([os.getpid()])] == [segment]
        assert mapped([2**22 + 1]) == set()  # above every pid


def test_what_somebody_has_mapped_stays(segment):
    segments = Segments()
    with make(segment):
        segments.note([os.getpid()])
        segments.remove()
        assert segment.exists()
        segments.note([os.getpid()])
    segments.remove()
    assert not segment.exists()


def test_another_file_of_the_same_name_stays(segment):
    with make(segment):
        found = mapped([os.getpid()])
        keep = segment.open()  # so that its inode is not used again
        segment.unlink()
        segment.touch()
        assert mapped([os.getpid()]) == set()
    remove(found)
    assert segment.exists()
    keep.close()


@pytest.mark.parametrize("then", ["die", "hang"])
def test_ranks_that_die_or_are_ended_leave_no_segment(segment, then):
    foreign = segment.with_name(f"{segment.name}_foreign")
    foreign.touch()
    try:
        with started(BenchRequest([ranks(segment, then)], 2, timeout=DEADLINE), os.environ, pytest.fail) as (session,):
            session.ask(do="prepare", collective="all_reduce", dtype="float32", op="sum", elements=8, root=0)
            session.timeout = 2.0 if then == "hang" else DEADLINE
            with pytest.raises(SessionFailed):
                session.ask(do="verify", seeds=[1])
        assert not segment.exists()
        assert foreign.exists()
    finally:
        foreign.unlink()


def test_a_rank_whose_command_is_gone_leaves_no_segment(segment, tmp_path):
    listener = wire.listen(str(tmp_path / "s"), 1)
    listener.settimeout(DEADLINE)
    where = {"RANK": "0", "WORLD_SIZE": "1", "SEGMENT": f"{segment} hang"}
    paths = os.pathsep.join([str(HERE), str(Path(wire.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    start = "import sys; from ranks.program import main; main(sys.argv[1])"
    command = [sys.executable, "-c", start, str(tmp_path / "s")]
    with subprocess.Popen(command, env={**os.environ, **where, "PYTHONPATH": paths}) as rank, listener:
        try:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(DEADLINE)
                told = wire.Lines(connection)
                assert told.receive() == {"pid": rank.pid}
                told.send({"do": "start", "adapter": "alone:Alone", "options": {"call": "segment"}, "timeout": 1})
                told.receive()
                work = {"collective": "all_reduce", "dtype": "float32", "op": "sum", "elements": 8, "root": 0}
                told.send({"do": "prepare", **work})
                told.receive()
                told.send({"do": "verify", "seeds": [1]})
                deadline = time.monotonic() + DEADLINE
                while segment not in {found.path for found in mapped([rank.pid])}:
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
            told.close()
            assert rank.wait(DEADLINE) == 1
        finally:
            rank.kill()
    assert not segment.exists()
