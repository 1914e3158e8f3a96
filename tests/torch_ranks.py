"""Ranks in a process group of torch.distributed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from worker_pool import START, WorkerPools

__all__ = ["START", "Ranks"]


MACHINES = "MACHINES_OF_RANKS"
"""The variable with the machine of each rank."""


class Ranks:
    """`ranks(function, size)` calls `function(rank, size)` on each of `size` processes in one process group.

    It returns what the ranks returned, in order, or raises with the traceback of the rank that failed first.
    placed: the machine of each rank, a letter: "001" for two ranks on one machine and one on another.
    """

    def __init__(self) -> None:
        self._store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self._pools = WorkerPools(in_process_group)
        self._jobs = itertools.count()

    def __call__(
        self,
        function: Callable[..., Any],
        size: int = 2,
        *,
        deadline: float = 250,
        timeout: float = 30.0,
        backend: str = "paceline",
        environment: dict[str, str] | None = None,
        fresh: bool = False,
        placed: str = "",
        **arguments: Any,
    ) -> list[Any]:
        context = {"number": next(self._jobs), "port": self._store.port, "backend": backend, "timeout": timeout}
        if placed:  # processes of their own: a process stays on its machine
            environment = {"PACELINE_SECRET": "of this test alone", **(environment or {}), MACHINES: placed}
        return self._pools.run(
            function,
            size,
            arguments,
            deadline=deadline,
            context=context,
            environment=environment or {},
            fresh=fresh,
        )

    def close(self) -> None:
        self._pools.close()


_servers: dict[int, dist.TCPStore] = {}


@contextmanager
def in_process_group(rank: int, size: int, *, number: int, port: int, backend: str, timeout: float) -> Iterator[None]:
    """The world of one call. A group that a failed call leaves behind ends with its process."""
    if machines := os.environ.get(MACHINES):
        os.environ["PACELINE_MACHINE"] = f"machine-{machines[rank]}"
    if port not in _servers:
        dist.set_debug_level_from_env()
        _servers[port] = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
    dist.init_process_group(
        backend,
        store=dist.PrefixStore(f"job{number}", _servers[port]),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=timeout),
    )
    yield
    if dist.is_initialized():
        dist.destroy_process_group()
