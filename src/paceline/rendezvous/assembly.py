"""The exchanges of one meeting through a store, and the waits for other ranks in it.

Every rank writes under its own key, rank 0 collects what all have written and writes the list, and the others read the
list. No two ranks can see different lists.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from paceline.errors import NOBODY, Culprit, RendezvousError
from paceline.rendezvous import failure
from paceline.rendezvous.absent import NAMED, absent, looked_up
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.introduction import LIST, Agree, Introduction
from paceline.rendezvous.machine import is_dead
from paceline.rendezvous.member import LONGEST_RECORD, Member, objects
from paceline.rendezvous.records import Records
from paceline.rendezvous.reminder import Reminder
from paceline.rendezvous.store import LOST, LastingStore, TimedStore

log = logging.getLogger("paceline.rendezvous")

_FIRST_PAUSE = 0.0005
"""Seconds between the first two polls of a key."""
_LOOK = 0.1
"""Seconds between checks of a waiting rank whether another one gave up."""


class Assembly:
    """One meeting's use of `store`. A wait ends at `deadline`, or when another rank reports that it failed."""

    def __init__(
        self,
        store: TimedStore,
        rank: int,
        size: int,
        deadline: Deadline,
        stall: float | None = None,
        place: str = "",
        server: Culprit = NOBODY,
        look: Callable[[bool], None] = lambda late: None,
    ) -> None:
        """stall: the seconds of `Reminder`. place, server: where the store is, and which rank serves it, if known.

        look: raises RendezvousError once it is known that the ranks cannot meet; it takes whether it is too `late` now.
        """
        self.rank, self.size, self.deadline = rank, size, deadline
        self._meet_at = f"; they meet at {place}" if place else ""
        self._reminder = Reminder(stall)
        self._records, self._known = Records(store, deadline, server), look
        self._prefix = "paceline/"
        self._members: Sequence[Member] = ()
        self._gathered: list[str] = []  # where the lists of exchanges are
        self.failed_elsewhere = False
        """True if another rank gave up, and its reason was raised here."""
        # Seconds. Rank 0 answers all polls, so the more ranks there are, the less often each asks.
        self._longest_pause = max(0.02, 0.0002 * size)

    def introduce(self, me: Member, used: set[str], agree: Agree) -> tuple[list[Member], dict[str, Any]]:
        """Return every rank's record, in rank order, and what rank 0 decided with `agree` when it had them all.

        used: the tickets of earlier meetings, by which stale records are recognized. Tickets of a meeting that fails
        are added to it. Raises RendezvousError at the deadline, for a malformed record, and for rank 0's error.
        """
        answer = Introduction(self._records, me, used, self.deadline, self.wait, self._meet_at).run(agree)
        if "error" in answer:
            used.update(answer.get("tickets", []))
            raise failure.from_json(answer)
        members = [Member.from_json(value, rank) for rank, value in enumerate(objects(answer, "members"))]
        if len(members) != self.size:
            raise RendezvousError(f"this rank expects {self.size} ranks, rank 0 expects {len(members)}")
        self._members = members
        return members, answer

    def settle(self, name: str) -> None:
        """Put `name`, which no other meeting has, into all keys from now on."""
        self._prefix = f"paceline/{name}/"

    def gather(self, what: str, mine: dict[str, Any], deadline: Deadline | None = None) -> list[dict[str, Any]]:
        """Return a small JSON object from every rank, in rank order.

        what: the name of the exchange, in keys and messages. mine: this rank's object; before `introduce` it needs a
        "host". deadline: None for the meeting's. Raises RendezvousError at the deadline, or when another rank failed.
        """
        deadline = deadline or self.deadline
        key, everybody = f"{self._prefix}{what}/", f"{self._prefix}{what}"
        self._records.set(f"{key}{self.rank}", mine)
        if self.rank == 0:
            values = [mine]
            for rank in range(1, self.size):
                self._await_key(f"{key}{rank}", deadline, what)
                values.append(self._records.get(f"{key}{rank}", f"{what} of rank {rank}"))
            self._records.set(everybody, {"list": values})
            self._gathered.append(everybody)
            return values
        self._await_key(everybody, deadline, what)
        values = objects(self._records.get(everybody, what, LONGEST_RECORD * self.size), "list")
        if len(values) != self.size:
            raise RendezvousError(f"{what} in the store is malformed")
        self._gathered.append(everybody)
        return values

    def leave(self) -> None:
        """Take what this rank has written out of a store that lasts longer. All ranks have taken part in an exchange.

        Every rank has then read rank 0's list, and all lists but that of the last exchange, which the last one deletes.
        """
        store = self._records.store()
        if not self._gathered or not isinstance(store, LastingStore):
            return
        *read, last = self._gathered
        keys = [f"paceline/{self.rank}", *(f"{key}/{self.rank}" for key in self._gathered)]
        try:
            store.forget(keys if self.rank else [*keys, LIST, *read], f"{self._prefix}left", self.size, [last])
        except Exception as error:  # what stays there is in nobody's way
            log.debug("the store keeps what ranks have written to meet: %s", error)

    def _await_key(self, key: str, deadline: Deadline, what: str) -> None:
        self.wait(lambda: self._records.has(key), deadline, lambda within: self._late(what, within))

    def wait(self, ready: Callable[[], bool], deadline: Deadline, problem: Callable[[str], RendezvousError]) -> None:
        """Poll until `ready` returns True.

        problem: returns an error that says what is missing; it takes the text of the time limit, as " within 30 s".
        Raises that error at the deadline, or another rank's failure.
        """
        pause, next_look = _FIRST_PAUSE, Deadline(_LOOK)
        while not ready():
            if next_look.passed:
                self._look(ready)
                next_look = Deadline(_LOOK)
            if deadline.passed:
                self._known(True)
                raise problem(f" within {self.deadline.seconds:g} s")
            self._reminder.check(lambda: str(problem("")))
            time.sleep(min(pause, deadline.remaining()))
            pause = min(1.5 * pause, self._longest_pause)

    def fail(self, error: RendezvousError) -> None:
        """Report this rank's failure to the others, unless another rank reported one before."""
        if self._members and not self._records.has(f"{self._prefix}failed"):
            self._records.set(f"{self._prefix}failed", failure.to_json(error))

    def check_failure(self) -> None:
        """Check whether another rank failed.

        Raises RendezvousError if one reported a failure, died on this machine, or lost its connection to rank 0.
        """
        self._known(False)
        if not self._members:
            return
        key = f"{self._prefix}failed"
        if self._records.has(key):
            self.failed_elsewhere = True
            raise failure.from_json(self._records.get(key, "a failure"))
        me = self._members[self.rank]
        for member in self._members:
            if member.pids and (member.kernel, member.pids) == (me.kernel, me.pids) and is_dead(member.pid):
                raise RendezvousError(f"{member} died while the ranks met", member.culprit)
        if self.rank == 0 and self._records.has(LOST):
            lost = self._records.get(LOST, "who was lost").get("rank")
            who = next((member for member in self._members if member.rank == lost), None)
            raise RendezvousError(
                f"{who or 'a rank'} died, or lost its connection to rank 0, while the ranks met",
                who.culprit if who else NOBODY,
            )

    def _look(self, ready: Callable[[], bool]) -> None:
        try:
            self.check_failure()
        except RendezvousError:
            if not ready():  # a rank that is done may leave as soon as all can be done
                raise

    def _late(self, what: str, within: str) -> RendezvousError:
        """An error that names the ranks that have not written `what`, or before `introduce`, that have not joined."""
        keys = {rank: f"{self._prefix}{what}/{rank}" for rank in looked_up(self.rank, self.size)}
        written = {rank: key for rank, key in keys.items() if self._records.has(key)}
        if not self._members:
            hosts = {rank: str(self._records.get(key, what).get("host")) for rank, key in written.items()}
            return absent(hosts, self.rank, self.size, within, self._meet_at)
        late = [self._members[rank] for rank in keys if rank not in written]
        if not late:
            first = self._members[0]
            return RendezvousError(f"{first} has not passed on what the ranks wrote{within}", first.culprit)
        more = f" and {len(late) - NAMED} more" if len(late) > NAMED else ""
        return RendezvousError(
            f"{', '.join(map(str, late[:NAMED]))}{more} joined, but then said nothing{within}",
            late[0].culprit if len(late) == 1 else NOBODY,
        )
