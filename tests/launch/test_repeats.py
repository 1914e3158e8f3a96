"""After Ctrl-C the tracebacks that ranks write alike are shown once, and nothing else is left out."""

from __future__ import annotations

import os
import selectors
import signal
import tempfile
from pathlib import Path

from launched import environment, finish, paceline_run, pids, program

from paceline.launch import repeats, supervise
from paceline.launch.repeats import Repeats
from paceline.launch.stderr import Collector
from paceline.launch.supervise import Signals

TRACEBACK = b'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nKeyboardInterrupt\n'


def shown(writes: list[tuple[int, bytes]], interrupts: list[int]) -> bytes:
    """What is copied of these writes of processes, which end in their order."""
    with tempfile.TemporaryFile() as file, selectors.DefaultSelector() as selector:
        collector = Collector(selector, file.fileno(), interrupts=interrupts)
        ends = {}
        for number in dict(writes):
            reading, ends[number] = os.pipe()
            collector.listen_to(reading, number, number)
        for number, data in writes:
            os.write(ends[number], data)
            for key, _ in selector.select(0):
                collector.handle(key)
        for end in ends.values():
            os.close(end)
            for key, _ in selector.select(0):
                collector.handle(key)
        collector.close()
        supervise.finish(selector, Signals(), collector, collector.relay)
        file.seek(0)
        return file.read()


def lines_in_turn() -> list[tuple[int, bytes]]:
    """Two ranks that write the same traceback, each a line at a time, and one that writes another."""
    other = TRACEBACK.replace(b"line 3", b"line 4") + b"ValueError: also this\n"
    ranks = (TRACEBACK.splitlines(True), TRACEBACK.splitlines(True), other.splitlines(True))
    return [(rank, lines[n]) for n in range(4) for rank, lines in enumerate(ranks) if n < len(lines)]


def test_what_ranks_write_alike_is_shown_once_and_whole() -> None:
    found = shown([(0, b"saved\n"), *lines_in_turn()], [signal.SIGINT])
    assert found == b"saved\n" + TRACEBACK + TRACEBACK.replace(b"line 3", b"line 4") + b"ValueError: also this\n"


def test_without_ctrl_c_every_line_is_shown_as_it_comes() -> None:
    assert shown(lines_in_turn(), []) == b"".join(line for _, line in lines_in_turn())


def test_what_comes_without_a_traceback_does_not_wait() -> None:
    found = Repeats()
    assert found.hold(1, b"saving\n") == found.hold(2, b"saving\n") == b"saving\n"
    assert found.hold(1, b"done\n" + TRACEBACK) == b"done\n" and found.hold(1, b"more\n") == b""
    assert found.release(1) == TRACEBACK + b"more\n" and found.release(2) == b"" and found.count == 0


def test_memory_is_bounded() -> None:
    found, written, passed = Repeats(), b"", b""
    for line in [TRACEBACK, *(f"{number} {'x' * 1000}\n".encode() for number in range(200))]:
        written += line
        passed += found.hold(1, line)
        assert len(written) - len(passed) <= repeats._MOST_BYTES
    assert passed + found.release(1) == written


INTERRUPTED = """
import os, pathlib, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
path = pathlib.Path(sys.argv[1], "rank-" + os.environ["RANK"])
path.with_suffix(".part").write_text(str(os.getpid()))
path.with_suffix(".part").rename(path)
signal.sigwait({signal.SIGINT})
if os.environ["RANK"] == "2":
    raise ValueError("its own")
raise KeyboardInterrupt
"""


def test_ctrl_c_shows_one_traceback_for_ranks_that_were_in_one_place(tmp_path: Path) -> None:
    run = paceline_run("-n", "4", "--direct", program(tmp_path, INTERRUPTED), tmp_path, env=environment())
    pids(tmp_path, [f"rank-{rank}" for rank in range(4)])
    run.send_signal(signal.SIGINT)
    code, _, err = finish(run)
    assert code == 130
    assert err.splitlines().count("KeyboardInterrupt") == 1 and err.splitlines().count("ValueError: its own") == 1
    ending = ["paceline: 2 more ranks wrote the same", "paceline: SIGINT ended the job; none of its processes is left"]
    assert err.splitlines()[-2:] == ending
