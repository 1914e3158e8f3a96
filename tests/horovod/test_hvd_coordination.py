"""Named tensors in any order, and what happens when ranks do not agree, have joined, or are gone."""

from __future__ import annotations

import json
import logging
import os
import queue
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import encoded_requests
import pytest
import torch
from horovod_ranks import Ranks

POLICIES = ["board", "graph", "cycle", "global_sleep", "nonblocking"]


def check_any_order(rank: int, size: int, seed: int) -> None:
    import paceline.horovod.torch as hvd

    choice, shared = random.Random(seed * 100 + rank), random.Random(seed)
    for step in range(4):
        names = [f"layer{number}" for number in range(20)]
        lengths = {name: shared.choice([1, 3, 1000, 70_000]) for name in names}
        choice.shuffle(names)
        tensors = {name: torch.full((lengths[name],), float(rank + step)) for name in names}
        handles = {name: hvd.allreduce_async_(tensors[name], name=name, op=hvd.Sum) for name in names}
        group = [torch.ones(3) * rank, torch.ones(50_000)]
        handles["group"] = hvd.grouped_allreduce_async_(group, name="group", op=hvd.Sum)
        gathered = hvd.allgather_async(torch.full((rank + 1,), rank), name="rows")
        given = hvd.broadcast_async(torch.tensor([rank]), step % size, name="word")
        rest = list(handles)
        choice.shuffle(rest)
        for name in rest:
            hvd.synchronize(handles[name])
        total = size * (size - 1) / 2
        assert all((tensor == total + size * step).all() for tensor in tensors.values())
        assert group[0].tolist() == [total] * 3 and (group[1] == size).all()
        assert hvd.synchronize(gathered).tolist() == [other for other in range(size) for _ in range(other + 1)]
        assert hvd.synchronize(given).item() == step % size


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("machines", ["000", "010"])
def test_any_order(ranks: Ranks, policy: str, machines: str) -> None:
    environment = {"PACELINE_POLICY": policy, "HOROVOD_CYCLE_TIME": "1"}
    ranks(check_any_order, 3, machines=machines, environment=environment, seed=7)


@pytest.mark.parametrize("policy", POLICIES)
def test_codecs(ranks: Ranks, policy: str) -> None:
    environment = {"PACELINE_POLICY": policy, "HOROVOD_CYCLE_TIME": "1"}
    ranks(encoded_requests.check, 3, machines="010", environment=environment)


def test_first_values(ranks: Ranks) -> None:
    ranks(encoded_requests.first_values, 2, machines="01", environment={"PACELINE_COMPRESS": "lossless"})


