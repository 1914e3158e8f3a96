"""Link every pair of ranks that has no link yet: the higher rank calls, the lower one listens."""

from __future__ import annotations

import socket
import threading
from collections.abc import Collection, Sequence
from typing import Any

from paceline.errors import NOBODY, RendezvousError
from paceline.rendezvous import interfaces
from paceline.rendezvous.acceptor import STUCK, Acceptor
from paceline.rendezvous.assembly import Assembly
from paceline.rendezvous.conversation import Conversation
from paceline.rendezvous.deadline import LAST_WORDS
from paceline.rendezvous.dial import Endpoint, TcpAddress, UnixName, reach
from paceline.rendezvous.link import Link, Pairing, answer_rank, call_rank
from paceline.rendezvous.listener import listen_tcp, listen_unix
from paceline.rendezvous.member import Member
from paceline.rendezvous.reminder import Reminder
from paceline.settings.settings import Settings

_LOOK = 0.1
"""Seconds between checks whether another rank failed."""
_REFUSAL = 2.0
"""Seconds of refused connections, in which the failure of a rank whose listener is gone is reported."""
_AGREEMENT = 2.0
"""Seconds after the deadline in which ranks that made all links still learn of one that did not."""


class Arrivals:
    """Links that other ranks made to this one. The acceptor's thread adds them, the calling thread waits for them."""

    def __init__(self) -> None:
        self._links: dict[int, Link] = {}
        self._changed = threading.Condition()

    def add(self, link: Link, sock: socket.socket) -> None:
        """Add the link whose socket is `sock`.

        A rank that calls again lost its first connection before it knew that it was linked, so the last link counts.
        """
        with self._changed:
            if link.rank in self._links:
                self._links[link.rank].close()
            self._links[link.rank] = link
            self._changed.notify_all()

    def wait_for(self, ranks: set[int], seconds: float) -> bool:
        """Return whether links from all `ranks` arrived within this time."""
        with self._changed:
            return self._changed.wait_for(lambda: ranks <= self._links.keys(), seconds)

    def missing(self, ranks: set[int]) -> list[int]:
        """Return those of `ranks` whose links have not arrived, ascending."""
        with self._changed:
            return sorted(ranks - self._links.keys())

    def take(self) -> dict[int, Link]:
        """Return the links by rank, which the caller then owns. Call it once no more links are added."""
        with self._changed:
            links, self._links = self._links, {}
            return links


def link_all(
    assembly: Assembly,
    members: Sequence[Member],
    me: Member,
    pairing: Pairing,
    settings: Settings,
    linked: Collection[str],
) -> dict[int, Link]:
    """Make the links that are missing, and return them by rank. This is a collective: every member calls it.

    linked: the names of the processes to which this one has a link already. All listeners are closed when it returns or
    raises. Raises RendezvousError if a rank cannot be reached, does not call, or reports a failure.
    """
    strangers = [m for m in members if m.rank != me.rank and m.process not in linked]
    callers = [m for m in strangers if m.rank > me.rank]
    if any(m.machine == me.machine for m in strangers):
        pairing.native.allow_reads()
    arrivals, links = Arrivals(), dict[int, Link]()
    doors, place = _open_doors(members, me, callers, settings)
    acceptor = Acceptor(doors, lambda sock: answer_rank(sock, pairing), arrivals.add)
    try:
        if doors:
            acceptor.start()
        places = assembly.gather("doors", {**place, "links": len(strangers)})
        if not any(entry.get("links") for entry in places):
            return {}
        for member in reversed(strangers):
            if member.rank < me.rank:
                links[member.rank] = _call(assembly, member, me, pairing, places[member.rank], settings)
        _await_callers(assembly, acceptor, arrivals, callers, me, place, Reminder(settings.stall_seconds))
        # Until all have their links, a rank may have lost its connection before it knew that it was linked. It then
        # calls again, so the listeners stay open.
        assembly.gather("links", {}, assembly.deadline.later(_AGREEMENT))
        acceptor.close()
        return links | arrivals.take()
    except BaseException:
        acceptor.close()
        for link in (*links.values(), *arrivals.take().values()):
            link.close()
        raise
    finally:
        acceptor.close()


