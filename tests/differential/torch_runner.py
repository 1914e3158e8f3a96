"""One rank's part of a program of torch.distributed, on whatever backend its world has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn
from torch_events import EVENTS, happen
from torch_programs import Program, Step, values

Outcome = tuple[str, Any]
"""("values", the tensors), ("error", its class and words), or ("none", None) on a rank that is not in the group."""
_AROUND = 42
"""What lies around and between the elements of a tensor; nobody may write there."""


class Sub(Tensor):
    """A tensor of the user's own class."""


class Placed:
    """A tensor in memory of some layout, and whether what is around it is as it was."""

    def __init__(self, content: Tensor, layout: str) -> None:
        self.tensor, self._base = _laid_out(content, layout)
        self._before = self._base.clone()
        self.tensor.data.copy_(content)

    def untouched(self) -> bool:
        """Whether nobody has written around the elements."""
        now, mask = self._base.clone(), torch.zeros_like(self._base, dtype=torch.bool)
        torch.as_strided(mask, self.tensor.shape, self.tensor.stride(), self.tensor.storage_offset()).fill_(True)
        return bool((now[~mask] == self._before[~mask]).all())


def _laid_out(content: Tensor, layout: str) -> tuple[Tensor, Tensor]:
    base = torch.full((2 * content.numel() + 8,), _AROUND, dtype=content.dtype)
    shape, count = content.shape, content.numel()
    if layout == "offset":
        return base[3 : 3 + count].view(shape), base
    if layout == "strided":
        return base[1 : 1 + 2 * count : 2].view(shape) if count else base[:0].view(shape), base
    if layout == "transposed" and content.dim() >= 2:
        turned = (*shape[:-2], shape[-1], shape[-2])
        return base[:count].view(turned).transpose(-1, -2), base
    if layout == "channels_last" and content.dim() == 4:
        batch, channels, height, width = shape
        return base[:count].view(batch, height, width, channels).permute(0, 3, 1, 2), base
    if layout == "conjugate" and content.is_complex():
        return base[:count].view(shape).conj(), base
    if layout == "negative" and content.dtype in (torch.float32, torch.float64):
        return torch.view_as_complex(base[: 2 * count].view(-1, 2)).conj().imag.view(shape), base
    plain = base[:count].view(shape)
    if layout == "subclass":
        return plain.as_subclass(Sub), base
    return (nn.Parameter(plain) if layout == "parameter" and plain.is_floating_point() else plain), base


def run(rank: int, size: int, program: Program) -> list[Outcome]:
    """Do the program's steps in order. Returns what came of each."""
    groups = _groups(program)
    outcomes: list[Outcome] = [("none", None)] * len(program.steps)
    waiting: list[tuple[int, int, Callable[[], list[Tensor]]]] = []
    for number, step in enumerate(program.steps):
        ranks = program.groups[step.group]
        if step.call in EVENTS:
            _finish(waiting, outcomes)
            waiting = []
            try:
                happen(step, program, rank)
                outcomes[number] = ("values", [])
            except Exception as error:
                outcomes[number] = _failed(error)
            if step.call == "begin_again":
                groups = _groups(program)
        elif rank in ranks:
            try:
                work, result = _Call(step, ranks, ranks.index(rank), groups[step.group]).start()
            except Exception as error:
                outcomes[number] = _failed(error)
            else:
                until = number + (step.wait or 0)
                waiting.append((until, number, lambda work=work, result=result: _finished(work, result)))
        _finish([each for each in waiting if each[0] <= number], outcomes)
        waiting = [each for each in waiting if each[0] > number]
    _finish(waiting[::-1], outcomes)
    for group in groups[1:]:
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)
    return outcomes


def _groups(program: Program) -> list[Any]:
    return [dist.group.WORLD, *(dist.new_group(list(ranks)) for ranks in program.groups[1:])]


def _finish(waiting: list[tuple[int, int, Callable[[], list[Tensor]]]], outcomes: list[Outcome]) -> None:
    for _, number, finished in waiting:
        try:
            outcomes[number] = ("values", finished())
        except Exception as error:
            outcomes[number] = _failed(error)


def _plain(tensor: Tensor) -> Tensor:
    """A copy of its own, as processes pass on."""
    return tensor.detach().as_subclass(Tensor).clone().resolve_conj().resolve_neg().contiguous()


def _failed(error: Exception) -> Outcome:
    return ("error", f"{type(error).__name__}: {error}"[:300])


def _finished(works: list[Any], result: Callable[[], list[Tensor]]) -> list[Tensor]:
    for work in works:
        if work is not None:
            work.wait()
    return result()


