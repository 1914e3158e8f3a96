"""A process set as one of its members sees it: its coordinator and the names in flight."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from paceline.errors import CommunicationError
from paceline.horovod.exceptions import HorovodInternalError

if TYPE_CHECKING:
    from paceline.coordinate import Coordinator, Request
    from paceline.horovod.adasum_exchange import Course

_LONGEST_REASON = 300  # characters

Started = TypeVar("Started", "Request", "Request | Course")


class CompletedCalls:
    """Counts the calls that this program knows to have ended because it waited for them or polled them."""

    def __init__(self) -> None:
        self.calls = 0


class Channel:
    """Submits named requests to the coordinator of one process set. Thread-safe.

    ranks: the members, by their ranks in the job. completed: the job's counter of calls that have ended.
    """

    def __init__(self, coordinator: Coordinator, ranks: Sequence[int], completed: CompletedCalls) -> None:
        self.coordinator = coordinator
        self.ranks = tuple(ranks)
        self.rank = coordinator.rank
        self.size = coordinator.size
        self._completed = completed
        # With `completed.calls` when it started, and what has its memory.
        self._in_flight: dict[str, tuple[Request | Course, int, object]] = {}
        self._refused: dict[str, Request] = {}
        self._unnamed: Counter[str] = Counter()
        self._round = 0
        self._lock = threading.Lock()

    def name(self, kind: str, given: str | None) -> str:
        """Return the request's name.

        Unnamed requests of one kind are numbered; all ranks must make them in the same order.
        """
        if given is not None:
            return f"{kind}.{given}"
        with self._lock:
            self._unnamed[kind] += 1
            return f"{kind}.noname.{self._round}.{self._unnamed[kind]}"

    def names(self, kind: str, given: str | None, count: int) -> list[str]:
        """Return the names of the `count` requests of one grouped call."""
        base = self.name(f"grouped_{kind}", given)
        return [f"{base}_{number}of{count}" for number in range(1, count + 1)]

    def next_round(self) -> None:
        """Restart the numbering of unnamed requests after all ranks have joined.

        Ranks that had less data have counted fewer requests, so all ranks count from the start again.
        """
        with self._lock:
            self._round += 1
            self._unnamed.clear()

    def root(self, rank: int) -> int:
        """Return the index among the members of a rank of the job. Raises ValueError if that rank is not a member."""
        if rank not in self.ranks:
            raise ValueError(f"root rank {rank} is not one of the ranks {list(self.ranks)} of this process set")
        return self.ranks.index(rank)

    def start(
        self,
        names: Sequence[str],
        start: Callable[[Coordinator], Iterable[Started]],
        begin: Callable[[], object] = lambda: None,
    ) -> list[Started]:
        """Submit one request per name by calling `start`, and return the requests.

        start: submits them to the coordinator that it is given, and changes nothing else; it has all memory that they
        use, and is kept until they are over, whatever becomes of the call. Where there are several it is called before
        with the coordinator's `trial`, so that all are submitted or none. begin: is called once that is clear.

        Raises ValueError, before anything is submitted, if a request is not valid or one of the names is in flight. A
        name is in flight while its request is not done, and also while the program cannot know that it is done, because
        it has waited for nothing since. Raises HorovodInternalError if an earlier failure left the job unusable.
        """
        if self._refused:
            self._settle(names)
        try:
            return self._submit(names, start, begin)
        except CommunicationError as error:
            raise HorovodInternalError(str(error)) from error
        except Exception as error:
            self.refuse(names, error)
            raise

    def _submit(
        self,
        names: Sequence[str],
        start: Callable[[Coordinator], Iterable[Started]],
        begin: Callable[[], object],
    ) -> list[Started]:
        with self._lock:
            for name in names:
                if name in self._in_flight and not self._over(*self._in_flight[name][:2]):
                    raise ValueError(
                        f"{name} is still under way: a tensor with the same name as another that is currently being "
                        "processed needs a name of its own, until the other was waited for"
                    )
            requests: list[Started] = []
            if len(names) > 1:
                for _ in start(self.coordinator.trial):
                    pass
            begin()
            for name, request in zip(names, start(self.coordinator), strict=True):
                self._in_flight[name] = request, self._completed.calls, start
                requests.append(request)
            return requests

    def refuse(self, names: Iterable[str], error: Exception) -> None:
        """Tell the other ranks, which may wait for requests of these names, that the call raised here."""
        if isinstance(error, (CommunicationError, HorovodInternalError)):
            return
        names = list(names)
        self._settle(names)
        why = f"it raised {type(error).__name__}: {error}"[:_LONGEST_REASON]
        with self._lock, suppress(CommunicationError, ValueError):
            self._refused = {name: request for name, request in self._refused.items() if not request.done()}
            for name in names:
                if name not in self._in_flight or self._over(*self._in_flight[name][:2]):
                    self._refused[name] = self.coordinator.refuse(name, why)

    def _settle(self, names: Sequence[str]) -> None:
        """Wait until all ranks know that calls of these names have raised here."""
        with self._lock:
            refused = [self._refused.pop(name) for name in names if name in self._refused]
        for request in refused:
            with suppress(CommunicationError):
                request.wait()

    def join(self) -> Request:
        """Announce that this rank has no more calls; the request is done when all ranks have joined.

        Waits for calls that go on by further requests, which cannot be submitted afterwards. Raises
        HorovodInternalError if an earlier failure left the job unusable.
        """
        from paceline.horovod.adasum_exchange import Course

        with self._lock:
            calls = [request for request, *_ in self._in_flight.values() if isinstance(request, Course)]
        for call in calls:
            with suppress(Exception):  # whoever waits for the call is told
                call.wait()
        try:
            return self.coordinator.join()
        except CommunicationError as error:
            raise HorovodInternalError(str(error)) from error

    def forget(self, names: Iterable[str], requests: Iterable[Request | Course]) -> None:
        """Note that the program knows that the call made of these requests has ended."""
        self._completed.calls += 1
        with self._lock:
            for name, request in zip(names, requests, strict=False):  # a join has no name
                if name in self._in_flight and self._in_flight[name][0] is request:
                    del self._in_flight[name]

    def _over(self, request: Request | Course, completed: int) -> bool:
        # If the program has seen no call end since, the request is done only because this rank happened to be the last.
        return request.done() and self._completed.calls > completed


def bundle_of(names: Sequence[str]) -> tuple[int, int] | None:
    """Return the bundle of the requests of one grouped call: an id that is the same on all ranks and never 0, and their
    number.

    A single request needs none.
    """
    if len(names) < 2:
        return None
    return int.from_bytes(hashlib.blake2b(names[0].encode(), digest_size=8).digest(), "big") | 1, len(names)
