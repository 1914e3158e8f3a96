"""Buffers in chunks, several of which are under way at once: the same results, and the same words for a lost rank."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_trial import trial
from jobs import PROGRAMS, run

from paceline import _engine
from paceline.plan.ring import ring
from paceline.plan.wire import to_wire


@pytest.mark.parametrize("machines", ["01", "000", "0111", "00111"])
def test_every_planner_in_chunks(machines: str, tmp_path: Path) -> None:
    run(len(machines), PROGRAMS / "chunked.py", machines, "1", output=tmp_path)


@pytest.mark.parametrize("machines", ["01", "000", "00111"])
@pytest.mark.parametrize("how", ["kill", "leave"])
def test_a_rank_that_goes_in_the_middle_of_a_chunk_is_named(how: str, machines: str, tmp_path: Path) -> None:
    trial(how, machines, 4, tmp_path, chunk=20_000)


def test_a_rank_that_stops_in_the_middle_of_a_chunk_is_named(tmp_path: Path) -> None:
    trial("stop", "011", 6, tmp_path, timeout=3, chunk=20_000)


@pytest.mark.parametrize("chunk", [-1, 1, 4095])
def test_a_chunk_is_not_tiny(chunk: int) -> None:
    engine = _engine.Engine(_engine.Arena(), 0.0, "rank 0")
    entry = (-1, "ring", False, chunk, 4, to_wire(ring(1)))
    with pytest.raises(ValueError, match=f"at least 4096 bytes, got {chunk}"):
        engine.group(1, 0, [-1], 1.0, {"all_reduce": [entry]})
    engine.close()


@pytest.mark.parametrize("under_way", [-1, 0, 65])
def test_some_chunks_are_under_way(under_way: int) -> None:
    engine = _engine.Engine(_engine.Arena(), 0.0, "rank 0")
    entry = (-1, "ring", False, 4096, under_way, to_wire(ring(1)))
    with pytest.raises(ValueError, match=f"under way must be 1 to 64, got {under_way}"):
        engine.group(1, 0, [-1], 1.0, {"all_reduce": [entry]})
    engine.close()
