"""What ranks report of their failures is read with bounds, and belongs to the stderr of the right process."""

from __future__ import annotations

import json
import os
import selectors
import time
from contextlib import closing
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import Timeout
from paceline.launch.stderr import Collector
from paceline.monitor import failure_report
from paceline.monitor.failure_report import FailureReport, parse

REPORT = FailureReport(5, 0, "Timeout", "rank 1 (host node0, pid 6)")
DEADLINE = 20.0


def test_a_report_is_read_as_it_was_written() -> None:
    assert parse(json.dumps(asdict(REPORT)).encode()) == REPORT


@given(
    st.binary()
    | st.dictionaries(st.sampled_from(list(asdict(REPORT))), st.integers() | st.text() | st.booleans() | st.none()).map(
        lambda fields: json.dumps(fields).encode()
    )
)
def test_anything_else_is_refused(data: bytes) -> None:
    try:
        report = parse(data)
    except ValueError:
        return
    assert [type(value) for value in asdict(report).values()] == [int, int, str, str]


@pytest.mark.parametrize("started_by_a_shell", [False, True])
def test_a_report_belongs_to_the_rank_that_sent_it(started_by_a_shell: bool) -> None:
    with selectors.DefaultSelector() as selector, closing(Collector(selector)) as collector:
        pids = [1, 2 if started_by_a_shell else os.getpid()]
        pipes = [os.pipe() for _ in pids]
        streams = [collector.listen_to(pipes[rank][0], pid, rank) for rank, pid in enumerate(pids)]
        error = Timeout("rank 0 never came")
        error.rank, error.host, error.pid = 0, "node0", 1
        failure_report.send(collector.address, 1, error)
        os.write(pipes[1][1], b"Traceback (most recent call last):\npaceline.errors.Timeout: rank 0 never came\n")
        end = time.monotonic() + DEADLINE
        while not streams[1].waited_for:
            assert time.monotonic() < end
            for key, _ in selector.select(1.0):
                collector.handle(key)
        assert streams[1].waited_for == "rank 0 (host node0, pid 1)" and streams[1].blames_another
        assert not streams[0].waited_for and not streams[0].blames_another
        for _, writing in pipes:
            os.close(writing)


def test_a_launcher_that_is_gone_is_no_error() -> None:
    failure_report.send("paceline-launch-gone", 0, Timeout("too late"))
