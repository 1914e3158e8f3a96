"""State that survives a failure: committed, restored, and brought to all ranks.

A failure that leaves all ranks alive is recovered from here. Ranks are replaced, left out or added where
`paceline.horovod.run` started the job as an elastic one, see `paceline.horovod.driver`; under another launcher a lost
rank ends the job.
"""

from __future__ import annotations

import functools
import queue
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from paceline.errors import PeerLost
from paceline.horovod import job
from paceline.horovod.exceptions import HorovodInternalError, HostsUpdatedInterrupt, HostUpdateResult

T = TypeVar("T")


class State:
    """What a training function needs to go on after a failure. Subclasses save, restore and synchronise it.

    bcast_object: gives every rank rank 0's object. get_rank: this process's rank.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: queue.Queue[tuple[float, int]] = queue.Queue()
        self._last_updated_timestamp = 0.0
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Call these after each reset, for example to scale the learning rate with the number of ranks."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """The job was formed anew."""
        self._host_messages = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Somebody knows that machines come or go; the next `commit` of all ranks raises. Only rank 0's counts."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Save, then look for changes of the hosts. Between two commits a failure costs the work since the first."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raise HostsUpdatedInterrupt on all ranks if rank 0 was told that machines come or go."""
        worker = job.worker()
        if worker is not None and self._rank() == 0:
            change = worker.change()
            if change:
                self.on_hosts_updated(time.time(), change)
        before = latest = self._last_updated_timestamp
        changes = HostUpdateResult.no_update
        while not self._host_messages.empty():
            timestamp, change = self._host_messages.get()
            if timestamp > latest:
                latest = timestamp
                changes |= HostUpdateResult(change)
        before, self._last_updated_timestamp, what = self._bcast_object((before, latest, int(changes)))
        if self._last_updated_timestamp > before:
            raise HostsUpdatedInterrupt(what == HostUpdateResult.removed)

    def save(self) -> None:
        """Keep the present state in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Go back to what was saved last."""
        raise NotImplementedError

    def sync(self) -> None:
        """Give every rank rank 0's state."""
        raise NotImplementedError

    def reset(self) -> None:
        """Prepare for the new job, before `sync`."""


class ObjectState(State):
    """Plain objects, given by keyword and kept as attributes."""

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved_state = kwargs
        self._set_attrs()

    def save(self) -> None:
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}

    def restore(self) -> None:
        self._set_attrs()

    def sync(self) -> None:
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attrs()

    def _set_attrs(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, value)


def run_fn(func: Callable[..., T], reset: Callable[[], None]) -> Callable[..., T]:
    """`func(state, ...)`, called again with the last committed state when a collective fails, and with the present one
    when hosts changed.

    `reset` forms the job anew. Raises RuntimeError where that is impossible, because a rank is gone and no driver is
    there to go on without it.
    """

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> T:
        synchronise = True
        while True:
            try:
                if synchronise:
                    state.sync()
                    if worker := job.worker():
                        worker.synced()
                return func(state, *args, **kwargs)
            except HorovodInternalError as error:
                state.restore()
                if worker := job.worker():
                    worker.behind = True
                elif isinstance(error.__cause__, PeerLost):
                    raise RuntimeError(
                        f"{error}. The job cannot go on without it, and nothing in it starts that rank again: "
                        "python -m paceline.horovod.run --min-np N goes on with at least N ranks, and "
                        "torchrun --max-restarts N (also through paceline run) starts all ranks again, which go on "
                        "from what the script wrote to disk"
                    ) from error
                synchronise = True
            except HostsUpdatedInterrupt as interrupt:
                state.save()  # what is given to newcomers is what was saved last
                synchronise = not interrupt.skip_sync
            reset()
            if (worker := job.worker()) and worker.round:
                synchronise = worker.round.sync
            state.on_reset()

    return wrapper
