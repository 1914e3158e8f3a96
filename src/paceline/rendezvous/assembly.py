"""Exchange records among all ranks through a store, so that all of them see the same list.

Every rank writes under its own key, rank 0 collects the records and writes the list, and the others read the list.
No two ranks can see different lists. A store can outlive a group, and torchrun's outlives the processes that it
restarts, so what a rank finds under a fixed key may be from an earlier meeting. A record counts only if it answers the
present ticket of rank 0, whose record its writer has read, and a list only if it contains the reader's own ticket.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from paceline.errors import NOBODY, Culprit, RendezvousError
from paceline.rendezvous import failure
from paceline.rendezvous.absent import NAMED, absent
from paceline.rendezvous.deadline import LAST_WORDS, Deadline
from paceline.rendezvous.machine import is_dead
from paceline.rendezvous.member import LONGEST_RECORD, Member, decode, objects
from paceline.rendezvous.reminder import Reminder
from paceline.rendezvous.store import LOST, LastingStore, Store, TimedStore

log = logging.getLogger("paceline.rendezvous")

_FIRST_PAUSE = 0.0005
"""Seconds between the first two polls of a key."""
_LOOK = 0.1
"""Seconds between checks of a waiting rank whether another one gave up."""
_LOOKED_UP = 64
"""The most ranks of a job in which each rank looks up for itself which ranks are there."""


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
        self._store, self._server, self._known = store, server, look
        self._prefix = "paceline/"
        self._members: Sequence[Member] = ()
        self._lost: RendezvousError | None = None  # what was wrong with the store
        self._present = ""  # rank 0's ticket in this meeting, "" before it is known
        self._gathered: list[str] = []  # where the lists of exchanges are
        self.failed_elsewhere = False
        """True if another rank gave up, and its reason was raised here."""
        # Seconds. Rank 0 answers all polls, so the more ranks there are, the less often each asks.
        self._longest_pause = max(0.02, 0.0002 * size)

    def introduce(
        self, me: Member, used: set[str], agree: Callable[[list[Member]], dict[str, Any]]
    ) -> tuple[list[Member], dict[str, Any]]:
        """Return every rank's record, in rank order, and what rank 0 decided with `agree` when it had them all.

        used: the tickets of earlier meetings, by which stale records are recognized. Tickets of a meeting that fails
        are added to it. Raises RendezvousError at the deadline, for a malformed record, and for rank 0's error.
        """
        everybody = f"{self._prefix}all"
        if self.rank == 0:
            self._present = me.ticket
            self._write(me)
            answer = self._preside(me, used, agree)
            self._set(everybody, answer)
        else:
            answer = self._await_list(everybody, me, used)
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
        self._set(f"{key}{self.rank}", mine)
        if self.rank == 0:
            values = [mine]
            for rank in range(1, self.size):
                self._await_key(f"{key}{rank}", deadline, what)
                values.append(self._get(f"{key}{rank}", f"{what} of rank {rank}"))
            self._set(everybody, {"list": values})
            self._gathered.append(everybody)
            return values
        self._await_key(everybody, deadline, what)
        values = objects(self._get(everybody, what, LONGEST_RECORD * self.size), "list")
        if len(values) != self.size:
            raise RendezvousError(f"{what} in the store is malformed")
        self._gathered.append(everybody)
        return values

    def leave(self) -> None:
        """Take what this rank has written out of a store that lasts longer. All ranks have taken part in an exchange.

        Every rank has then read rank 0's list, and all lists but that of the last exchange, which the last one deletes.
        """
        store = self._requests()
        if not self._gathered or not isinstance(store, LastingStore):
            return
        *read, last = self._gathered
        keys = [f"paceline/{self.rank}", *(f"{key}/{self.rank}" for key in self._gathered)]
        try:
            store.forget(
                keys if self.rank else [*keys, "paceline/all", *read], f"{self._prefix}left", self.size, [last]
            )
        except Exception as error:  # what stays there is in nobody's way
            log.debug("the store keeps what ranks have written to meet: %s", error)

    def _await_key(self, key: str, deadline: Deadline, what: str) -> None:
        self.wait(lambda: self._has(key), deadline, lambda within: self._late(what, within))

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
        if self._members and not self._has(f"{self._prefix}failed"):
            self._set(f"{self._prefix}failed", failure.to_json(error))

    def check_failure(self) -> None:
        """Check whether another rank failed.

        Raises RendezvousError if one reported a failure, died on this machine, or lost its connection to rank 0.
        """
        self._known(False)
        if not self._members:
            return
        key = f"{self._prefix}failed"
        if self._has(key):
            self.failed_elsewhere = True
            raise failure.from_json(self._get(key, "a failure"))
        me = self._members[self.rank]
        for member in self._members:
            if member.pids and (member.kernel, member.pids) == (me.kernel, me.pids) and is_dead(member.pid):
                raise RendezvousError(f"{member} died while the ranks met", member.culprit)
        if self.rank == 0 and self._has(LOST):
            lost = self._get(LOST, "who was lost").get("rank")
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

    def _preside(self, me: Member, used: set[str], agree: Callable[[list[Member]], dict[str, Any]]) -> dict[str, Any]:
        try:
            members = [me] + [self._await_member(rank, me, used) for rank in range(1, self.size)]
            return {**agree(members), "members": [member.to_json() for member in members]}
        except RendezvousError as error:
            return {**failure.to_json(error), "tickets": [member.ticket for member in self._joined(me, used)]}

    def _await_member(self, rank: int, me: Member, used: set[str]) -> Member:
        found: list[Member] = []

        def ready() -> bool:
            member, answers = self._peek(rank)
            if member is not None and answers == me.ticket:
                found.append(member)
            return bool(found)

        self.wait(ready, self.deadline, lambda within: self._missing(me, used, within))
        return found[0]

    def _write(self, me: Member) -> None:
        self._set(f"paceline/{self.rank}", {**me.to_json(), "answers": self._present})

    def _peek(self, rank: int) -> tuple[Member | None, str]:
        """Return a rank's record, None without one, and the ticket of rank 0 that it answers."""
        key = f"paceline/{rank}"
        if not self._has(key):
            return None, ""
        record = self._get(key, f"the record of rank {rank}")
        # Other versions of this package answer nobody; they are told that versions differ.
        return Member.from_json(record, rank), str(record.get("answers", self._present))

    def _look_for_rank_0(self, me: Member, used: set[str]) -> None:
        """Answer rank 0's ticket once there is a new one."""
        try:
            first, _ = self._peek(0)
        except RendezvousError:
            if self._lost is not None:
                raise
            return  # a malformed one, which rank 0 overwrites
        if first is not None and first.ticket not in used and first.ticket != self._present:
            self._present = first.ticket
            self._write(me)

    def _await_list(self, key: str, me: Member, used: set[str]) -> dict[str, Any]:
        answers: list[dict[str, Any]] = []
        self._write(me)
        next_look = Deadline(0.0)

        def ready() -> bool:
            nonlocal next_look
            if not self._present or next_look.passed:
                self._look_for_rank_0(me, used)
                next_look = Deadline(_LOOK)
            if not self._present or not self._has(key):
                return False
            answer = self._get(key, "the list of ranks", LONGEST_RECORD * (self.size + 1))
            tickets = answer.get("tickets") or [value.get("ticket") for value in objects(answer, "members")]
            if me.ticket in tickets:
                answers.append(answer)
            return bool(answers)

        # Rank 0's own deadline may end a moment later, and its answer is the better one.
        self.wait(ready, self.deadline.later(LAST_WORDS), lambda within: self._missing(me, used, within))
        return answers[0]

    def _joined(self, me: Member, used: set[str]) -> list[Member]:
        joined = []
        for rank in self._looked_up():
            try:
                member, answers = (me, "") if rank == self.rank else self._peek(rank)
            except RendezvousError:
                if self._lost is not None:
                    raise
                continue
            # Who has come does not answer rank 0 before rank 0 has come, too.
            fresh = answers == self._present or (self.rank != 0 and answers in ("", member.ticket if member else ""))
            if member is not None and member.ticket not in used and (rank == self.rank or fresh):
                joined.append(member)
        return joined

    def _looked_up(self) -> Sequence[int]:
        """The ranks whose records this rank reads for a message: few in large jobs, as rank 0 answers all reads."""
        return range(self.size) if self.rank == 0 or self.size <= _LOOKED_UP else (0, self.rank)

    def _missing(self, me: Member, used: set[str], within: str) -> RendezvousError:
        return self._who_is_here({member.rank: member.host for member in self._joined(me, used)}, within)

    def _late(self, what: str, within: str) -> RendezvousError:
        """An error that names the ranks that have not written `what`, or before `introduce`, that have not joined."""
        keys = {rank: f"{self._prefix}{what}/{rank}" for rank in self._looked_up()}
        written = {rank: key for rank, key in keys.items() if self._has(key)}
        if not self._members:
            hosts = {rank: str(self._get(key, what).get("host")) for rank, key in written.items()}
            return self._who_is_here(hosts, within)
        late = [self._members[rank] for rank in keys if rank not in written]
        if not late:
            first = self._members[0]
            return RendezvousError(f"{first} has not passed on what the ranks wrote{within}", first.culprit)
        more = f" and {len(late) - NAMED} more" if len(late) > NAMED else ""
        return RendezvousError(
            f"{', '.join(map(str, late[:NAMED]))}{more} joined, but then said nothing{within}",
            late[0].culprit if len(late) == 1 else NOBODY,
        )

    def _who_is_here(self, hosts: dict[int, str], within: str) -> RendezvousError:
        knows_all = len(self._looked_up()) == self.size
        return absent(hosts, self.size, knows_all, within, self._meet_at)

    def _has(self, key: str) -> bool:
        with self._asking():
            return self._requests().check([key])

    def _get(self, key: str, what: str, longest: int = LONGEST_RECORD) -> dict[str, Any]:
        with self._asking():
            data = self._requests().get(key)
        return decode(data, longest, what)

    def _set(self, key: str, value: dict[str, Any]) -> None:
        with self._asking():
            self._requests().set(key, json.dumps(value).encode())

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Raise what goes wrong with the store as a RendezvousError, and remember it."""
        try:
            yield
        except RendezvousError as error:
            self._lost = error
            raise
        except Exception as error:
            self._lost = RendezvousError(f"the store that the ranks meet through failed: {error}", self._server)
            raise self._lost from error

    def _requests(self) -> Store:
        """The store, whose requests end with the meeting."""
        return self._store.within(self.deadline.later(LAST_WORDS))
