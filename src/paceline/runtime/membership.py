"""The members of a group and the handles by which this process reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.errors import refusal
from paceline.rendezvous import Member


@dataclass(frozen=True, slots=True)
class Membership:
    """The members of a group in rank order, and the engine's peer handles (-1: this process)."""

    rank: int
    members: tuple[Member, ...]
    handles: tuple[int, ...]

    @property
    def one_machine(self) -> bool:
        """True if all members share memory."""
        return len({member.machine for member in self.members}) == 1

    @property
    def machines(self) -> list[int]:
        """The machine of every member, by the lowest rank on it."""
        first: dict[str, int] = {}
        return [first.setdefault(member.machine, rank) for rank, member in enumerate(self.members)]

    def part(self, ranks: Sequence[int]) -> Membership:
        """The members with these ranks, in that order. CommunicationError unless this process is among them, once."""
        if self.rank not in ranks or len(set(ranks)) != len(ranks):
            raise refusal(f"rank {self.rank} is not one of the ranks {list(ranks)}, or one is there twice")
        return Membership(
            list(ranks).index(self.rank),
            tuple(self.members[rank] for rank in ranks),
            tuple(self.handles[rank] for rank in ranks),
        )