class _Call:
    """A step as one rank does it. `start` returns the Works to wait for, and what reads the results."""

    def __init__(self, step: Step, ranks: tuple[int, ...], place: int, group: Any) -> None:
        self._step, self._ranks, self._place, self._group = step, ranks, place, group
        self._async = {"group": group, "async_op": step.wait is not None}
        self._root = ranks[step.root]
        self._op = getattr(dist.ReduceOp, step.op)

    def start(self) -> tuple[list[Any], Callable[[], list[Tensor]]]:
        works, placed = getattr(self, f"_{self._step.call}")()
        if not isinstance(works, list):
            works = [works]

        def result() -> list[Tensor]:
            assert all(isinstance(one, Tensor) or one.untouched() for one in placed), "memory around was written"
            return [_plain(one if isinstance(one, Tensor) else one.tensor) for one in placed]

        return works, result

    def _own(self, part: int = 0) -> Placed:
        return self._placed(values(self._step, self._place, part))

    def _room(self) -> Placed:
        return self._placed(torch.zeros_like(values(self._step, 0)))

    def _placed(self, content: Tensor) -> Placed:
        return Placed(content, self._step.layout)

    def _each(self, make: Callable[[int], Placed]) -> list[Placed]:
        return [make(place) for place in range(len(self._ranks))]

    def _all_reduce(self) -> Any:
        own = self._own()
        return dist.all_reduce(own.tensor, self._op, **self._async), [own]

    def _functional_all_reduce(self) -> Any:
        own = self._own()
        return None, [functional.all_reduce(own.tensor.as_subclass(Tensor), self._step.op.lower(), self._group)]

    def _reduce(self) -> Any:
        own = self._own()
        return dist.reduce(own.tensor, self._root, self._op, **self._async), [own]

    def _reduce_scatter(self) -> Any:
        room, parts = self._room(), self._each(self._own)
        return dist.reduce_scatter(room.tensor, _tensors(parts), self._op, **self._async), [room]

    def _reduce_scatter_tensor(self) -> Any:
        room = self._room()
        parts = [values(self._step, self._place, part) for part in range(len(self._ranks))]
        whole = self._placed(torch.cat(parts) if self._step.shape else torch.stack(parts))
        return dist.reduce_scatter_tensor(room.tensor, whole.tensor, self._op, **self._async), [room]

    def _broadcast(self) -> Any:
        own = self._own()
        return dist.broadcast(own.tensor, self._root, **self._async), [own]

    def _all_gather(self) -> Any:
        own, rooms = self._own(), self._each(lambda place: self._room())
        return dist.all_gather(_tensors(rooms), own.tensor, **self._async), rooms

    def _all_gather_into_tensor(self) -> Any:
        own = self._own()
        room = self._placed(torch.zeros(len(self._ranks), *self._step.shape, dtype=own.tensor.dtype))
        return dist.all_gather_into_tensor(room.tensor, own.tensor, **self._async), [room]

    def _gather(self) -> Any:
        root = self._place == self._step.root
        own, rooms = self._own(), self._each(lambda place: self._room()) if root else []
        return dist.gather(own.tensor, _tensors(rooms) if root else None, self._root, **self._async), rooms

    def _scatter(self) -> Any:
        root = self._place == self._step.root
        room, parts = self._room(), self._each(self._own) if root else []
        return dist.scatter(room.tensor, _tensors(parts) if root else None, self._root, **self._async), [room]

    def _all_to_all(self) -> Any:
        rooms, parts = self._each(lambda place: self._room()), self._each(self._own)
        return dist.all_to_all(_tensors(rooms), _tensors(parts), **self._async), rooms

    def _all_to_all_single(self) -> Any:
        step, mine = self._step, self._step.splits[self._place]
        whole = torch.cat([values(step, self._place, part, rows) for part, rows in enumerate(mine)])
        come = [splits[self._place] for splits in step.splits]
        room, own = self._placed(whole.new_zeros(sum(come), *step.shape)), self._placed(whole)
        return dist.all_to_all_single(room.tensor, own.tensor, come, list(mine), **self._async), [room]

    def _send(self) -> Any:
        size, room = len(self._ranks), self._room()
        if size == 1:
            return None, []
        to, source = self._ranks[(self._place + 1) % size], self._ranks[(self._place - 1) % size]
        works = [dist.isend(self._own().tensor, to, self._group), dist.irecv(room.tensor, source, self._group)]
        return works, [room]

    def _batch_isend_irecv(self) -> Any:
        size, rooms = len(self._ranks), [self._room(), self._room()]
        if size == 1:
            return None, []
        after, before = self._ranks[(self._place + 1) % size], self._ranks[(self._place - 1) % size]
        calls = [(dist.isend, self._own().tensor, after), (dist.isend, self._own(1).tensor, before)]
        calls += [(dist.irecv, rooms[0].tensor, before), (dist.irecv, rooms[1].tensor, after)]
        return dist.batch_isend_irecv([dist.P2POp(*call, self._group) for call in calls]), rooms

    def _barrier(self) -> Any:
        return dist.barrier(**self._async), []

    def _all_gather_object(self) -> Any:
        found: list[Any] = [None] * len(self._ranks)
        dist.all_gather_object(found, values(self._step, self._place), self._group)
        return None, found

    def _broadcast_object_list(self) -> Any:
        found: list[Any] = [values(self._step, self._place)]
        dist.broadcast_object_list(found, self._root, self._group)
        return None, found


def _tensors(placed: list[Placed]) -> list[Tensor]:
    return [one.tensor for one in placed]
