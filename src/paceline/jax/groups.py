"""The groups whose collectives compiled programs may call. A program names a group by its channel."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING

import jax

from paceline.jax.execution import Executor

if TYPE_CHECKING:
    from paceline.group.group import Group

_executors: dict[int, Executor] = {}
_default: list[Group] = []


def init(rank: int | None = None, size: int | None = None, timeout: float | None = None) -> Group:
    """Join this process to its job as `paceline.init` does; functions of `paceline.jax` use this group by default.

    Raises what `paceline.init` raises.
    """
    from paceline.process.init import init as join_job  # which takes a while to import

    group = join_job(rank, size, timeout)
    _default[:] = [group]
    # Programs that are still under way end before the runtime is closed, which also happens at exit, in reverse order.
    atexit.unregister(_finish)
    atexit.register(_finish)
    return group


def joined() -> bool:
    """Return whether `init` was called."""
    return bool(_default)


def use(group: Group | None) -> Group:
    """Return this group, or the one of `init` for None; programs may call its collectives from now on.

    Raises RuntimeError if there is none.
    """
    if group is None:
        if not joined():
            raise RuntimeError("this process has joined no job: call paceline.jax.init() first, or name a group")
        group = _default[0]
    known = _executors.get(group.channel)
    if known is None or known.group is not group:
        _executors[group.channel] = Executor(group)
    return group


def executor(channel: int) -> Executor:
    """Return what carries out the collectives of a group.

    Raises RuntimeError if this process does not have it, as for a program that another process has compiled.
    """
    try:
        return _executors[channel]
    except KeyError:
        raise RuntimeError(f"this process has no group {channel}, with which the program was compiled") from None


def _finish() -> None:
    try:
        jax.effects_barrier()
    except Exception:  # whoever waited for the program that failed was told
        return
