"""Let ranks meet: they learn of each other through a store, then every pair that needs a link gets one.

There are three rounds through the store: the ranks' records, the addresses where they listen, and that all links are
made. Listeners open after all ranks have joined and close when the links are made, so a subgroup of ranks that are
already linked opens none.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.cpu.budget import CpuBudget
from paceline.errors import NOBODY, Culprit, RendezvousError
from paceline.rendezvous import interfaces
from paceline.rendezvous.assembly import Assembly
from paceline.rendezvous.bounded import Answers, BoundedStore
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.descriptors import explain, shortage
from paceline.rendezvous.handshake import PROTOCOL, new_ticket
from paceline.rendezvous.link import Link, Native, Pairing
from paceline.rendezvous.linking import link_all
from paceline.rendezvous.machine import Machine, pid_namespace
from paceline.rendezvous.member import Member, to_mask
from paceline.rendezvous.store import MemoryStore, Store, TimedStore
from paceline.rendezvous.store_server import SharedStore
from paceline.settings.settings import Settings

log = logging.getLogger("paceline.rendezvous")


@dataclass(frozen=True, slots=True)
class Process:
    """The facts about this process that stay the same in all its meetings.

    name: 16 random bytes in hexadecimal. version: of Paceline. network: about the topology file that this process was
    given; see Member.
    """

    name: str
    machine: Machine
    cpus: CpuBudget
    version: str
    network: str = ""


@dataclass(frozen=True, slots=True)
class Meeting:
    """The result of a meeting.

    channel: a random number from 0 to 2^63 - 1 that names the group. members: all ranks, in rank order. links: the new
    links, by rank.
    """

    channel: int
    members: tuple[Member, ...]
    links: dict[int, Link]

    def close(self) -> None:
        """Close the links that no engine has taken over."""
        for link in self.links.values():
            link.close()


def new_process_name() -> str:
    """Return 16 random bytes in hexadecimal."""
    return secrets.token_hex(16)


def meet(
    store: Store | None,
    rank: int,
    size: int,
    limit: Deadline | float,
    *,
    process: Process,
    settings: Settings,
    native: Native,
    arena: int,
    linked: Collection[str],
    used: set[str],
    check: Callable[[Sequence[Member]], None] = lambda members: None,
    place: str = "",
    server: Culprit = NOBODY,
    look: Callable[[], None] = lambda: None,
) -> Meeting:
    """Meet the other ranks through `store` (None: there are none), within `limit`, a deadline or seconds.

    arena: the descriptor of the memory that this process shares with its machine; the caller closes it. linked: the
    names of the processes to which a link exists. used: the tickets of earlier meetings, to which those of this one are
    added. check: raises RendezvousError for members that cannot work together; rank 0 runs it for all. place: where the
    store is, for messages. server: the rank that serves it, if one does. look: raises RendezvousError
    once it is known that the ranks cannot meet. The caller owns the sockets and memory in the result.
    Raises RendezvousError, with the same message on every rank where that is possible.
    """
    if not 0 <= rank < size:
        raise RendezvousError(f"rank {rank} is not one of {size} ranks")
    deadline, stall = Deadline.of(limit), settings.stall_seconds
    me = _introduction(rank, size, process, settings)

    def known(late: bool) -> None:
        look()
        if isinstance(store, SharedStore):
            store.check_doors(late, me)
        if late and rank == 0 and (lack := shortage()) is not None:  # whoever serves the store here tells nobody
            raise RendezvousError(f"{me}: cannot let the other ranks in: {explain(lack)}", me.culprit)

    if store is None or isinstance(store, TimedStore):
        assembly = Assembly(store or MemoryStore(), rank, size, deadline, stall, place, look=known)
        return _meet(assembly, me, settings, native, arena, linked, used, check)
    answers = Answers(place or "the store that the ranks meet through", stall, server)
    try:
        assembly = Assembly(BoundedStore(store, answers), rank, size, deadline, stall, place, server, known)
        return _meet(assembly, me, settings, native, arena, linked, used, check)
    finally:
        answers.close()


def _meet(
    assembly: Assembly,
    me: Member,
    settings: Settings,
    native: Native,
    arena: int,
    linked: Collection[str],
    used: set[str],
    check: Callable[[Sequence[Member]], None],
) -> Meeting:
    members, agreed = assembly.introduce(me, used, lambda members: _agree(members, settings, check))
    used.update(member.ticket for member in members)
    channel, key = _decided(agreed, settings)
    assembly.settle(f"{channel:016x}")
    pairing = Pairing(
        key=key,
        ticket=bytes.fromhex(me.ticket),
        ranks={bytes.fromhex(member.ticket): member.rank for member in members},
        native=native,
        arena=arena,
    )
    try:
        links = link_all(assembly, members, me, pairing, settings, linked)
    except RendezvousError as error:
        if assembly.failed_elsewhere:
            raise
        culprit = error.culprit if shortage() is None else me.culprit  # a rank that cannot call is not unreachable
        raise _told(assembly, RendezvousError(f"{me}: {error}", culprit)) from error
    except OSError as error:
        reason = f"{me}: cannot link with the others: {explain(error)}"
        raise _told(assembly, RendezvousError(reason, me.culprit)) from error
    except BaseException as error:
        _told(assembly, RendezvousError(f"{me}: {type(error).__name__}: {error}", me.culprit))
        raise
    assembly.leave()
    return Meeting(channel, tuple(members), links)


def _told(assembly: Assembly, error: RendezvousError) -> RendezvousError:
    """`error`, which the other ranks have been told of."""
    try:
        assembly.fail(error)
    except Exception as trouble:  # the store is lost, which the others notice by themselves
        log.debug("cannot tell the other ranks: %s", trouble)
    return error


def _introduction(rank: int, size: int, process: Process, settings: Settings) -> Member:
    address, certain, speed = _likely_address(settings, size) if size > 1 else ("", False, 0)
    return Member(
        rank=rank,
        size=size,
        process=process.name,
        ticket=new_ticket().hex(),
        host=process.machine.host,
        pid=os.getpid(),
        pids=pid_namespace(),
        uid=os.geteuid(),
        machine=process.machine.name,
        place=process.machine.place,
        cpus=to_mask(process.cpus.affinity),
        address=address,
        certain=certain,
        keyed=settings.secret is not None,
        protocol=PROTOCOL,
        version=process.version,
        network=process.network[:1000],
        algorithm=settings.algorithm or "",
        compress=settings.compress or "",
        speed=speed,
    )


def _likely_address(settings: Settings, size: int) -> tuple[str, bool, int]:
    """The address at which other machines probably reach this one, whether it is certain, and its bytes per second.

    It is only a hint, for their choice of an interface and for plans.
    """
    if settings.one_machine and size <= settings.size and settings.interface is None:
        return "", False, 0
    try:
        choice = interfaces.choose(interfaces.addresses(), settings.interface, settings.master_address, True)
    except RendezvousError:
        return "", False, 0  # it matters only if the ranks turn out to be on several machines
    return choice.address, choice.certain, round(interfaces.speed(choice.interface) or 0)


_ALIKE = (("network", "PACELINE_TOPOLOGY"), ("algorithm", "PACELINE_ALGORITHM"), ("compress", "PACELINE_COMPRESS"))
"""The fields of members that must be the same on all ranks, and the settings that they come from."""


def _agree(members: list[Member], settings: Settings, check: Callable[[Sequence[Member]], None]) -> dict[str, Any]:
    """Rank 0's decision once it has all records. Raises RendezvousError where they cannot work together."""
    sizes, versions = _by_value(members, "size"), _by_value(members, "version")
    if len(sizes) > 1:
        raise RendezvousError(f"the ranks disagree on how many they are: {_listed(sizes)}")
    if len(versions) > 1 or len(_by_value(members, "protocol")) > 1:
        raise RendezvousError(
            f"the ranks run different versions of paceline, install the same everywhere: {_listed(versions)}"
        )
    if len(_by_value(members, "keyed")) > 1:
        lacking = ", ".join(str(member.rank) for member in members if not member.keyed)
        raise RendezvousError(f"PACELINE_SECRET is set on some ranks, but not on {lacking}: set it on all or on none")
    for name in {member.machine for member in members}:
        here = [member for member in members if member.machine == name]
        if len({member.place for member in here}) > 1:
            hosts = ", ".join(map(str, here[:10]))
            raise RendezvousError(f"PACELINE_MACHINE={name} names different machines or network namespaces: {hosts}")
    for member in members:
        if member.network.startswith("!"):
            raise RendezvousError(f"PACELINE_TOPOLOGY on {member}: {member.network[1:]}", member.culprit)
    for field, setting in _ALIKE:
        values = _by_value(members, field)
        if len(values) > 1:
            raise RendezvousError(f"{setting} must mean the same on all ranks, but is {_listed(values)}")
    if len({member.process for member in members}) < len(members):
        raise RendezvousError("one process joined as several ranks: every rank needs its own process")
    check(members)
    return {"channel": secrets.randbits(63), "secret": "" if settings.secret else secrets.token_hex(32)}


def _by_value(members: list[Member], field: str) -> dict[Any, str]:
    """The different values of a field, and a text that lists the ranks that have each."""
    ranks: dict[Any, list[int]] = {}
    for member in members:
        ranks.setdefault(getattr(member, field), []).append(member.rank)
    return {
        value: ("rank " if len(who) == 1 else "ranks ") + ", ".join(map(str, who[:10])) for value, who in ranks.items()
    }


def _listed(values: dict[Any, str]) -> str:
    """The result of `_by_value` as a text, in which digests are cut short."""
    return "; ".join(f"{str(value)[:12] or 'not set'} on {who}" for value, who in values.items())


def _decided(agreed: dict[str, Any], settings: Settings) -> tuple[int, bytes]:
    channel, secret = agreed.get("channel"), agreed.get("secret")
    if type(channel) is not int or not 0 <= channel < 1 << 63 or not isinstance(secret, str):
        raise RendezvousError("the list of ranks in the store is malformed")
    if settings.secret is not None:
        return channel, settings.secret
    try:
        key = bytes.fromhex(secret)
    except ValueError:
        key = b""
    if len(key) < 16:
        raise RendezvousError("rank 0 published no secret", Culprit(0))
    return channel, key
