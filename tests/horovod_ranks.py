"""Ranks between hvd.init() and hvd.shutdown()."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jobs import TORCH
from worker_pool import Around, WorkerPools


@contextmanager
def in_job(rank: int, size: int, *, machines: str, init: bool) -> Iterator[None]:
    os.environ["RANK"] = str(rank)
    if machines:
        os.environ["PACELINE_MACHINE"] = f"machine-{machines[rank]}"
    else:
        os.environ.update(LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size))
    from paceline.horovod import basics

    if init:
        basics.init()
    yield
    basics.shutdown()


class Ranks:
    """`ranks(function, size)` calls `function(rank, size)` on each of `size` processes of one job.

    machines: a letter for each rank, "001" for two ranks on one machine and one on another. preload, around: see
    WorkerPools.
    """

    def __init__(self, preload: Sequence[str] = TORCH, around: Around = in_job) -> None:
        self._pools = WorkerPools(around, preload)
        self._doors: dict[Any, socket.socket] = {}

    def __call__(
        self,
        function: Callable[..., Any],
        size: int = 2,
        *,
        deadline: float = 250,
        machines: str = "",
        environment: dict[str, str] | None = None,
        fresh: bool = False,
        init: bool = True,
        **arguments: Any,
    ) -> list[Any]:
        wishes = {"PACELINE_TIMEOUT": "30", **(environment or {})}
        key = (size, machines, tuple(sorted(wishes.items())))
        if key not in self._doors:
            # Bound and kept, but not listening: nobody else is given this port, and rank 0 can still listen on it.
            self._doors[key] = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._doors[key].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._doors[key].bind(("127.0.0.1", 0))
        port = self._doors[key].getsockname()[1]
        job = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        return self._pools.run(
            function,
            size,
            arguments,
            deadline=deadline,
            context={"machines": machines, "init": init},
            environment={**wishes, **job},
            fresh=fresh,
        )

    def close(self) -> None:
        self._pools.close()
        for door in self._doors.values():
            door.close()
