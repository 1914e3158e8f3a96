"""Collectives of a group on arrays of a device."""

from __future__ import annotations

from collections.abc import Sequence

from paceline import _engine
from paceline.group.host import Host
from paceline.group.on_device import DeviceArray
from paceline.group.operation import Operation


class DeviceSide:
    """The operations of a group on a device: the one that has the arrays of its first call there.

    Every call hands its work to the device and waits for nobody, but for the first one, which is collective. Each
    raises ValueError if arrays of one call are in use on several streams, and what the group's collectives raise.
    """

    def __init__(self, runtime: Host, native: _engine.Group) -> None:
        self._runtime = runtime
        self._native = native
        self._made: _engine.DeviceGroup | None = None

    def start(self, call: _engine.CollectiveCall, arrays: Sequence[DeviceArray]) -> Operation:
        """Hand a call to the device. arrays: those whose memory it names."""
        streams = {array.stream for array in arrays}
        if len(streams) > 1:
            raise ValueError(f"the arrays are in use on several streams, {sorted(streams)}: use them on one")
        if self._made is None:
            address = next((array.address for array in arrays if array.address), 0)
            self._made = _engine.DeviceGroup(self._runtime.devices, self._native, address, arrays[0].ordinal)
        return Operation(self._runtime, self._made.start(call, streams.pop()), arrays)

    def close(self) -> None:
        """Leave the device, before the group ends."""
        if self._made is not None:
            self._made.close()

    @property
    def last(self) -> tuple[str, str] | None:
        """The path of the last call, and why it went there; None before the first one."""
        return None if self._made is None else self._made.last
