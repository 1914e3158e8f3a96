"""What the engine remembers of real operations, through all formats."""

import json
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from paceline import _engine
from paceline.observe.trace import chrome, dump, flight
from paceline.observe.trace.event import events
from paceline.runtime.plans import plans
from paceline.topology.discover import RankFacts, discover

CHANNEL = 77
FLOAT32, BLOCKING = _engine.DTYPES["float32"], 0
BARRIER = _engine.CollectiveCall("barrier")


def pair() -> tuple[Any, Any, list[Any]]:
    """Two engines in this process, joined over TCP, and their group."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        first = socket.create_connection(server.getsockname())
        second, _ = server.accept()
    engines = [_engine.Engine(_engine.Arena(), 0.0, f"rank {rank} (test)") for rank in range(2)]
    groups = []
    for rank, (engine, own) in enumerate(zip(engines, (first, second), strict=True)):
        peer = engine.add_tcp_peer(own.detach(), f"rank {1 - rank}")
        peers = [-1, peer] if rank == 0 else [peer, -1]
        groups.append(
            engine.group(
                CHANNEL, rank, peers, 20.0, plans(discover([RankFacts("a", "a"), RankFacts("b", "b")]).topology)
            )
        )
    return engines[0], engines[1], groups


def all_reduce(data: NDArray[np.float32], count: int) -> _engine.CollectiveCall:
    return _engine.CollectiveCall("all_reduce", target=data.ctypes.data, count=count, dtype=FLOAT32)


def each(groups: list[Any], work: Any) -> list[Exception]:
    """Let every rank do `work(group)` at once; returns what was raised."""
    raised: list[Exception] = []

    def run(group: Any) -> None:
        try:
            work(group)
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(group,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return raised


def test_operations_appear_in_the_trace_and_in_the_flight_recorder(tmp_path: Path) -> None:
    *engines, groups = pair()

    def work(group: Any) -> None:
        data = np.ones(1000, np.float32)
        group.start(all_reduce(data, data.size), BLOCKING)
        group.start(BARRIER, BLOCKING)
        # Another length on each rank: this one must fail on both.
        group.start(all_reduce(data, 10 + group.rank), BLOCKING)

    raised = each(groups, work)
    assert [type(error) for error in raised] == [_engine.Mismatch, _engine.Mismatch]
    for rank, engine in enumerate(engines):
        dump.write(tmp_path, rank, "host", 1, engine.events(), groups={CHANNEL: dump.Group("world", (0, 1))})
        engine.close()
    dumps = dump.read(tmp_path)
    for read in dumps:
        first, second, third = read.events
        assert (first.collective, first.dtype, first.op, first.bytes, first.state) == (
            "all_reduce", "float32", "SUM", 4000, "done",
        )  # fmt: skip
        assert first.link == "tcp" and first.algorithm and first.channel == CHANNEL
        assert first.enqueue_ns <= first.start_ns <= first.end_ns
        assert (second.collective, second.sequence) == ("barrier", first.sequence + 1)
        assert third.state == "failed"

    assert chrome.write(dumps, tmp_path / "trace.json") == 6
    records = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sorted(r["name"] for r in records if r["ph"] == "X" and r["name"] != "queue") == (
        ["all_reduce"] * 4 + ["barrier"] * 2
    )
    sizes = [flight.entry(0, read.events[2], dump.Group("world", (0, 1)))["input_sizes"] for read in dumps]
    assert sizes == [[[10]], [[11]]]


def test_a_running_operation_has_no_end() -> None:
    *engines, groups = pair()
    data = np.ones(10, np.float32)
    operation = groups[0].start(all_reduce(data, data.size), 1)
    (event,) = events(engines[0].events())
    assert (event.state, event.end_ns) == ("running", 0)
    for engine in engines:
        engine.close()
    with pytest.raises(_engine.CommunicationError):
        operation.wait(5.0)
