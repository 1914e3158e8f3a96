"""The errors that scripts written for Horovod catch."""

from __future__ import annotations

from enum import IntFlag


class HostUpdateResult(IntFlag):
    """A change of the job's hosts."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class HorovodInternalError(RuntimeError):
    """A collective failed on this rank and on the others. `__cause__` is Paceline's own error.

    Its fields are those of the cause; each is None if nobody knows it.
    """

    rank: int | None
    host: str | None
    pid: int | None
    operation: str | None
    tensor: str | None
    group: tuple[int, ...] | None

    def __getattr__(self, name: str) -> object:
        if name in HorovodInternalError.__annotations__:
            return getattr(self.__cause__, name, None)
        raise AttributeError(f"HorovodInternalError has no attribute {name!r}")


class HostsUpdatedInterrupt(RuntimeError):
    """Hosts were added or will be removed. skip_sync: the ranks that stay already hold the same state."""

    def __init__(self, skip_sync: bool) -> None:
        super().__init__("the hosts of this job have changed")
        self.skip_sync = skip_sync
