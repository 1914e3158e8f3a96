"""Threads of a rank: those that wait in a call while another holds the GIL, or while the process ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import PROGRAMS, run


@pytest.mark.parametrize("waiter", ["main", "another"])
def test_a_thread_that_wants_the_gil_holds_up_no_rank(waiter: str, tmp_path: Path) -> None:
    run(2, PROGRAMS / "held_gil.py", waiter, str(tmp_path / "pipe"), output=tmp_path, deadline=120)


@pytest.mark.parametrize("call", ["barrier", "all_reduce", "recv"])
def test_a_process_ends_while_a_thread_of_it_waits(call: str, tmp_path: Path) -> None:
    run(2, PROGRAMS / "ending_waiter.py", call, output=tmp_path, imports=None, deadline=120)
