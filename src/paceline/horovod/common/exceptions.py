"""The errors that scripts for Horovod catch."""

from __future__ import annotations

from paceline.horovod.exceptions import HorovodInternalError, HostsUpdatedInterrupt

__all__ = [
    "HorovodInternalError",
    "HorovodVersionMismatchError",
    "HostsUpdatedInterrupt",
    "get_version_mismatch_message",
]


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    """What HorovodVersionMismatchError says."""
    return f"{name} is there in version {version}, and Horovod was built with version {installed_version}"


class HorovodVersionMismatchError(ImportError):
    """Never raised here, where nothing is built for one version of a framework."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
