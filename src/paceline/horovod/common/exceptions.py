"""The errors that scripts written for Horovod catch."""

from __future__ import annotations

from paceline.horovod.exceptions import HorovodInternalError, HostsUpdatedInterrupt

__all__ = [
    "HorovodInternalError",
    "HorovodVersionMismatchError",
    "HostsUpdatedInterrupt",
    "get_version_mismatch_message",
]


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    """Return the message of HorovodVersionMismatchError."""
    return f"{name} is installed in version {version}, but Horovod was built with version {installed_version}"


class HorovodVersionMismatchError(ImportError):
    """Never raised here, because nothing is built for one version of a framework."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