def check_disagreement(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    def fails(call: Any, words: str) -> None:
        with pytest.raises(hvd.HorovodInternalError, match=words) as caught:
            call()
        assert isinstance(caught.value, RuntimeError) and caught.value.__cause__ is not None
        assert all(f"rank {other}" in str(caught.value) for other in range(size)), str(caught.value)
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size  # everything else goes on

    other = hvd.allreduce_async(torch.ones(5), name="meanwhile", op=hvd.Sum)
    fails(lambda: hvd.allreduce(torch.ones(17, 3 + rank), name="shape"), "shape")
    fails(lambda: hvd.allreduce(torch.ones(2 + rank, 3)), "allreduce.noname")
    fails(lambda: hvd.allreduce(torch.ones(2, dtype=[torch.float32, torch.int32][rank]), name="type"), "float32")
    fails(lambda: hvd.allreduce(torch.ones(2), op=[hvd.Sum, hvd.Max][rank], name="op"), "op")
    fails(lambda: hvd.allreduce(torch.ones(2), prescale_factor=1.0 + rank, name="factor"), "factor")
    fails(lambda: hvd.allgather(torch.ones(2, 3 + rank), name="rest"), "rest")
    fails(lambda: hvd.allgather(torch.ones(2, dtype=[torch.float32, torch.int32][rank])), "int32")
    fails(lambda: hvd.broadcast(torch.ones(2), rank, name="root"), "root")
    fails(lambda: hvd.broadcast(torch.ones(2 + rank), 0, name="form"), "form")
    fails(lambda: hvd.alltoall(torch.ones(2, 1 + rank), name="wide"), "wide")
    fails(lambda: hvd.reducescatter(torch.ones(2, 1 + rank), name="narrow"), "narrow")
    fails(lambda: hvd.grouped_allreduce([torch.ones(2), torch.ones(1 + rank)], name="group"), "group")
    assert hvd.synchronize(other).tolist() == [float(size)] * 5


def test_ranks_that_disagree_hear_both_sides(ranks: Ranks) -> None:
    ranks(check_disagreement)


def check_names_under_way(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    calls = [
        lambda: hvd.allreduce_async(torch.ones(2), name="twice"),
        lambda: hvd.allgather_async(torch.ones(2), name="twice"),
        lambda: hvd.broadcast_async(torch.ones(2), 0, name="twice"),
        lambda: hvd.alltoall_async(torch.ones(2), name="twice"),
        lambda: hvd.reducescatter_async(torch.ones(2), name="twice"),
        lambda: hvd.grouped_allreduce_async([torch.ones(2)] * 2, name="twice"),
    ]
    for call in calls:
        if rank == 0:
            handle = call()
            assert not hvd.poll(handle)
            with pytest.raises(ValueError, match=r"twice.* is still under way: a tensor with the same name"):
                call()
            hvd.barrier()
        else:
            hvd.barrier()
            handle = call()
        hvd.synchronize(handle)
        again = call()
        hvd.synchronize(again)
        hvd.barrier()


def test_a_name_that_is_under_way(ranks: Ranks) -> None:
    ranks(check_names_under_way)


def check_a_name_twice_in_a_row(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    for _ in range(200):
        if rank > 0:
            hvd.barrier()
        handle = hvd.allreduce_async(torch.ones(2), name="twice", op=hvd.Sum)
        with pytest.raises(ValueError, match=r"allreduce.twice is still under way"):
            hvd.allreduce_async(torch.ones(2), name="twice", op=hvd.Sum)
        if rank == 0:
            hvd.barrier()
        assert hvd.synchronize(handle).tolist() == [float(size)] * 2
    for _ in range(3):  # whoever has waited for something since may use it again
        hvd.allreduce_async(torch.ones(2), name="forgotten")
        hvd.barrier()


def test_a_name_twice_in_a_row_is_refused_also_where_the_first_is_over_at_once(ranks: Ranks) -> None:
    ranks(check_a_name_twice_in_a_row)


class Heard(logging.Handler):
    """What is logged that contains this word."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self.word = word
        self.sentences: queue.SimpleQueue[str] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        if self.word in record.getMessage():
            self.sentences.put(record.getMessage())


def check_a_name_that_comes_again_after_its_end(rank: int, size: int) -> bool:
    """The last rank hands `a` in once more: it and the others wait for each other, until other threads help. Whether
    this rank heard of that before others helped."""
    import paceline.horovod.torch as hvd

    heard = Heard("neither ends unless another thread does")
    logging.getLogger("paceline").addHandler(heard)
    one = torch.ones(2)
    hvd.allreduce(one, name="a")
    time.sleep(2.5 if rank == 0 else 0.0)  # the others wait for rank 0, which waits for nobody
    hvd.allreduce(one, name="b")
    assert heard.sentences.empty()
    mine, theirs = ("a", "b") if rank == size - 1 else ("b", "a")
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(hvd.allreduce, one, name=mine, op=hvd.Sum)
        waiting.add_done_callback(lambda _: heard.sentences.put(""))
        if sentence := heard.sentences.get(timeout=60):
            assert sentence.startswith(f'all_reduce "allreduce.{mine}" float32[2] SUM waits for rank ')
            assert f'waits for "allreduce.{theirs}", which this rank, rank {rank} (host ' in sentence
        other = hvd.allreduce(one, name=theirs, op=hvd.Sum)
        assert other.tolist() == waiting.result().tolist() == [float(size)] * 2
    logging.getLogger("paceline").removeHandler(heard)
    return bool(sentence)


@pytest.mark.parametrize("policy", POLICIES)
def test_ranks_that_wait_for_each_other_are_named_at_once(ranks: Ranks, policy: str) -> None:
    environment = {"PACELINE_POLICY": policy}
    assert any(ranks(check_a_name_that_comes_again_after_its_end, size=3, machines="001", environment=environment))


def check_poll(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    handle = hvd.allreduce_async(torch.ones(2), name="polled", op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    assert hvd.synchronize(handle).tolist() == [float(size)] * 2
    assert hvd.synchronize(handle) is None
    forgotten = hvd.allreduce_async(torch.ones(2), name="forgotten")
    while not hvd.poll(forgotten):
        pass
    assert hvd.allreduce(torch.ones(2), name="forgotten").tolist() == [1.0, 1.0]


def test_poll(ranks: Ranks) -> None:
    ranks(check_poll)


def check_join(rank: int, size: int, dtype: torch.dtype) -> None:
    import paceline.horovod.torch as hvd

    for first in range(size):
        if rank != first:
            a = hvd.allreduce_async(torch.full((5,), 6).to(dtype), name="a")
            b = hvd.allreduce_async(torch.full((17, 2), 3).to(dtype), name="b", op=hvd.Sum)
            group = hvd.grouped_allreduce_async([torch.ones(3).to(dtype)] * 2, name="g", op=hvd.Sum)
            rows = hvd.allgather_async(torch.full((rank + 1,), rank).to(dtype), name="rows")
            nameless = hvd.allreduce(torch.ones(1).to(dtype), op=hvd.Sum)
            average = torch.tensor(6 * (size - 1) / size).to(dtype)
            assert torch.allclose(hvd.synchronize(a), average)
            assert (hvd.synchronize(b) == 3 * (size - 1)).all()
            assert all((each == size - 1).all() for each in hvd.synchronize(group))
            others = [other for other in range(size) if other != first]
            assert hvd.synchronize(rows).tolist() == [float(other) for other in others for _ in range(other + 1)]
            assert nameless.item() == size - 1
            hvd.barrier()
        last = hvd.join()
        assert last != first
        assert hvd.allgather_object(last) == [last] * size
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [float(size)] * 2  # nameless, and equal again


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_join(ranks: Ranks, dtype: torch.dtype) -> None:
    ranks(check_join, 3, dtype=dtype)


def check_join_refuses(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    for call in (
        lambda: hvd.broadcast(torch.ones(2), 0, name="b"),
        lambda: hvd.alltoall(torch.ones(size), name="t"),
        lambda: hvd.reducescatter(torch.ones(size), name="s"),
    ):
        if rank != 1:
            with pytest.raises(hvd.HorovodInternalError, match="joined"):
                call()
        assert hvd.join() != 1
    if rank != 1:
        given = hvd.allreduce(torch.tensor([3.0, 4.0]), op=hvd.Adasum)
        assert torch.allclose(given, torch.tensor([3.0, 4.0]))
    hvd.join()


def test_what_a_joined_rank_cannot_be_part_of(ranks: Ranks) -> None:
    ranks(check_join_refuses, 3)


def check_uneven_epoch(rank: int, size: int) -> None:
    """Ranks with different numbers of batches, as Horovod's documentation has it for join."""
    import paceline.horovod.torch as hvd

    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    for _ in range(3 + 2 * rank):
        optimizer.zero_grad()
        model(torch.rand(2, 3)).sum().backward()
        optimizer.step()
    assert hvd.join() == size - 1


def test_an_epoch_with_uneven_batches(ranks: Ranks) -> None:
    ranks(check_uneven_epoch, 3)


def check_lost(rank: int, size: int, how: str) -> str:
    import paceline.horovod.torch as hvd

    handle = hvd.allreduce_async(torch.ones(4), name="done", op=hvd.Sum)
    hvd.synchronize(handle)
    if rank == 1:
        os.kill(os.getpid(), getattr(signal, how))
    with pytest.raises(hvd.HorovodInternalError) as caught:
        hvd.allreduce(torch.ones(4), name="wanted")
    Path(os.environ["TOLD"]).with_suffix(f".{rank}").write_text(
        f"{type(caught.value.__cause__).__name__} {caught.value}"
    )
    os._exit(0)


@pytest.mark.parametrize(("how", "kind"), [("SIGKILL", "PeerLost"), ("SIGSTOP", "Timeout")])
def test_a_lost_rank_is_named(ranks: Ranks, how: str, kind: str, tmp_path: Path) -> None:
    told = tmp_path / "told"
    environment = {"TOLD": str(told), "PACELINE_TIMEOUT": "4", "PACELINE_START_TIMEOUT": "60"}
    with pytest.raises(AssertionError, match="the process died"):
        ranks(check_lost, 3, environment=environment, fresh=True, how=how)
    for rank in (0, 2):
        words = told.with_suffix(f".{rank}").read_text()
        assert words.startswith(f"{kind} ") and "rank 1 (" in words, words


def check_timeline(rank: int, size: int, folder: str) -> None:
    import paceline.horovod.torch as hvd
    from paceline.observe.trace.phases import FIRST_PID

    path = Path(folder) / "timeline.json"
    hvd.allreduce(torch.ones(3), name="before")
    hvd.start_timeline(str(path), mark_cycles=True)
    hvd.grouped_allreduce([torch.ones(3), torch.ones(4)], name="pair")
    hvd.allgather(torch.ones(rank + 1), name="rows")
    hvd.stop_timeline()
    hvd.stop_timeline()
    hvd.allreduce(torch.ones(3), name="after")
    if rank == 0:
        events = json.loads(path.read_text())
        rows = {
            event["args"]["name"]: event["pid"]
            for event in events
            if event["name"] == "process_name" and event["pid"] >= FIRST_PID
        }
        assert set(rows) == {"grouped_allreduce.pair_1of2", "grouped_allreduce.pair_2of2", "allgather.rows"}
        of_rows = {event["name"]: event for event in events if event["pid"] == rows["allgather.rows"]}
        assert {str(rank) for rank in range(size)} <= set(of_rows), "a tick for each rank"
        assert {"NEGOTIATE_ALLGATHER", "ALLGATHER"} <= set(of_rows)
        assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in events if event["ph"] == "X")
        negotiated, done = of_rows["NEGOTIATE_ALLGATHER"], of_rows["ALLGATHER"]
        assert negotiated["ts"] + negotiated["dur"] == pytest.approx(done["ts"])
        with pytest.raises(OSError, match="No such file"):
            hvd.start_timeline(f"{folder}/none/timeline.json")


def test_timeline(ranks: Ranks, tmp_path: Path) -> None:
    ranks(check_timeline, folder=str(tmp_path))


def check_timeline_by_environment(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    hvd.allreduce(torch.ones(3), name="seen")
    hvd.shutdown()
    if rank == 0:
        text = Path(os.environ["HOROVOD_TIMELINE"]).read_text()
        assert "allreduce.seen" in text
        assert ("CYCLE_START" in text) == (os.environ["HOROVOD_TIMELINE_MARK_CYCLES"] == "1")


@pytest.mark.parametrize("mark", ["0", "1"])
def test_timeline_by_environment(ranks: Ranks, mark: str, tmp_path: Path) -> None:
    environment = {"HOROVOD_TIMELINE": str(tmp_path / "t.json"), "HOROVOD_TIMELINE_MARK_CYCLES": mark}
    ranks(check_timeline_by_environment, environment=environment, fresh=True)
