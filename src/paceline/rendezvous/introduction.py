"""The introduction of ranks to each other, through a store: who takes part in their meeting.

Every rank writes its record under its own key, rank 0 collects the records and writes the list, and the others read the
list. A store can outlive a group, and torchrun's outlives the processes that it restarts, so what a rank finds under a
fixed key may be from an earlier meeting. A record counts only if it answers the present ticket of rank 0, whose record
its writer has read, and a list only if it contains the reader's own ticket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.errors import RendezvousError
from paceline.rendezvous import failure
from paceline.rendezvous.absent import absent, looked_up
from paceline.rendezvous.deadline import LAST_WORDS, Deadline
from paceline.rendezvous.member import LONGEST_RECORD, Member, objects
from paceline.rendezvous.records import Records

_LOOK = 0.1
"""Seconds between looks of a waiting rank for a new record of rank 0."""
LIST = "paceline/all"
"""The key of the list."""

Agree = Callable[[list[Member]], dict[str, Any]]
Wait = Callable[[Callable[[], bool], Deadline, Callable[[str], RendezvousError]], None]
"""Polls until the first argument returns True, as `Assembly.wait` does."""


class Introduction:
    """One rank's part in the introduction; `me` is its record.

    used: the tickets of earlier meetings, by which stale records are recognized. meet_at: where the ranks meet, for
    messages.
    """

    def __init__(
        self, records: Records, me: Member, used: set[str], deadline: Deadline, wait: Wait, meet_at: str
    ) -> None:
        self._records, self._me, self._used = records, me, used
        self._deadline, self._wait, self._meet_at = deadline, wait, meet_at
        self._present = ""  # rank 0's ticket in this meeting, "" before it is known

    def run(self, agree: Agree) -> dict[str, Any]:
        """Return the list of records and what rank 0 decided with `agree`, as a JSON object, or rank 0's error."""
        if self._me.rank:
            return self._await_list()
        self._present = self._me.ticket
        self._write()
        answer = self._preside(agree)
        self._records.set(LIST, answer)
        return answer

    def _preside(self, agree: Agree) -> dict[str, Any]:
        try:
            members = [self._me] + [self._await_member(rank) for rank in range(1, self._me.size)]
            return {**agree(members), "members": [member.to_json() for member in members]}
        except RendezvousError as error:
            return {**failure.to_json(error), "tickets": [member.ticket for member in self._joined()]}

    def _await_member(self, rank: int) -> Member:
        found: list[Member] = []

        def ready() -> bool:
            member, answers = self._peek(rank)
            if member is not None and answers == self._me.ticket:
                found.append(member)
            return bool(found)

        self._wait(ready, self._deadline, self._missing)
        return found[0]

    def _await_list(self) -> dict[str, Any]:
        answers: list[dict[str, Any]] = []
        self._write()
        next_look = Deadline(0.0)

        def ready() -> bool:
            nonlocal next_look
            if not self._present or next_look.passed:
                self._look_for_rank_0()
                next_look = Deadline(_LOOK)
            if not self._present or not self._records.has(LIST):
                return False
            answer = self._records.get(LIST, "the list of ranks", LONGEST_RECORD * (self._me.size + 1))
            tickets = answer.get("tickets") or [value.get("ticket") for value in objects(answer, "members")]
            if self._me.ticket in tickets:
                answers.append(answer)
            return bool(answers)

        # Rank 0's own deadline may end a moment later, and its answer is the better one.
        self._wait(ready, self._deadline.later(LAST_WORDS), self._missing)
        return answers[0]

    def _look_for_rank_0(self) -> None:
        """Answer rank 0's ticket once there is a new one."""
        try:
            first, _ = self._peek(0)
        except RendezvousError:
            if self._records.lost is not None:
                raise
            return  # a malformed one, which rank 0 overwrites
        if first is not None and first.ticket not in self._used and first.ticket != self._present:
            self._present = first.ticket
            self._write()

    def _write(self) -> None:
        self._records.set(f"paceline/{self._me.rank}", {**self._me.to_json(), "answers": self._present})

    def _peek(self, rank: int) -> tuple[Member | None, str]:
        """Return a rank's record, None without one, and the ticket of rank 0 that it answers."""
        key = f"paceline/{rank}"
        if not self._records.has(key):
            return None, ""
        record = self._records.get(key, f"the record of rank {rank}")
        # Other versions of this package answer nobody; they are told that versions differ.
        return Member.from_json(record, rank), str(record.get("answers", self._present))

    def _joined(self) -> list[Member]:
        me, joined = self._me, []
        for rank in looked_up(me.rank, me.size):
            try:
                member, answers = (me, "") if rank == me.rank else self._peek(rank)
            except RendezvousError:
                if self._records.lost is not None:
                    raise
                continue
            # Who has come does not answer rank 0 before rank 0 has come, too.
            fresh = answers == self._present or (me.rank != 0 and answers in ("", member.ticket if member else ""))
            if member is not None and member.ticket not in self._used and (rank == me.rank or fresh):
                joined.append(member)
        return joined

    def _missing(self, within: str) -> RendezvousError:
        hosts = {member.rank: member.host for member in self._joined()}
        return absent(hosts, self._me.rank, self._me.size, within, self._meet_at)
