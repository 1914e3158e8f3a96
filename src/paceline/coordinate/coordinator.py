"""Named tensors in any order: each rank submits what it has, and all carry it out in one order that they agree on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from paceline import _engine
from paceline._engine import CollectiveCall
from paceline.coordinate.agree import agree, all_gather
from paceline.coordinate.host import Host, host_of
from paceline.coordinate.options import Options
from paceline.coordinate.records import Counters, Record
from paceline.coordinate.span import OnDevice, Span
from paceline.coordinate.tuning import Tuning
from paceline.group.arguments import encoding, reduction
from paceline.group.group import Group
from paceline.settings.names import LOSSLESS

log = logging.getLogger("paceline")

Request = _engine.Request

_NO_BUNDLE = (0, 0)
_NOTHING = CollectiveCall("barrier")


class _Place(TypedDict, total=False):
    devices: _engine.Devices
    ordinal: int
    stream: int
    allocate: Callable[[list[int], int], int] | None


class Coordinator:
    """Carries out named requests of all ranks of a group, each as soon as every rank has submitted it.

    Every call that takes a name returns at once, with a `Request` to wait for. The caller keeps the memory alive and
    untouched until the request is done. Ranks may call in any order, and from any thread. A name may be used again: the
    new request waits until the one before it is done. If ranks disagree on a request, that request raises `Mismatch` on
    all ranks, and everything else goes on; a lost rank, or a timeout, fails all requests.

    shape: the shape of this rank's tensor, for messages and for the check that ranks agree. of: for the same, with a
    space at its end, what the elements are if the engine has none of these and they go as bytes. bundle: (id, size);
    the `size` requests with the same id are carried out when all of them are ready. priority: among requests that are
    ready, those with a higher priority go first. codec: how float32 is encoded between machines, as in
    `Group.all_reduce`; all ranks name the same. Calls raise ValueError for arguments that make no sense, and what
    `Group` raises once the coordinator has failed.

    on_device: for memory of a CUDA device, where `takes_devices`. All ranks then give memory of one, and a residual is
    there too. It is not scaled; what is carried out as one is encoded each for itself; and a rank that has joined must
    have had some before. The request comes after what its stream has to do when it is submitted; when the request is
    done, so is the device.
    """

    def __init__(self, runtime: Host, native: _engine.Group, options: Options, timeout: float) -> None:
        """Make a coordinator among the ranks of `native`. Collective. timeout: the seconds for every request.

        Raises ValueError, on all ranks, if their options differ.
        """
        self.rank: int = native.rank
        self.size: int = native.size
        self.options = options
        self._runtime = runtime
        self._closed = False
        self.ordered = False
        """True if this rank has set an order."""
        channel = agree(native, options)
        control, data = (
            runtime.subgroup(native.channel, range(self.size), channel + extra, timeout, runtime.plans)
            for extra in (0, 1)
        )
        self._channels = (control.channel, data.channel)
        self._channel = native.channel
        numbers: dict[int, int] = {}
        machine_of = [numbers.setdefault(one, len(numbers)) for one in runtime.membership(native.channel).machines]
        self._native = _engine.Coordinator(
            control,
            data,
            "switching" if options.autotune_policy else options.policy,
            options.fusion_bytes,
            options.wait,
            options.cycle_seconds,
            options.cache_capacity,
            options.sleep_every,
            machine_of,
        )
        offsets = np.empty(self.size, np.int64)
        all_gather(native, np.array([self._native.board_offset], np.int64), offsets)
        self._native.open(int(offsets[machine_of.index(machine_of[self.rank])]))
        self._submit = self._native.submit
        self._tuning: Tuning | None = None
        if (options.autotune or options.autotune_policy) and self.rank == 0:
            self._begin_tuning()
        fixed = options.policy == "graph" or options.autotune_policy  # batches may go over several groups
        self._following = None if fixed else runtime.follow(self._native, data, timeout)
        runtime.show(self._channels[-1], self)
        self._listen()

    def all_reduce(
        self,
        name: str,
        data: Span,
        op: str = "sum",
        *,
        prescale: float = 1.0,
        postscale: float = 1.0,
        priority: int = 0,
        bundle: tuple[int, int] | None = None,
        shape: Sequence[int] = (),
        codec: str | None = None,
        residual: Span | None = None,
        on_device: OnDevice | None = None,
    ) -> Request:
        """Combine `data` over all ranks, in place. op: as of `Group.all_reduce`, except premul_sum.

        Each rank's data is multiplied by `prescale` before and the outcome by `postscale` afterwards (floats only).
        A rank that has joined gives zeros. codec: None and `none` leave it to PACELINE_COMPRESS. Only requests with the
        same codec are carried out as one, and what is carried out as one is encoded from 64 KiB on. residual: what
        encoding has lost of `data` on this rank, as in `Group.all_reduce`, in units of the scaled data.
        """
        number, coded, together = reduction(op), encoding(codec), bundle or _NO_BUNDLE
        tuning = self._tuning
        if tuning is not None:
            tuning.note(name, data.count, data.dtype, (number, max(coded, 0)), together)
        call = CollectiveCall(
            "all_reduce",
            target=data.address,
            count=data.count,
            dtype=data.dtype,
            op=number,
            codec=coded,
            residual=0 if residual is None else _residual(name, residual, data),
        )
        written, place = _written(tuple(shape)), self._place(on_device)
        return self._submit(name, call, written, prescale, postscale, priority, together, **place)

    def prepare_all_reduce(
        self,
        name: str,
        count: int,
        dtype: int,
        failed: Callable[[int, _engine.CommunicationError | ValueError], None],
        op: str = "sum",
        *,
        prescale: float = 1.0,
        postscale: float = 1.0,
        shape: Sequence[int] = (),
        codec: str | None = None,
        residual: NDArray[np.float32] | None = None,
    ) -> _engine.PreparedAllReduce | None:
        """Prepare `all_reduce` of `count` elements for native code, which submits it again and again without Python.

        A request that is submitted while the one before it is under way fails. failed: called in any thread with the
        number of a call whose request has failed, or cannot be submitted, and the error. dtype: its number in
        `_engine.DTYPES`. residual: is kept alive.

        Returns None for as long as requests are counted here for tuning.
        """
        if self._tuning is not None:
            return None
        call = CollectiveCall(
            "all_reduce",
            count=count,
            dtype=dtype,
            op=reduction(op),
            codec=encoding(codec),
            residual=0 if residual is None else residual.ctypes.data,
        )
        written = _written(tuple(shape))
        return _engine.PreparedAllReduce(self._native, name, call, written, prescale, postscale, failed, residual)

    def all_gather(
        self, name: str, source: Span, *, shape: Sequence[int] = (), of: str = "", on_device: OnDevice | None = None
    ) -> Request:
        """Put the ranks' `source`s one after the other; ranks may differ in their first dimension.

        Afterwards `output` is a buffer of all, or None on a device, and `counts` the elements of each rank. A rank that
        has joined gives none.
        """
        call = CollectiveCall("all_gather", source=source.address, count=source.count, dtype=source.dtype)
        return self._submit(name, call, of + _ragged(tuple(shape)), **self._place(on_device))

    def broadcast(
        self,
        name: str,
        data: Span,
        root: int,
        *,
        shape: Sequence[int] = (),
        codec: str | None = None,
        of: str = "",
        on_device: OnDevice | None = None,
    ) -> Request:
        """Give every rank the root's `data`, in place."""
        call = CollectiveCall(
            "broadcast",
            target=data.address,
            count=data.count,
            dtype=data.dtype,
            root=root,
            codec=encoding(codec),
        )
        return self._submit(name, call, of + _written(tuple(shape)), **self._place(on_device))

    def codec_of_parameters(self, data: Span) -> str | None:
        """The codec of parameters that are broadcast, which must arrive bit for bit, as PACELINE_COMPRESS says."""
        codec, least = self._runtime.exact(self._channel)
        large = data.count * _engine.SIZES[data.dtype] >= least
        return LOSSLESS if codec and large and _engine.encodes(codec, data.dtype) else None

    def all_to_all(
        self,
        name: str,
        source: Span,
        counts: Sequence[int],
        *,
        shape: Sequence[int] = (),
        of: str = "",
        on_device: OnDevice | None = None,
    ) -> Request:
        """Send the first `counts[0]` elements of `source` to rank 0, the next `counts[1]` to rank 1, and so on.

        Afterwards `output` is a buffer of what all ranks sent to this one, or None on a device, and `counts` the
        elements from each.
        """
        call = CollectiveCall("all_to_all", source=source.address, count=source.count, dtype=source.dtype)
        return self._submit(name, call, of + _ragged(tuple(shape)), counts=list(counts), **self._place(on_device))

    def reduce_scatter(
        self,
        name: str,
        source: Span,
        output: Span,
        counts: Sequence[int],
        op: str = "sum",
        *,
        prescale: float = 1.0,
        postscale: float = 1.0,
        shape: Sequence[int] = (),
        codec: str | None = None,
        on_device: OnDevice | None = None,
    ) -> Request:
        """Combine `source` over all ranks; the part of `counts[i]` elements goes to rank i's `output`.

        `counts` must be the same on all ranks. Only equal parts are encoded.
        """
        if len(counts) == self.size and output.count != counts[self.rank]:
            raise ValueError(f"{name!r}: the output must hold {counts[self.rank]} elements, not {output.count}")
        if output.dtype != source.dtype:
            raise ValueError(f"{name!r}: source and output must have the same dtype")
        call = CollectiveCall(
            "reduce_scatter",
            source=source.address,
            target=output.address,
            count=source.count,
            dtype=source.dtype,
            op=reduction(op),
            codec=encoding(codec),
        )
        written, place = _written(tuple(shape)), self._place(on_device)
        return self._submit(name, call, written, prescale, postscale, counts=list(counts), **place)

    def barrier(self, name: str) -> Request:
        """Submit a barrier, which is done when every rank has submitted it."""
        return self._submit(name, _NOTHING)

    def refuse(self, name: str, why: str) -> Request:
        """Submit that this rank has no request of this name, because its call raised.

        Other ranks' requests of the name fail with Mismatch, which says why; nothing fails if all ranks say the same.
        """
        return self._submit(name, _NOTHING, why)

    @cached_property
    def trial(self) -> Coordinator:
        """A coordinator whose calls check their arguments as this one's do, and submit nothing.

        What they return is no request.
        """
        made = copy(self)
        made._submit = partial(self._native.submit, trial=True)
        made._tuning = None
        made.when_over = lambda request, then: None  # type: ignore[method-assign]
        return made

    def when_over(self, request: Request, then: Callable[[], None]) -> None:
        """Call `then` once when this request is over, well or not: on the notifier's thread, or here if it is."""
        self._runtime.notify(request.id, then)

    def join(self) -> Request:
        """Announce that this rank has no more requests.

        The request is done when all ranks have joined; its `last` is the rank that joined last.
        """
        return self._native.join()

    def set_order(self, buffers: Sequence[Sequence[str]]) -> None:
        """Set the order of policy `graph`: the names of each buffer, in the order in which buffers are carried out.

        All ranks must set the same order.
        """
        self.ordered = True
        self._native.set_order([list(buffer) for buffer in buffers])

    def tune(self, fusion_bytes: int) -> None:
        """Set the most bytes of a batch of policy `board`; rank 0 may call this at any time.

        The new size holds on all ranks from the same batch on. Raises ValueError with other policies or on other ranks.
        """
        if not 0 <= fusion_bytes < 1 << 64:
            raise ValueError(f"fusion_bytes must be from 0 to {(1 << 64) - 1}, got {fusion_bytes}")
        self._native.tune(fusion_bytes)

    @cached_property
    def takes_devices(self) -> bool:
        """True if requests may be on a CUDA device.

        There must be one, PACELINE_CUDA must not be `nccl`, and the policy must take back nothing that it has begun.
        """
        settings = self._runtime.settings
        fixed = self.options.policy != "graph" and not self.options.autotune_policy
        return fixed and settings.cuda != "nccl" and not self._runtime.devices.absent()

    @property
    def policy(self) -> str:
        """The policy by which ranks agree now: that of the options, or the one that tuning chose."""
        return self._native.in_use()[0] or self.options.policy

    def counters(self) -> Counters:
        """The sums of what this coordinator has done so far."""
        return Counters(*self._native.counters())

    def records(self, after: int = 0) -> list[Record]:
        """The last 8192 requests of this rank that are over, as they ended, of which the number is above `after`."""
        return [Record(*row) for row in self._native.records(after)]

    def close(self) -> None:
        """Leave. Requests that are not over raise `Aborted`, here and on ranks that wait for this one."""
        self._closed = True
        if self._tuning is not None:
            self._tuning.close()
        self._runtime.hide(self._channels[-1])
        self._native.close()
        if self._following is not None:
            self._following.close()
        for channel in self._channels:
            self._runtime.forget(channel)

    def _place(self, on_device: OnDevice | None) -> _Place:
        if on_device is None:
            return {}
        return {
            "devices": self._runtime.devices,
            "ordinal": on_device.ordinal,
            "stream": on_device.stream,
            "allocate": on_device.allocate,
        }

    def _begin_tuning(self) -> None:
        if self.options.policy != "board":
            log.warning("autotune: nothing is tuned with policy %s, only with board", self.options.policy)
            return
        path = self._runtime.settings.autotune_log
        policy = self.options.autotune_policy and self.size > 1
        if not policy and not self.options.autotune:
            return
        size = self.options.fusion_bytes
        self._tuning = Tuning(self._native, size, policy, self.options.autotune, path, self._freeze)

    def _freeze(self) -> None:
        self._tuning = None

    def _listen(self) -> None:
        self._runtime.notify(self._native.warnings_id, self._say)

    def _say(self) -> None:
        for sentence in self._native.warnings():
            log.warning("%s", sentence)
        if self._runtime.usable and not self._closed:
            self._listen()


def coordinator(group: Group, options: Options | None = None) -> Coordinator:
    """Make a coordinator among the ranks of `group`. Collective. options: None for those of the settings.

    Raises ValueError, on all ranks, if their options differ.
    """
    runtime = host_of(group)
    chosen = Options.from_settings(runtime.settings) if options is None else options
    if options is None and runtime.settings.autotune and not (chosen.autotune or chosen.autotune_policy or group.rank):
        log.warning("autotune: nothing is tuned, because both the policy and the size of batches were set")
    if options is None and group.size < runtime.settings.size:  # a group of a part of the ranks cannot time steps
        chosen = replace(chosen, autotune=False, autotune_policy=False)
    return Coordinator(runtime, group.native, chosen, group.timeout)


def _residual(name: str, residual: Span, data: Span) -> int:
    if residual.dtype != _engine.DTYPES["float32"] or residual.count != data.count:
        raise ValueError(f"{name!r}: a residual is of dtype float32 and holds {data.count} elements as the data do")
    return residual.address


@lru_cache(maxsize=4096)
def _written(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


@lru_cache(maxsize=4096)
def _ragged(shape: tuple[int, ...]) -> str:
    return "x".join(["*", *map(str, shape[1:])])
