"""Makes the store through which the ranks of a process group meet by `env://`, torch's default, and by `tcp://`.

torch's own handler of `env://` knows only RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and raises if one of them is
missing. The handler here also understands the variables of mpirun, mpiexec and srun.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

import torch.distributed as dist

from paceline.errors import ConfigurationError
from paceline.host_name import host_name
from paceline.rendezvous.dial import TcpAddress
from paceline.settings.settings import Settings
from paceline.torch.name import NAME


class Handler(Protocol):
    """A rendezvous handler of torch's: it yields the store, this rank, and the number of ranks."""

    def __call__(self, url: str, *, timeout: timedelta, **others: object) -> Iterator[tuple[dist.Store, int, int]]:
        """Return the store as soon as there is one, within `timeout`."""
        ...


def extend() -> None:
    """Put the handlers of this module before torch's own. Does nothing if they are there, or if torch has changed."""
    module = importlib.import_module("torch.distributed.rendezvous")  # torch.distributed hides it behind a function
    handlers: dict[str, Handler] = getattr(module, "_rendezvous_handlers", {})
    for scheme in ("env", "tcp"):
        known = handlers.get(scheme)
        if known is not None and getattr(known, "func", None) is not _handler:
            handlers[scheme] = partial(_handler, known)


def _handler(
    torchs: Handler, url: str, timeout: timedelta = dist.default_pg_timeout, **others: object
) -> Iterator[tuple[dist.Store, int, int]]:
    ours = _ours()
    by_launcher = None if url.startswith("tcp:") or "rank=" in url else _told_otherwise()
    if by_launcher is not None:
        yield _store(by_launcher, _seconds(by_launcher, timeout, ours)), by_launcher.rank, by_launcher.size
        return
    if not ours:
        yield from torchs(url, timeout=timeout, **others)
        return
    settings = Settings.from_environment()
    seconds = _seconds(settings, timeout, ours)
    known = None if settings.master_port_taken else _known(url, settings)
    if known is None:
        keeps = settings.master_port_taken and settings.rank_variable == "RANK" and "?" not in url
        yield from _bounded(torchs(url, timeout=timedelta(seconds=seconds), **others), seconds, settings, keeps)
        return
    from paceline.torch.first_store import store_at

    place, rank, size = known
    yield store_at(place, rank, size, seconds, settings.stall_seconds), rank, size


def _bounded(
    found: Iterator[tuple[dist.Store, int, int]], seconds: float, settings: Settings, keeps: bool
) -> Iterator[tuple[dist.Store, int, int]]:
    """Pass on what torch's own handler yields, unless the server of the store is silent for longer than that.

    keeps: whether the store outlives groups, and is that of all groups of this process.
    """
    from paceline.rendezvous.bounded import answered
    from paceline.rendezvous.deadline import LAST_WORDS, Deadline

    host, port = settings.master_address, settings.master_port
    who = f"torch's store, {TcpAddress(host, port)}," if host and port else "torch's store"
    if keeps:
        from paceline.torch.agent_store import first_or_kept

        yield first_or_kept(found, seconds, settings, who)
        return
    yield answered(partial(next, found), Deadline(seconds).later(LAST_WORDS), who, settings.stall_seconds)
    yield from found


def _ours() -> bool:
    """Return whether the call of `init_process_group` is for this backend; torch does not tell its handlers."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "init_process_group":
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and NAME in str(frame.f_locals.get("backend"))


def _seconds(settings: Settings, timeout: timedelta, ours: bool) -> float:
    if not ours:
        return timeout.total_seconds()
    from paceline.torch.timeouts import limits

    return limits(settings, timeout).meeting


def _told_otherwise() -> Settings | None:
    """The settings of a launcher that is not torch's; None if there is none, or if torch should complain about it."""
    try:
        settings = Settings.from_environment()
    except ConfigurationError:
        return None
    return None if settings.rank_variable in (None, "RANK") else settings


def _known(url: str, settings: Settings) -> tuple[TcpAddress, int, int] | None:
    """The address of the store, this rank, and the number of ranks; None if torch should complain."""
    parts = urlsplit(url)
    asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
    host, port = settings.master_address, settings.master_port
    if parts.scheme == "tcp":
        host, port = parts.hostname, parts.port
    told = settings.rank_variable == "RANK"
    try:
        rank = int(asked["rank"]) if "rank" in asked or not told else settings.rank
        size = int(asked["world_size"]) if "world_size" in asked or not told else settings.size
    except (KeyError, ValueError):
        return None
    return (TcpAddress(host, port), rank, size) if host and port and 0 <= rank < size else None


def _store(settings: Settings, seconds: float) -> dist.Store:
    rank, size, host = settings.rank, settings.size, settings.master_address
    if host is not None and settings.master_port is not None:
        from paceline.torch.first_store import store_at

        return store_at(TcpAddress(host, settings.master_port), rank, size, seconds, settings.stall_seconds)
    from paceline.errors import Culprit
    from paceline.rendezvous import open_store
    from paceline.rendezvous.assembly import Assembly
    from paceline.rendezvous.bounded import answered
    from paceline.rendezvous.deadline import LAST_WORDS, Deadline
    from paceline.rendezvous.listener import listen_tcp
    from paceline.rendezvous.store_server import bind_addresses
    from paceline.torch.store_server import of_rank_0

    deadline, timeout = Deadline(seconds), timedelta(seconds=seconds)
    board = open_store(settings, deadline)  # raises if nothing says where rank 0 is
    store: dist.TCPStore | None = None
    place: dict[str, str | int] = {"host": host_name()}
    try:
        if rank == 0:
            door, at = listen_tcp(bind_addresses(host or "127.0.0.1", settings)[0], settings.ports)
            place |= {"address": at.host, "port": at.port}
            listening = door.detach()
            store = dist.TCPStore(
                at.host, at.port, size, True, timeout, wait_for_workers=False, master_listen_fd=listening
            )
        assembly = Assembly(board, rank, size, deadline, settings.stall_seconds, board.place)
        first = assembly.gather("torch", place)[0]
        address = TcpAddress(str(first["address"]), int(first["port"]))
        make = partial(dist.TCPStore, address.host, address.port, size, False, timeout, wait_for_workers=False)
        last = deadline.later(LAST_WORDS)
        stall = settings.stall_seconds
        return of_rank_0(store or answered(make, last, f"torch's store, {address},", stall, Culprit(0)))
    finally:
        board.close(deadline.later(LAST_WORDS))
