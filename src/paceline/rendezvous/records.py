"""JSON objects that ranks write for each other into the store that they meet through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paceline.errors import Culprit, RendezvousError
from paceline.rendezvous.deadline import LAST_WORDS, Deadline
from paceline.rendezvous.member import LONGEST_RECORD, decode
from paceline.rendezvous.store import Store, TimedStore


class Records:
    """The objects in `store`, by key. Requests end with the meeting, whose end is `deadline`.

    server: the rank that serves the store, which is to blame for a store that fails. All methods raise RendezvousError.
    """

    def __init__(self, store: TimedStore, deadline: Deadline, server: Culprit) -> None:
        self._store, self._deadline, self._server = store, deadline, server
        self.lost: RendezvousError | None = None
        """The last fault of the store; None while there is none."""

    def has(self, key: str) -> bool:
        """Return whether there is an object under this key, without waiting for it."""
        with self._asking():
            return self.store().check([key])

    def get(self, key: str, what: str, longest: int = LONGEST_RECORD) -> dict[str, Any]:
        """Return the object of a key that `has` found. `what` names it in errors, it has `longest` bytes at most."""
        with self._asking():
            data = self.store().get(key)
        return decode(data, longest, what)

    def set(self, key: str, value: dict[str, Any]) -> None:
        """Write an object, in place of an earlier one."""
        with self._asking():
            self.store().set(key, json.dumps(value).encode())

    def store(self) -> Store:
        """Return the store, whose requests end with the meeting."""
        return self._store.within(self._deadline.later(LAST_WORDS))

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Raise what goes wrong with the store as a RendezvousError, and remember it."""
        try:
            yield
        except RendezvousError as error:
            self.lost = error
            raise
        except Exception as error:
            self.lost = RendezvousError(f"the store that the ranks meet through failed: {error}", self._server)
            raise self.lost from error
