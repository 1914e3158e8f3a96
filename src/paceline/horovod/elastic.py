"""State that survives a failure: it can be committed, restored and synchronised across ranks.

This module alone recovers from a failure that leaves all ranks alive. Ranks are replaced, removed or added only in jobs
that `paceline.horovod.run` started as elastic ones, see `paceline.horovod.driver`; under another launcher a lost rank
ends the job.
"""

from __future__ import annotations

import copy
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
    """The state that a training function needs to continue after a failure. Subclasses save, restore and synchronise
    it.

    bcast_object: a collective that returns rank 0's object on every rank. get_rank: returns this process's rank.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: queue.Queue[tuple[float, int]] = queue.Queue()
        self._last_updated_timestamp = 0.0
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Call these functions after each reset, for example to scale the learning rate with the number of ranks."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Reset this object and call the reset callbacks, after the job has been formed again."""
        self._host_messages = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Note that hosts were added or removed; the next `commit` raises on all ranks. Only rank 0's notes count.

        timestamp: seconds since the epoch. update_res: a value of HostUpdateResult.
        """
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Save the state, then check for changes of the hosts. A failure costs the work since the last commit.

        Raises HostsUpdatedInterrupt on all ranks if hosts were added or removed.
        """
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raise HostsUpdatedInterrupt on all ranks if rank 0 knows that hosts were added or removed. Collective."""
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
        """Restore the state that was saved last."""
        raise NotImplementedError

    def sync(self) -> None:
        """Give every rank the state of rank 0. Collective."""
        raise NotImplementedError

    def reset(self) -> None:
        """Prepare for the new job; called before `sync`."""


class ObjectState(State):
    """Plain objects, passed as keyword arguments and kept as attributes.

    What is saved is a copy: a later change of an object in place does not change it.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved_state = kwargs
        self._set_attrs(kwargs)
        self._saved_state = self._copied(kwargs)

    def save(self) -> None:
        """Keep the present values of the attributes."""
        self._saved_state = self._copied({name: getattr(self, name) for name in self._saved_state})

    def restore(self) -> None:
        """Set the attributes to the values saved last."""
        self._set_attrs(self._copied(self._saved_state))

    def sync(self) -> None:
        """Set the attributes on every rank to the values saved on rank 0. Collective."""
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attrs(self._copied(self._saved_state))

    def _copied(self, values: dict[str, Any]) -> dict[str, Any]:
        return copy.deepcopy(values)

    def _set_attrs(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)


def run_fn(func: Callable[..., T], reset: Callable[[], None]) -> Callable[..., T]:
    """Wrap `func(state, ...)` so that it is called again after a failed collective, from the last commit, and after a
    change of the hosts, from the present state.

    reset: forms the job again.

    The wrapper raises RuntimeError if the job cannot be formed again, because a rank is lost and no driver can continue
    without it.
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
                        f"{error}. The job cannot continue without it, and nothing in it starts that rank again: "
                        "python -m paceline.horovod.run --min-np N continues with at least N ranks, and "
                        "torchrun --max-restarts N (also through paceline run) starts all ranks again, which continue "
                        "from what the script wrote to disk"
                    ) from error
                synchronise = True
            except HostsUpdatedInterrupt as interrupt:
                state.save()  # new ranks receive the state that was saved last
                synchronise = not interrupt.skip_sync
            reset()
            if (worker := job.worker()) and worker.round:
                synchronise = worker.round.sync
            state.on_reset()

    return wrapper