def _open_doors(
    members: Sequence[Member], me: Member, callers: Sequence[Member], settings: Settings
) -> tuple[list[socket.socket], dict[str, Any]]:
    """The listeners that these callers need, and their addresses for the other ranks."""
    doors: list[socket.socket] = []
    place: dict[str, Any] = {}
    try:
        if any(m.machine == me.machine for m in callers):
            name = f"paceline-{me.ticket}"
            doors.append(listen_unix(UnixName(name)))
            place["unix"] = name
        if any(m.machine != me.machine for m in callers):
            choice = _choose_address(members, me, settings)
            interfaces.report(choice, str(me))
            door, address = listen_tcp(choice.address, settings.ports)
            doors.append(door)
            place["tcp"] = [address.host, address.port]
    except OSError as error:
        _close(doors)
        raise RendezvousError(f"cannot listen for the other ranks: {error}", me.culprit) from None
    except RendezvousError as error:
        _close(doors)
        raise RendezvousError(str(error), me.culprit) from None
    except BaseException:
        _close(doors)
        raise
    return doors, place


def _close(doors: Sequence[socket.socket]) -> None:
    for door in doors:
        door.close()


def _choose_address(members: Sequence[Member], me: Member, settings: Settings) -> interfaces.Choice:
    """The address from which packets leave for the master, or for a rank elsewhere on the master's own machine."""
    elsewhere = [m for m in members if m.place != me.place]
    candidates = interfaces.addresses()
    if not elsewhere:
        return interfaces.choose(candidates, settings.interface, None, several_machines=False)
    first = interfaces.choose(candidates, settings.interface, settings.master_address, several_machines=True)
    known = sorted((m for m in elsewhere if m.address), key=lambda m: (not m.certain, m.rank))
    if first.certain or not known:
        return first
    return interfaces.choose(candidates, settings.interface, known[0].address, several_machines=True)


def _call(
    assembly: Assembly,
    member: Member,
    me: Member,
    pairing: Pairing,
    place: dict[str, Any],
    settings: Settings,
) -> Link:
    def conversation(sock: socket.socket) -> Conversation[Link]:
        return call_rank(sock, pairing, bytes.fromhex(member.ticket))

    link, _ = reach(
        [_endpoint(member, me, place)],
        conversation,
        assembly.deadline,
        who=str(member),
        culprit=member.culprit,
        check=assembly.check_failure,
        refusal=_REFUSAL,
        reminder=Reminder(settings.stall_seconds),
    )
    return link


def _endpoint(member: Member, me: Member, place: dict[str, Any]) -> Endpoint:
    kind = "unix" if member.machine == me.machine else "tcp"
    match place.get(kind):
        case str(name) if kind == "unix" and name == f"paceline-{member.ticket}":
            return UnixName(name)
        case [str(host), int(port)] if kind == "tcp" and 0 < port < 65536:
            return TcpAddress(host, port)
    raise RendezvousError(
        f"{member} does not listen for {me}: it holds a link that was lost here in an earlier failure; restart the job",
        member.culprit,
    )


def _await_callers(
    assembly: Assembly,
    acceptor: Acceptor[Link],
    arrivals: Arrivals,
    callers: Sequence[Member],
    me: Member,
    place: dict[str, Any],
    reminder: Reminder,
) -> None:
    ranks = {member.rank for member in callers}
    doors = [TcpAddress(*where) if kind == "tcp" else UnixName(where) for kind, where in place.items()]

    def problem(within: str = "") -> RendezvousError:
        missing = arrivals.missing(ranks)
        late = [member for member in callers if member.rank in missing]
        who = ", ".join(map(str, late[:10]))
        return RendezvousError(
            f"no connection{within} from {who} to {' and '.join(map(str, doors))}",
            late[0].culprit if len(late) == 1 else NOBODY,
        )

    # A rank that calls in vain gives up at the deadline and reports the reason, which says more than a missing caller.
    deadline = assembly.deadline.later(LAST_WORDS)
    while not arrivals.wait_for(ranks, min(_LOOK, deadline.remaining())):
        assembly.check_failure()
        acceptor.check(0.0 if deadline.passed else STUCK, me.culprit)
        if deadline.passed:
            raise problem(f" within {assembly.deadline.seconds:g} s")
        reminder.check(lambda: str(problem()))
