"""Calls that take as long as they like, such as those of torch's stores, each awaited until a deadline only."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar, runtime_checkable

from paceline.errors import NOBODY, Culprit, RendezvousError
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.reminder import Reminder
from paceline.rendezvous.store import Store

T = TypeVar("T")

_LINGERING = 3.0
"""Seconds that the end of the process waits for a call that was given up: to return from torch while the interpreter
ends aborts the process. Torch's own limits are mostly over a moment after ours."""
_SLICE = 0.5
"""Seconds between two looks whether a warning is due."""


class Answers:
    """A thread that makes calls one after another.

    who: whom the calls are to, for messages. stall: see `Reminder`. server: the rank that answers, if one does.
    Once a call was not answered in time, its thread is given up and every further call fails at once.
    """

    def __init__(self, who: str, stall: float | None, server: Culprit = NOBODY) -> None:
        self._who, self._stall, self._server = who, stall, server
        self._calls: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[tuple[bool, Any]]] | None] = SimpleQueue()
        self._silent: RendezvousError | None = None
        self._unanswered = False
        self._thread = threading.Thread(target=_answer, args=(self._calls,), name="paceline-store", daemon=True)
        self._thread.start()

    def await_(self, call: Callable[[], T], deadline: Deadline) -> T:
        """Return what `call` returns, or raise what it raises; RendezvousError if it does neither until `deadline`."""
        if self._silent is not None:
            raise self._silent
        answer: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        self._unanswered = True
        self._calls.put((call, answer))
        reminder = Reminder(self._stall)
        while True:
            try:
                good, value = answer.get(timeout=min(_SLICE, deadline.remaining()))
                break
            except Empty:
                if deadline.passed:
                    atexit.register(self._thread.join, _LINGERING)
                    self._silent = RendezvousError(
                        f"{self._who} does not answer within {deadline.seconds:g} s; did the process that serves it "
                        "stop, or a firewall between it and this machine begin to drop packets?",
                        self._server,
                    )
                    raise self._silent from None
                reminder.check(lambda: f"{self._who} does not answer")
        self._unanswered = False
        if not good:
            raise value
        result: T = value
        return result

    def close(self) -> None:
        """End the thread, at once unless a call of its own is not over yet."""
        self._calls.put(None)
        if not self._unanswered:
            self._thread.join()


def _answer(calls: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[tuple[bool, Any]]] | None]) -> None:
    while (asked := calls.get()) is not None:
        call, answer = asked
        try:
            answer.put((True, call()))
        except BaseException as error:
            answer.put((False, error))


def answered(call: Callable[[], T], deadline: Deadline, who: str, stall: float | None, server: Culprit = NOBODY) -> T:
    """Return what one call returns, awaited as by `Answers`."""
    answers = Answers(who, stall, server)
    try:
        return answers.await_(call, deadline)
    finally:
        answers.close()


@runtime_checkable
class TorchStore(Store, Protocol):
    """A store that can do what torch's can."""

    def add(self, key: str, amount: int, /) -> int:
        """Add to the number under a key, from 0, and return it."""
        ...

    def delete_key(self, key: str, /) -> bool:
        """Delete a key, and return whether it was there."""
        ...


class BoundedStore:
    """A store that knows no deadlines, with requests that do."""

    def __init__(self, store: Store, answers: Answers) -> None:
        self._store, self._answers = store, answers
        self._deadline = Deadline(0.0)

    def within(self, deadline: Deadline) -> Store:
        """Return this store; its requests end at `deadline` from now on."""
        self._deadline = deadline
        return self

    def set(self, key: str, value: bytes) -> object:
        """Store a value under a key. Raises RendezvousError at the deadline, or what the store raises."""
        return self._answers.await_(partial(self._store.set, key, value), self._deadline)

    def get(self, key: str) -> bytes:
        """Return the value of a key. Raises RendezvousError at the deadline, or what the store raises."""
        return self._answers.await_(partial(self._store.get, key), self._deadline)

    def check(self, keys: list[str]) -> bool:
        """Return whether all keys are there. Raises RendezvousError at the deadline, or what the store raises."""
        return self._answers.await_(partial(self._store.check, keys), self._deadline)

    def forget(self, keys: Sequence[str], count: str, ranks: int, shared: Sequence[str]) -> None:
        """Delete these keys, and the shared ones once all ranks have come here, where the store can delete.

        Raises RendezvousError at the deadline, or what the store raises.
        """
        if isinstance(self._store, TorchStore):
            self._answers.await_(partial(_forget, self._store, keys, count, ranks, shared), self._deadline)


def _forget(store: TorchStore, keys: Sequence[str], count: str, ranks: int, shared: Sequence[str]) -> None:
    for key in keys:
        store.delete_key(key)
    if store.add(count, 1) == ranks:
        for key in (*shared, count):
            store.delete_key(key)
