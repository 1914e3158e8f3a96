"""`env://`, torch's default way to meet, where the launcher says in its own words who a rank is: mpirun, mpiexec, srun.

torch's own handler knows RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT only, and raises when one of them is missing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import torch.distributed as dist

from paceline.errors import ConfigurationError
from paceline.settings.settings import Settings

Handler = Callable[..., Iterator[tuple[dist.Store, int, int]]]


def extend() -> None:
    """Let `env://` understand these launchers too. Does nothing where it does, or where torch has changed."""
    module = importlib.import_module("torch.distributed.rendezvous")  # torch.distributed hides it behind a function
    handlers: dict[str, Handler] = getattr(module, "_rendezvous_handlers", {})
    known = handlers.get("env")
    if known is not None and getattr(known, "func", None) is not _handler:
        handlers["env"] = partial(_handler, known)


def _handler(
    torchs: Handler, url: str, timeout: timedelta = dist.default_pg_timeout, **others: Any
) -> Iterator[tuple[dist.Store, int, int]]:
    settings = None if "rank=" in url else _told_otherwise()
    if settings is None:
        yield from torchs(url, timeout=timeout, **others)
    else:
        yield _store(settings, timeout), settings.rank, settings.size


def _told_otherwise() -> Settings | None:
    """What another launcher than torch's says; None where it says nothing, or what torch should complain about."""
    try:
        settings = Settings.from_environment()
    except ConfigurationError:
        return None
    return None if settings.rank_variable in (None, "RANK") else settings


def _store(settings: Settings, timeout: timedelta) -> dist.Store:
    rank, size, host = settings.rank, settings.size, settings.master_address
    if host is not None and settings.master_port is not None:
        return dist.TCPStore(host, settings.master_port, size, rank == 0, timeout, multi_tenant=True)
    from paceline.rendezvous import open_store
    from paceline.rendezvous.assembly import Assembly
    from paceline.rendezvous.deadline import Deadline
    from paceline.rendezvous.listener import listen_tcp
    from paceline.rendezvous.store_server import bind_addresses

    deadline = Deadline(timeout.total_seconds())
    board = open_store(settings, deadline.seconds)  # raises where nothing says where rank 0 is
    store: dist.Store | None = None
    place: dict[str, Any] = {}
    try:
        if rank == 0:
            door, at = listen_tcp(bind_addresses(host or "127.0.0.1", settings)[0], settings.ports)
            place = {"host": at.host, "port": at.port}
            listening = door.detach()
            store = dist.TCPStore(
                at.host, at.port, size, True, timeout, wait_for_workers=False, master_listen_fd=listening
            )
        place = Assembly(board, rank, size, deadline, settings.stall_seconds).gather("torch", place)[0]
        return store or dist.TCPStore(place["host"], int(place["port"]), size, False, timeout, wait_for_workers=False)
    finally:
        board.close(deadline)
