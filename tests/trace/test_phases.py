"""A named tensor's phases: Horovod's names, properly nested, and ticks for the ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.observe.trace import chrome
from paceline.observe.trace.dump import Dump, decode, encode
from paceline.observe.trace.phases import FIRST_PID, MAX_TENSORS, Tensors, Turns, slices
from paceline.observe.trace.request import Request

FUSED = Request(9, "w", "all_reduce", 4096, 3, 1000, 5000, 6000, 8000, 9000, 1)


def named(request: Request, **more: object) -> dict[str, tuple[float, float]]:
    return {s["name"]: (s["ts"], s["dur"]) for s in slices(request, FIRST_PID, 0, 0, **more)}  # type: ignore[arg-type]


def test_a_fused_all_reduce() -> None:
    assert named(FUSED, turn_ns=5500) == {
        "NEGOTIATE_ALLREDUCE": (1.0, 4.0),
        "ALLREDUCE": (5.0, 4.0),
        "QUEUE": (5.0, 0.5),
        "MEMCPY_IN_FUSION_BUFFER": (5.5, 0.5),
        "PACELINE_ALLREDUCE": (6.0, 2.0),
        "MEMCPY_OUT_FUSION_BUFFER": (8.0, 1.0),
    }


def test_one_that_is_not_fused_and_one_that_failed() -> None:
    alone = FUSED._replace(kind="broadcast", packed_ns=0, reduced_ns=0)
    assert list(named(alone)) == ["NEGOTIATE_BROADCAST", "BROADCAST", "PACELINE_BROADCAST"]
    failed = FUSED._replace(negotiated_ns=0, packed_ns=0, reduced_ns=0)
    assert named(failed) == {"NEGOTIATE_ALLREDUCE": (1.0, 8.0)}


@given(st.lists(st.integers(1, 10**6), min_size=5, max_size=5), st.integers(0, 10**6), st.booleans(), st.booleans())
def test_slices_of_a_row_nest(moments: list[int], turn: int, packed: bool, reduced: bool) -> None:
    submitted, negotiated, pack, reduce, done = sorted(moments)
    request = FUSED._replace(
        submitted_ns=submitted,
        negotiated_ns=negotiated,
        packed_ns=pack if packed else 0,
        reduced_ns=reduce if reduced or packed else 0,
        done_ns=done,
    )
    spans = [(s["ts"], s["ts"] + s["dur"]) for s in slices(request, FIRST_PID, 0, 0, turn, {0: submitted, 4: turn})]
    for begin, end in spans:
        assert submitted / 1000 <= begin <= end <= done / 1000 + 1e-9
        for other, until in spans:
            crosses = begin < other < end < until
            assert not crosses or min(end - other, until - end) < 1e-9


def test_a_batchs_turn_comes_when_the_one_before_is_done() -> None:
    turns = Turns()
    batch = [FUSED._replace(name=name, batch=number, done_ns=done) for number, name, done in [
        (1, "a", 100), (1, "b", 200), (2, "a", 300), (2, "b", 400), (3, "c", 500)
    ]]  # fmt: skip
    assert [turns.of(request) for request in batch] == [0, 0, 200, 200, 400]
    assert turns.of(FUSED._replace(channel=10)) == 0


def test_names_without_end_take_a_bounded_number_of_rows() -> None:
    tensors = Tensors()
    pids = {tensors.row(f"allreduce.noname.{number}", 0)[0] for number in range(MAX_TENSORS + 100)}
    assert len(pids) == MAX_TENSORS + 1
    pid, new = tensors.row("one more", 0)
    assert (pid, new) == (max(pids), [])


def test_the_trace_of_several_ranks(tmp_path: Path) -> None:
    """A process per tensor, a row per rank, the ticks of all ranks on the first; matched by batch, not by time."""
    dumps = [
        Dump(0, "host", 1, (), requests=(FUSED, FUSED._replace(batch=4).moved(9000))),
        Dump(1, "host", 2, (), requests=(FUSED._replace(submitted_ns=4000),)),
    ]
    chrome.write(dumps, tmp_path / "t.json")
    records = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = {r["pid"]: r["args"]["name"] for r in records if r["name"] == "process_name"}
    assert names[FIRST_PID] == "w"
    assert {(r["pid"], r["tid"]) for r in records if r["name"] == "NEGOTIATE_ALLREDUCE"} == {
        (FIRST_PID, 0),
        (FIRST_PID, 1),
    }
    ticks = [(r["tid"], r["name"], r["ts"]) for r in records if r["name"] in "01" and r["ph"] == "X"]
    assert ticks == [(0, "0", 0.0), (0, "1", 3.0), (0, "0", 9.0)]


def test_requests_survive_a_dump() -> None:
    text = encode(0, "host", 1, [], requests=[FUSED])
    assert decode(text).requests == (FUSED,)
    for wrong in ('"w"', "[9]", '[9,"w","all_reduce",4096,3,1000,5000,6000,8000,"9000",1]'):
        broken = json.loads(text)
        broken["requests"] = [json.loads(wrong)]
        with pytest.raises(ValueError, match=r"(a|the) request"):
            decode(json.dumps(broken))
