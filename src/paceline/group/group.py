"""The raw face: collectives on NumPy arrays and anything like them, without a framework."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from types import TracebackType

import numpy as np

from paceline import _engine
from paceline._engine import CollectiveCall
from paceline.errors import CommunicationError
from paceline.group.arguments import (
    CODECS,
    OPS,
    blocks,
    encoding,
    feedback,
    matched,
    needed,
    reduction,
    refuse,
    whole,
)
from paceline.group.buffers import DTYPES, Array, Buffer, read, write
from paceline.group.device_side import DeviceSide
from paceline.group.host import Host
from paceline.group.on_device import DeviceArray, readable, writable
from paceline.group.operation import OVER, Operation, Over
from paceline.settings.names import AUTO, NONE

_CHANNEL_BITS = 63
_BARRIER = CollectiveCall("barrier")
_FLOAT32 = DTYPES["float32"]
_SUMS = {OPS["sum"], OPS["avg"], OPS["premul_sum"]}


class Group:
    """The ranks of a job, or some of them, with collectives among them.

    Every rank must call the same collectives in the same order with the same dtype, count and reduction;
    otherwise all ranks raise `Mismatch` with both sides' calls. Arrays may be of dtype float16, bfloat16,
    float32, float64, int8, uint8, int32, int64 or bool, of any shape; non-contiguous ones are copied in and out.
    With `async_op=True` a collective returns an `Operation` at once, otherwise it returns None when it is over.

    With PACELINE_CUDA=engine, arrays of a collective may lie in the memory of a CUDA device on all ranks, if they are
    contiguous (CuPy's, CUDA tensors); messages take those of the host alone. The call then waits for nobody. The work
    comes after what the stream has to do that `__cuda_array_interface__` names, else the default one, and before what
    that stream is given next, or after `wait` with `async_op=True`. A failure that is not known yet is raised by `wait`
    or by the next collective. A residual lies where its array does.

    Every collective raises TypeError or ValueError for arguments that make no sense, before it starts anything, and
    PeerLost, Mismatch, Timeout or Aborted as it fails; see `paceline.errors`. In a forked child it raises
    CommunicationError.
    """

    def __init__(self, runtime: Host, native: _engine.Group, timeout: float) -> None:
        self._runtime = runtime
        self._native = native
        self._timeout = timeout
        self.rank: int = native.rank
        self.size: int = native.size
        self.channel: int = native.channel
        self._device = DeviceSide(runtime, native)

    @property
    def runtime(self) -> Host:
        """The process's runtime, which owns the engine of this group."""
        return self._runtime

    @property
    def native(self) -> _engine.Group:
        """The engine's group."""
        return self._native

    @property
    def timeout(self) -> float:
        """The seconds that a collective may take."""
        return self._timeout

    def all_reduce(
        self,
        array: Array,
        op: str = "sum",
        *,
        factor: float = 1.0,
        codec: str | None = None,
        residual: Array | None = None,
        async_op: bool = False,
    ) -> Operation | None:
        """Combine `array` over all ranks, in place.

        `op`: sum, avg, product, min, max, band, bor, bxor, or premul_sum (every rank's `factor` times its array).
        Sums of integers wrap round as NumPy's do; `avg` then divides what there is, towards zero.

        codec: how sums and means of float32 are encoded between machines: `none`, `bf16`, `fp16`, `three_in_one`,
        `int8`, `int4` or `lossless`; `auto`: as `bf16` where the cost model predicts that it pays, else not at all, and
        the first such call logs why; None: as PACELINE_COMPRESS says. All ranks name the same one, and end with the
        same bits. Nothing is encoded on one machine, or of less than 64 KiB.

        residual: as many float32 as `array` has, zero before the first call: what encoding has lost on this rank, which
        the next call with the same residual adds to its values (error feedback).

        """
        try:
            number = reduction(op)
            plain = not async_op and codec is None and residual is None
            if plain and self._native.all_reduce_array(array, number, factor):
                return None
            data = writable(array)
            coded = encoding(codec) if codec != AUTO else self._pays(data, number)
            lost = feedback(residual, data)
            call = CollectiveCall(
                "all_reduce",
                target=data.address,
                count=data.count,
                dtype=data.dtype,
                op=number,
                factor=factor,
                codec=coded,
                residual=0 if lost is None else lost.address,
            )
            return self._start(call, [data] if lost is None else [data, lost], async_op)
        except Exception as error:
            self._tell("all_reduce", error, factor=factor)
            raise

    def broadcast(
        self, array: Array, root: int = 0, *, codec: str | None = None, async_op: bool = False
    ) -> Operation | None:
        """Give every rank the root's `array`, in place. root: a rank of this group.

        codec: how float32 is encoded between machines, as in `all_reduce`; None: not at all. The root, too, ends with
        what the others decode.
        """
        try:
            if not async_op and codec is None and self._native.broadcast_array(array, root):
                return None
            data = writable(array)
            call = CollectiveCall(
                "broadcast",
                target=data.address,
                count=data.count,
                dtype=data.dtype,
                root=root,
                codec=encoding(codec),
            )
            return self._start(call, [data], async_op)
        except Exception as error:
            self._tell("broadcast", error, root=root)
            raise

    def reduce(
        self,
        array: Array,
        root: int = 0,
        op: str = "sum",
        *,
        factor: float = 1.0,
        async_op: bool = False,
    ) -> Operation | None:
        """Combine `array` over all ranks into the root's, in place; other ranks' arrays stay as they are.

        `op` and `factor`: as of `all_reduce`.
        """
        try:
            number = reduction(op)
            if not async_op and self._native.reduce_array(array, number, factor, root):
                return None
            data = writable(array) if self.rank == root else readable(array)
            call = CollectiveCall(
                "reduce",
                target=data.address,
                count=data.count,
                dtype=data.dtype,
                op=number,
                factor=factor,
                root=root,
            )
            return self._start(call, [data], async_op)
        except Exception as error:
            self._tell("reduce", error, factor=factor, root=root)
            raise

    def all_gather(
        self, output: Array, input: Array, *, codec: str | None = None, async_op: bool = False
    ) -> Operation | None:
        """Put the ranks' `input`s one after the other into `output` (size times as many elements).

        `input` may be this rank's own block of `output`, and otherwise must lie apart from it.

        codec: as of `broadcast`; every rank ends with what the others decode of its own block, too.
        """
        try:
            if not async_op and codec is None and self._native.all_gather_array(output, input):
                return None
            source, data = readable(input), writable(output)
            matched(data, source, source.count * self.size, "output")
            call = CollectiveCall(
                "all_gather",
                source=source.address,
                target=data.address,
                count=source.count,
                dtype=data.dtype,
                codec=encoding(codec),
            )
            return self._start(call, [data, source], async_op)
        except Exception as error:
            self._tell("all_gather", error)
            raise

    def reduce_scatter(
        self,
        output: Array,
        input: Array,
        op: str = "sum",
        *,
        factor: float = 1.0,
        codec: str | None = None,
        residual: Array | None = None,
        async_op: bool = False,
    ) -> Operation | None:
        """Combine `input` (size blocks) over all ranks; block i goes to rank i's `output`.

        `output` may be this rank's own block of `input`, and otherwise must lie apart from it.

        `op` and `factor`: as of `all_reduce`. codec: as of `broadcast`, for parts of sums. residual: as many float32 as
        `input` has, as of `all_reduce`.
        """
        try:
            number = reduction(op)
            plain = not async_op and codec is None and residual is None
            if plain and self._native.reduce_scatter_array(output, input, number, factor):
                return None
            source, data = readable(input), writable(output)
            matched(source, data, data.count * self.size, "input")
            lost = feedback(residual, source)
            call = CollectiveCall(
                "reduce_scatter",
                source=source.address,
                target=data.address,
                count=data.count,
                dtype=data.dtype,
                op=number,
                factor=factor,
                codec=encoding(codec),
                residual=0 if lost is None else lost.address,
            )
            return self._start(call, [data, source] if lost is None else [data, source, lost], async_op)
        except Exception as error:
            self._tell("reduce_scatter", error, factor=factor)
            raise

    def all_to_all(
        self,
        output: Array,
        input: Array,
        output_counts: Sequence[int] | None = None,
        input_counts: Sequence[int] | None = None,
        *,
        async_op: bool = False,
    ) -> Operation | None:
        """Send block i of `input` to rank i, receive rank i's block as block i of `output`.

        Blocks are equal unless counts (elements per rank) are given. Both arrays lie apart, but for the block that a
        rank has for itself.
        """
        try:
            equal = output_counts is None and input_counts is None
            if equal and not async_op and self._native.all_to_all_array(output, input):
                return None
            source, data = readable(input), writable(output)
            sends = blocks(source, input_counts, self.size, "input")
            receives = blocks(data, output_counts, self.size, "output")
            matched(data, source, data.count, "output")
            call = CollectiveCall("all_to_all", dtype=data.dtype, sends=sends, receives=receives)
            return self._start(call, [data, source], async_op)
        except Exception as error:
            self._tell("all_to_all", error)
            raise

    def gather(
        self, input: Array, output: Array | None = None, root: int = 0, *, async_op: bool = False
    ) -> Operation | None:
        """Put the ranks' `input`s one after the other into the root's `output`, which other ranks leave out."""
        try:
            source = readable(input)
            sends = [(source.address, source.count)] * self.size
            receives, arrays = [(0, 0)] * self.size, [source]
            if self.rank == root:
                data = writable(needed(output, "output", "gather"))
                matched(data, source, source.count * self.size, "output")
                receives, arrays = blocks(data, None, self.size, "output"), [data, source]
            call = CollectiveCall("gather", dtype=source.dtype, root=root, sends=sends, receives=receives)
            return self._start(call, arrays, async_op)
        except Exception as error:
            self._tell("gather", error, root=root)
            raise

    def scatter(
        self, output: Array, input: Array | None = None, root: int = 0, *, async_op: bool = False
    ) -> Operation | None:
        """Give block i of the root's `input` (size blocks) to rank i's `output`; other ranks leave `input` out."""
        try:
            data = writable(output)
            receives = [(data.address, data.count)] * self.size
            sends, arrays = [(0, 0)] * self.size, [data]
            if self.rank == root:
                source = readable(needed(input, "input", "scatter"))
                matched(source, data, data.count * self.size, "input")
                sends, arrays = blocks(source, None, self.size, "input"), [data, source]
            call = CollectiveCall("scatter", dtype=data.dtype, root=root, sends=sends, receives=receives)
            return self._start(call, arrays, async_op)
        except Exception as error:
            self._tell("scatter", error, root=root)
            raise

    def barrier(self, *, async_op: bool = False) -> Operation | None:
        """Return when every rank has called it."""
        return self._start(_BARRIER, [], async_op)

    def send(self, array: Array, peer: int, tag: int = 0, *, async_op: bool = False) -> Operation | None:
        """Send `array` to rank `peer`, which must receive the same dtype and count with the same tag (32 bits)."""
        try:
            sent = self._native.send_array(array, peer, tag, not async_op)
        except TypeError:
            refuse(peer=peer, tag=tag)
            raise
        if sent is True:
            return OVER if async_op else None
        data = read(array)
        if sent is not False:
            return Operation(self._runtime, sent, [data])
        return self._start(_message("send", data, peer, tag), [data], async_op)

    def recv(self, array: Array, peer: int | None = None, tag: int = 0, *, async_op: bool = False) -> Operation | int:
        """Receive into `array` from rank `peer`, or from any rank if that is None.

        Returns the sender's rank; with `async_op=True` an `Operation`, whose `source` it is afterwards.
        """
        source = -1 if peer is None else peer
        try:
            found = self._native.recv_array(array, source, tag, not async_op)
        except TypeError:
            refuse(peer=source, tag=tag)
            raise
        if isinstance(found, int):
            return Over(found) if async_op else found
        data = write(array)
        if found is not None:
            return Operation(self._runtime, found, [data])
        operation = self._start(_message("recv", data, source, tag), [data], True)
        assert operation is not None
        if async_op:
            return operation
        operation.wait()
        return operation.source

    def sendrecv(self, input: Array, dest: int, output: Array, source: int, tag: int = 0) -> None:
        """Send `input` to rank `dest` and receive `output` from rank `source`, without either waiting for the other.

        Both are as with `send` and `recv`. All ranks may call it at once, as in a ring.
        """
        try:
            if self._native.sendrecv_array(input, dest, output, source, tag):
                return
        except TypeError:
            refuse(dest=dest, source=source, tag=tag)
            raise
        sent = self.send(input, dest, tag, async_op=True)
        self.recv(output, source, tag)
        assert sent is not None
        sent.wait()

    def split(self, color: int | None, key: int | None = None) -> Group | None:
        """Make a group of the ranks that give the same `color`, ordered by `key` (default: their rank here).

        Every rank of this group must call it; `color=None` joins no group. Both are whole numbers of 64 bits.
        """
        try:
            place = self.rank if key is None else whole(key, "key")
            part = None if color is None else whole(color, "color")
        except Exception as error:
            self._tell("all_gather", error)
            raise
        channel = secrets.randbits(_CHANNEL_BITS)
        mine = np.array([0 if part is None else 1, part or 0, place, channel], np.int64)
        everyone = np.empty((self.size, 4), np.int64)
        self.all_gather(everyone, mine)
        if part is None:
            return None
        same = [rank for rank in range(self.size) if everyone[rank, 0] == 1 and everyone[rank, 1] == part]
        ranks = sorted(same, key=lambda rank: (int(everyone[rank, 2]), rank))
        native = self._runtime.subgroup(self._native.channel, ranks, int(everyone[ranks[0], 3]), self._timeout)
        return Group(self._runtime, native, self._timeout)

    def abort(self, reason: str = "asked to") -> None:
        """Make every unfinished and later operation of this group raise `Aborted` on every rank."""
        self._native.abort(str(reason))

    def close(self) -> None:
        """Leave this group; the links to the other processes stay for other groups, until the process ends.

        What is still under way fails with Aborted, on this rank and on all others that take part in it.
        If the last collective between machines had a root, waits up to 1 s until it is known that all ranks named the
        same one. Raises Mismatch if they did not.
        """
        try:
            self._device.close()
            self._native.close()
        finally:
            self._runtime.forget(self._native.channel)

    def __enter__(self) -> Group:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _pays(self, data: Buffer, op: int) -> int:
        """The codec of an all-reduce with `auto`."""
        codec, least = self._runtime.encoding(self._native)
        encoded = data.dtype == _FLOAT32 and 4 * data.count >= least and op in _SUMS
        return codec if encoded else CODECS[NONE]

    def _tell(self, collective: str, error: Exception, factor: float = 1.0, **others: int) -> None:
        """Tell the other ranks, which may wait in this collective, that this one's call has raised.

        factor, others: the user's numbers. Raises a clearer error for one that the engine does not take.
        """
        if isinstance(error, CommunicationError):
            return
        try:
            if isinstance(error, TypeError):
                refuse(factor, **others)
        except (TypeError, ValueError) as clear:
            error = clear
            raise
        finally:
            self._native.refuse(collective, f"{type(error).__name__}: {error}")

    def _start(self, call: CollectiveCall, arrays: Sequence[Buffer], async_op: bool) -> Operation | None:
        """Carry out `call` with the memory of `arrays`, or only start it; on a device, hand it over."""
        there = [array for array in arrays if isinstance(array, DeviceArray)]
        if there:
            return _handed(self._device.start(call, there), async_op)
        native = self._native.start(call, _engine.ASYNC if async_op else _engine.BLOCKING)
        if native is not None:
            return Operation(self._runtime, native, arrays)
        for array in arrays:
            array.give_back()
        return OVER if async_op else None


def _message(kind: str, data: Buffer, peer: int, tag: int) -> CollectiveCall:
    return CollectiveCall(kind, target=data.address, count=data.count, dtype=data.dtype, peer=peer, tag=tag)


def _handed(operation: Operation, async_op: bool) -> Operation | None:
    """Return the result of a collective whose work has been handed to a device."""
    if async_op:
        return operation
    operation.wait()
    return None
