"""Ranks that would go on by themselves are stopped between two orders."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from paceline_bench.session import Session
from paceline_bench.systems import System


@pytest.mark.parametrize("restless", [True, False])
def test_only_restless_ranks_are_stopped(tmp_path: Path, restless: bool) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    system = System("x", "none", "alone:Alone", {"call": "sleep"}, restless=restless)
    session = Session(system, 2, tmp_path, 60)
    try:
        session.start(environment, None)
        session.meet()
        session.begin()
        for _ in range(2):
            session.ask(do="prepare", collective="all_reduce", dtype="float32", op="sum", elements=1, root=0)
            ranks = [child for child in psutil.Process().children(recursive=True) if child.pid in session._pids]
            assert len(ranks) == 2
            while restless and any(rank.status() != psutil.STATUS_STOPPED for rank in ranks):
                time.sleep(0.001)  # a signal takes its time
            assert [rank.status() == psutil.STATUS_STOPPED for rank in ranks] == [restless] * 2
    finally:
        session.stop()
    assert not any(rank.is_running() for rank in ranks)
