"""The errors that scripts written for Horovod catch."""

from __future__ import annotations

from enum import IntFlag


class HostUpdateResult(IntFlag):
    """How the hosts of the job changed."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class HorovodInternalError(RuntimeError):
    """A collective failed on this rank and on the others. `__cause__` is Paceline's own error."""


class HostsUpdatedInterrupt(RuntimeError):
    """Hosts were added or will be removed. skip_sync: the ranks that stay already hold the same state."""

    def __init__(self, skip_sync: bool) -> None:
        super().__init__("the hosts of this job have changed")
        self.skip_sync = skip_sync
