"""The errors that scripts for Horovod catch."""

from __future__ import annotations

from enum import IntFlag


class HostUpdateResult(IntFlag):
    """What happened to the hosts of the job."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class HorovodInternalError(RuntimeError):
    """A collective failed, here and on the other ranks. `__cause__` is Paceline's own error."""


class HostsUpdatedInterrupt(RuntimeError):
    """Machines were added or will be removed; `skip_sync`: the ranks that stay hold the same state already."""

    def __init__(self, skip_sync: bool) -> None:
        super().__init__("the hosts of this job have changed")
        self.skip_sync = skip_sync
