"""One rank's part of a program of Horovod's API."""

from __future__ import annotations

import random
from typing import Any

import torch
from hvd_programs import Exchange, Program
from torch import Tensor
from torch_programs import Step, values
from torch_runner import Outcome, Placed


def run(rank: int, size: int, program: Program) -> list[list[Outcome]]:
    """Do this rank's rounds, and join. Returns what came of each request of each of them."""
    import paceline.horovod.torch as hvd

    sets = [hvd.global_process_set, *(hvd.add_process_set(list(ranks)) for ranks in program.sets[1:])]
    for number, exchange in enumerate(program.exchanges):
        _exchange(hvd, exchange, f"objects {number}", rank, size)
    found = []
    for each in program.rounds[: program.rounds_of[rank]]:
        order = [number for number, step in enumerate(each.requests) if rank in program.sets[step.group]]
        generator = random.Random(each.orders[rank])
        generator.shuffle(order)
        outcomes: list[Outcome] = [("none", None)] * len(each.requests)
        waiting = []
        for number in order:
            step = each.requests[number]
            ranks = program.sets[step.group]
            request = _Request(hvd, step, f"{step.call} {number}", ranks.index(rank), ranks, sets[step.group])
            try:
                waiting.append((number, request, request.submit()))
            except Exception as error:
                outcomes[number] = _failed(error)
        generator.shuffle(waiting)
        for number, request, handles in waiting:
            try:
                outcomes[number] = ("values", request.results([hvd.synchronize(handle) for handle in handles]))
            except Exception as error:
                outcomes[number] = _failed(error)
        found.append(outcomes)
    hvd.join()
    if program.again:
        hvd.shutdown()
        hvd.init()
        _use_left_sets(hvd, sets[1:], size)
        return found
    for chosen in sets[1:]:
        hvd.remove_process_set(chosen)
    return found


def _exchange(hvd: Any, exchange: Exchange, name: str, rank: int, size: int) -> None:
    """Exchange objects. Raises AssertionError unless all ranks have them, or are told which of them cannot be sent."""
    bad: Any = {"number": 10**5000, "tensor": torch.empty(3, device="meta")}.get(exchange.kind)
    objects: list[Any] = [{"rank": each, "values": [1.5, "a"]} for each in range(size)]
    own = {"rank": rank, "values": bad} if rank == exchange.root and bad is not None else objects[rank]
    told: Any
    try:
        if exchange.call == "allgather_object":
            told, right = hvd.allgather_object(own, name), objects
        else:
            told, right = hvd.broadcast_object(own, exchange.root, name), objects[exchange.root]
    except Exception as error:
        told, right = type(error), objects
    if bad is not None:
        right = TypeError  # type: ignore[assignment]
    assert told == right, f"{exchange}: {str(told)[:300]}"


def _use_left_sets(hvd: Any, left: list[Any], size: int) -> None:
    """Process sets of the job before are none of this one, which has others."""
    added = hvd.add_process_set([size - 1])
    for chosen in left:
        try:
            hvd.allreduce_async(torch.ones(3), name="left", process_set=chosen)
        except ValueError:
            continue
        raise AssertionError(f"process set {chosen.ranks} of the job before is still in use")
    hvd.remove_process_set(added)


def _failed(error: Exception) -> Outcome:
    return ("error", f"{type(error).__name__}: {error}"[:300])


class _Request:
    def __init__(self, hvd: Any, step: Step, name: str, place: int, ranks: tuple[int, ...], chosen: Any) -> None:
        self._hvd, self._step, self._place, self._ranks = hvd, step, place, ranks
        self._named = {"name": name, "process_set": chosen}
        self._op = {"op": {"SUM": hvd.Sum, "AVG": hvd.Average}[step.op]}
        self._placed: list[Placed] = []

    def submit(self) -> list[int]:
        """Start it, and return its handles."""
        handle = getattr(self, f"_{self._step.call}")()
        return handle if isinstance(handle, list) else [handle]

    def results(self, synchronized: list[Any]) -> list[Tensor]:
        """What came of it."""
        assert all(one.untouched() for one in self._placed), "memory around was written"
        flat: list[Tensor] = []
        for one in synchronized:
            flat += list(one) if isinstance(one, tuple | list) else [one]
        return [one.detach().clone().contiguous() for one in flat]

    def _own(self, rows: int | None = None, part: int = 0) -> Tensor:
        placed = Placed(values(self._step, self._place, part, rows), self._step.layout)
        self._placed.append(placed)
        return placed.tensor

    def _allreduce(self) -> int:
        return int(self._hvd.allreduce_async(self._own(), **self._named, **self._op))

    def _allreduce_(self) -> int:
        return int(self._hvd.allreduce_async_(self._own().detach(), **self._named, **self._op))

    def _grouped_allreduce(self) -> int:
        tensors = [self._own(part=part) for part in range(3)]
        return int(self._hvd.grouped_allreduce_async(tensors, **self._named, **self._op))

    def _allgather(self) -> int:
        return int(self._hvd.allgather_async(self._own(self._step.splits[0][self._place]), **self._named))

    def _broadcast(self) -> int:
        return int(self._hvd.broadcast_async(self._own(), self._ranks[self._step.root], **self._named))

    def _broadcast_(self) -> int:
        return int(self._hvd.broadcast_async_(self._own().detach(), self._ranks[self._step.root], **self._named))

    def _reducescatter(self) -> int:
        return int(self._hvd.reducescatter_async(self._own(), **self._named, **self._op))

    def _alltoall(self) -> int:
        mine = self._step.splits[self._place]
        parts = [values(self._step, self._place, part, rows) for part, rows in enumerate(mine)]
        placed = Placed(torch.cat(parts), self._step.layout)
        self._placed.append(placed)
        splits = torch.tensor(mine, dtype=torch.int32)
        return int(self._hvd.alltoall_async(placed.tensor, splits=splits, **self._named))
