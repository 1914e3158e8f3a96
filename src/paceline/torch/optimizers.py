"""Tells the runtime of every step of a torch optimizer, which is what users call a training step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from paceline.process.current import running

_counted = ContextVar("_counted", default=True)


@cache
def follow_optimizers() -> None:
    """Tell the runtime of this process from now on when an optimizer steps. May be called any number of times.

    Steps that torch.compile has compiled are not seen, because the clock has no place in their graphs.
    """
    under_way: set[int] = set()  # a user's class may call the step of its base class, which has hooks, too

    def begins(optimizer: torch.optim.Optimizer, *_: object) -> None:
        if not torch.compiler.is_compiling() and _counted.get():
            under_way.add(id(optimizer))

    def ends(optimizer: torch.optim.Optimizer, *_: object) -> None:
        if torch.compiler.is_compiling() or id(optimizer) not in under_way:
            return
        under_way.discard(id(optimizer))
        process = running()
        if process is not None:
            process.annotations.steps.add(optimizer, time.monotonic_ns())

    register_optimizer_step_pre_hook(begins)
    register_optimizer_step_post_hook(ends)


@contextmanager
def uncounted() -> Iterator[None]:
    """Optimizers that step in this context are tried out; these are no training steps."""
    token = _counted.set(False)
    try:
        yield
    finally:
        _counted.reset(token)
