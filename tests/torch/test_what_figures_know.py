"""What torch's face tells of a job: when its optimizers step, and when its callers wait for futures."""

from __future__ import annotations

import threading
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch_ranks import Ranks

from paceline.process.current import runtime

LATE = 0.2
"""Seconds for which one rank computes longer than the other."""


class Derived(torch.optim.SGD):
    """As users write one: torch puts hooks around both its step and that of its base."""

    def step(self, closure: Any = None) -> None:
        super().step(closure)


class Late(torch.autograd.Function):
    """Its backward pass takes `seconds`."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor, seconds: float) -> torch.Tensor:
        context.seconds = seconds
        return value.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        threading.Event().wait(context.seconds)
        return gradient, None


def steps() -> float:
    monitor = runtime().monitor
    assert monitor is not None
    return float(monitor.figures().steps)


def exposed_seconds() -> float:
    monitor = runtime().monitor
    assert monitor is not None
    return monitor.figures().exposed_ns / 1e9


def check_steps(rank: int, size: int) -> None:
    weights = [torch.nn.Parameter(torch.ones(4)) for _ in range(3)]
    dist.all_reduce(torch.ones(4))
    before = runtime().annotations.steps.count

    def gradients() -> None:
        for weight in weights:
            weight.grad = torch.ones(4)

    one = torch.optim.SGD(weights, 0.1)
    one.step()  # torch puts its hooks around a class with its first object
    derived = Derived(weights, 0.1)
    for _ in range(5):
        gradients()
        derived.step()
        one.step()
    assert runtime().annotations.steps.count - before == 6
    del derived, one
    each = [torch.optim.Adam([weight]) for weight in weights]
    for _ in range(5):
        gradients()
        for optimizer in each:
            optimizer.step()
    assert runtime().annotations.steps.count - before == 11


def test_optimizers_tell_when_they_step(ranks: Ranks) -> None:
    ranks(check_steps, 1)


def check_compiled(rank: int, size: int) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(4))], 0.1)
    optimizer.param_groups[0]["params"][0].grad = torch.ones(4)
    torch.compile(optimizer.step, backend="eager")()
    assert (optimizer.param_groups[0]["params"][0] == 0.9).all()


def test_a_step_may_be_compiled(ranks: Ranks) -> None:
    ranks(check_compiled, 1)


def check_ddp(rank: int, size: int) -> None:
    """The last gradient of one rank comes late: the other one waits for its futures, and it for nobody."""
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    for late in range(size):
        dist.barrier()
        before = exposed_seconds()
        value = Late.apply(torch.ones(1, 8, requires_grad=True), 0.0 if rank != late else LATE)  # type: ignore[no-untyped-call]
        Late.apply(model(value), 0.0 if rank != late else LATE).sum().backward()  # type: ignore[no-untyped-call]
        waited = exposed_seconds() - before
        assert (waited > LATE / 2) == (rank != late), waited


def test_ddp_waits_for_futures_and_that_is_exposed(ranks: Ranks) -> None:
    ranks(check_ddp, 2)


def check_future(rank: int, size: int) -> None:
    before = exposed_seconds()
    if rank == 1:
        threading.Event().wait(LATE)
    work: Any = dist.all_reduce(torch.ones(4), async_op=True)
    assert (work.get_future().then(lambda done: done.value()[0]).wait() == size).all()
    if rank == 0:
        assert exposed_seconds() - before > LATE / 2


def test_a_future_that_is_waited_for_is_exposed(ranks: Ranks) -> None:
    ranks(check_future, 2)
