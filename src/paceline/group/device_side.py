"""Collectives of a group on arrays of a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paceline import _engine
from paceline.group.host import Host
from paceline.group.on_device import DeviceArray
from paceline.group.operation import Operation

Spans = list[tuple[int, int]]
"""The address and the elements of a block for every rank."""


class DeviceSide:
    """The operations of a group on a device: the one that has the arrays of its first call there.

    Every call hands its work to the device and waits for nobody, but for the first one, which is collective. Each
    raises ValueError if arrays of one call are in use on several streams, and what the group's collectives raise.
    """

    def __init__(self, runtime: Host, native: _engine.Group) -> None:
        self._runtime = runtime
        self._native = native
        self._made: _engine.DeviceGroup | None = None

    def all_reduce(
        self, array: DeviceArray, op: int, factor: float, codec: int, residual: DeviceArray | None
    ) -> Operation:
        """Combine `array` over all ranks, in place. op: the engine's number of a reduction. codec: that of a codec."""
        numbers = array.address, array.count, array.dtype, op, factor
        more, arrays = _encoded(codec, residual, [array])
        return self._hand(lambda group, stream: group.all_reduce(*numbers, stream, *more), arrays)

    def broadcast(self, array: DeviceArray, root: int, codec: int) -> Operation:
        """Give every rank the root's `array`, in place."""
        numbers = array.address, array.count, array.dtype, root
        return self._hand(lambda group, stream: group.broadcast(*numbers, stream, codec), [array])

    def reduce(self, array: DeviceArray, op: int, factor: float, root: int) -> Operation:
        """Combine `array` over all ranks into the root's, in place."""
        numbers = array.address, array.count, array.dtype, op, factor, root
        return self._hand(lambda group, stream: group.reduce(*numbers, stream), [array])

    def all_gather(self, output: DeviceArray, input: DeviceArray, codec: int) -> Operation:
        """Put the ranks' `input`s one after the other into `output`."""
        numbers = input.address, output.address, input.count, input.dtype
        return self._hand(lambda group, stream: group.all_gather(*numbers, stream, codec), [output, input])

    def reduce_scatter(
        self,
        output: DeviceArray,
        input: DeviceArray,
        op: int,
        factor: float,
        codec: int,
        residual: DeviceArray | None,
    ) -> Operation:
        """Combine `input` over all ranks; block i goes to rank i's `output`."""
        numbers = input.address, output.address, output.count, output.dtype, op, factor
        more, arrays = _encoded(codec, residual, [output, input])
        return self._hand(lambda group, stream: group.reduce_scatter(*numbers, stream, *more), arrays)

    def exchange(
        self, collective: str, sends: Spans, recvs: Spans, root: int, arrays: Sequence[DeviceArray]
    ) -> Operation:
        """Move a block to and from every rank: gather, scatter or all_to_all. arrays: those that hold the blocks."""
        dtype = arrays[0].dtype
        return self._hand(lambda group, stream: group.exchange(collective, sends, recvs, dtype, root, stream), arrays)

    def close(self) -> None:
        """Leave the device, before the group ends."""
        if self._made is not None:
            self._made.close()

    @property
    def last(self) -> tuple[str, str] | None:
        """The path of the last call, and why it went there; None before the first one."""
        return None if self._made is None else self._made.last

    def _hand(
        self, call: Callable[[_engine.DeviceGroup, int], _engine.DeviceOperation], arrays: Sequence[DeviceArray]
    ) -> Operation:
        streams = {array.stream for array in arrays}
        if len(streams) > 1:
            raise ValueError(f"the arrays are in use on several streams, {sorted(streams)}: use them on one")
        if self._made is None:
            address = next((array.address for array in arrays if array.address), 0)
            self._made = _engine.DeviceGroup(self._runtime.devices, self._native, address, arrays[0].ordinal)
        return Operation(self._runtime, call(self._made, streams.pop()), arrays)


def _encoded(
    codec: int, residual: DeviceArray | None, arrays: list[DeviceArray]
) -> tuple[tuple[int, int], list[DeviceArray]]:
    """Return the codec and the residual's address for the engine, and all arrays that the call uses."""
    if residual is None:
        return (codec, 0), arrays
    return (codec, residual.address), [*arrays, residual]
