"""Joins a rank to its job without a framework."""

from __future__ import annotations

from dataclasses import replace

from paceline.errors import ConfigurationError
from paceline.group.arguments import real, whole
from paceline.group.group import Group
from paceline.process.current import runtime
from paceline.rendezvous import OwnStore, open_store
from paceline.rendezvous.deadline import LAST_WORDS, Deadline
from paceline.settings.limits import Limits
from paceline.settings.settings import Settings


def init(rank: int | None = None, size: int | None = None, timeout: float | None = None) -> Group:
    """Join this process to its job; see `paceline.init`."""
    if (rank is None) != (size is None):
        raise ConfigurationError("give both rank and size, or neither")
    if rank is not None and size is not None and not 0 <= whole(rank, "rank") < whole(size, "size"):
        raise ConfigurationError(f"rank must be from 0 to size - 1, got rank {rank} of {size}")
    if timeout is not None and not real(timeout, "timeout") > 0:
        raise ConfigurationError(f"timeout must be more than 0 seconds, got {timeout}")
    settings = runtime().settings
    if rank is not None and size is not None:
        settings = replace(settings, rank=rank, size=size, local_size=None)
    deadline = Deadline(Limits.of(settings, timeout).meeting)
    return join(open_store(settings, deadline), settings, deadline, timeout)


def join(store: OwnStore, settings: Settings, deadline: Deadline, timeout: float | None = None) -> Group:
    """Join as `init` does until `deadline`, but through `store`, which is closed afterwards."""
    process = runtime()
    limits = Limits.of(settings, timeout)
    try:
        native = process.group(
            store, settings.rank, settings.size, limits.operation, meeting=deadline, place=store.place
        )
    finally:
        store.close(deadline.later(LAST_WORDS))
    return Group(process, native, limits.operation)
