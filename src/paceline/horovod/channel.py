"""One process set as a member sees it: its coordinator, and which names are under way."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from paceline.errors import CommunicationError
from paceline.horovod.exceptions import HorovodInternalError

if TYPE_CHECKING:
    from paceline.coordinate import Coordinator, Request
    from paceline.horovod.adasum_exchange import Course

Started = TypeVar("Started", "Request", "Request | Course")


class Seen:
    """How many calls, on any process set, this program knows to be over: it waited for them, or asked."""

    def __init__(self) -> None:
        self.calls = 0


class Channel:
    """Hands named requests to the coordinator of one process set. Thread-safe.

    ranks: the members, by their ranks in the job. seen: the job's.
    """

    def __init__(self, coordinator: Coordinator, ranks: Sequence[int], seen: Seen) -> None:
        self.coordinator = coordinator
        self.ranks = tuple(ranks)
        self.rank = coordinator.rank
        self.size = coordinator.size
        self._seen = seen
        self._under_way: dict[str, tuple[Request | Course, int]] = {}  # with what had been seen when it began
        self._unnamed: Counter[str] = Counter()
        self._round = 0
        self._lock = threading.Lock()

    def name(self, kind: str, given: str | None) -> str:
        """The request's name. Nameless ones of one kind are told apart by their order, which all ranks must share."""
        if given is not None:
            return f"{kind}.{given}"
        with self._lock:
            self._unnamed[kind] += 1
            return f"{kind}.noname.{self._round}.{self._unnamed[kind]}"

    def names(self, kind: str, given: str | None, count: int) -> list[str]:
        """The names of `count` requests of one call."""
        base = self.name(f"grouped_{kind}", given)
        return [f"{base}_{number}of{count}" for number in range(1, count + 1)]

    def next_round(self) -> None:
        """All ranks have joined: those that had less to do may have counted less, so everybody counts anew."""
        with self._lock:
            self._round += 1
            self._unnamed.clear()

    def root(self, rank: int) -> int:
        """The place among the members of a rank of the job. ValueError if it is none of them."""
        if rank not in self.ranks:
            raise ValueError(f"root rank {rank} is not one of the ranks {list(self.ranks)} of this process set")
        return self.ranks.index(rank)

    def start(self, names: Sequence[str], start: Callable[[], Iterable[Started]]) -> list[Started]:
        """Hand in one request per name by `start`.

        Raises ValueError, before any is, if one of the names is under way: its request is not over, or the program
        cannot know that it is, as it has waited for nothing since. HorovodInternalError if an earlier failure left the
        job unusable.
        """
        with self._lock:
            for name in names:
                if name in self._under_way and not self._over(*self._under_way[name]):
                    raise ValueError(
                        f"{name} is still under way: a tensor with the same name as another that is currently being "
                        "processed needs a name of its own, until the other was waited for"
                    )
            try:
                requests = list(start())
            except CommunicationError as error:
                raise HorovodInternalError(str(error)) from error
            self._under_way.update(
                (name, (request, self._seen.calls)) for name, request in zip(names, requests, strict=True)
            )
            return requests

    def forget(self, names: Iterable[str], requests: Iterable[Request | Course]) -> None:
        """The program knows that the call that these make up is over."""
        self._seen.calls += 1
        with self._lock:
            for name, request in zip(names, requests, strict=False):  # a join has no name
                if name in self._under_way and self._under_way[name][0] is request:
                    del self._under_way[name]

    def _over(self, request: Request | Course, seen: int) -> bool:
        # Where the program has seen nothing end since, it is over only if this rank happened to be the last.
        return request.done() and self._seen.calls > seen
