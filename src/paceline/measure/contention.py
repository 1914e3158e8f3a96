"""Rounds in which all machines send at once, as fast as they can: what they then get shows the links they share."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from threading import Thread

import numpy as np
import numpy.typing as npt

from paceline.group.group import Group
from paceline.group.operation import Operation
from paceline.topology.measured import Load

Pieces = npt.NDArray[np.uint8]

_SMALLEST, _LARGEST = 4 << 10, 1 << 20
"""Bytes of the first pieces, and of the longest."""
_ALIKE = 16
"""After so many the next ones are twice as long: a round takes hardly longer than meant on any link, and few pieces."""
_SETTLING = 0.3
"""Of a round: until then TCP finds out what it gets."""
_IN_FLIGHT = 4
_MORE = 255
"""What the first byte of a piece says unless the end is near: then it is how many pieces follow."""


def loaded(
    group: Group,
    machines: Sequence[Sequence[int]],
    parts: Sequence[Sequence[int]],
    schedules: Sequence[Sequence[Sequence[int]]],
    seconds: float,
    end: float,
) -> list[Load]:
    """The machines of every part send to each other at once, by their first ranks; all parts at the same time.

    machines: the ranks of each. parts: of machines, without a common one. schedules: of each part, rounds as of
    `crowds`; who is through begins anew until all are. seconds: of a round. end: by `time.monotonic()`; no round but
    the first begins later on any rank, and those that did not begin are left out. Collective; every rank returns the
    same.
    """
    count = max(map(len, schedules))
    own = next(number for number, ranks in enumerate(machines) if group.rank in ranks)
    mine = next((number for number, part in enumerate(parts) if own in part), None)
    got = np.zeros(count)
    done = 0
    while done < count and _all_have_time(group, end if done else np.inf):
        turn, done = done, done + 1
        if mine is None or group.rank != machines[own][0]:
            continue
        part, sends_to = parts[mine], schedules[mine][turn % len(schedules[mine])]
        place = part.index(own)
        target, source = part[sends_to[place]], part[sends_to.index(place)]
        got[turn] = _both_ways(group, machines[target][0], machines[source][0], seconds)
    everyone = np.empty((group.size, done))
    group.all_gather(everyone, got[:done].copy())
    loads = []
    for part, schedule in zip(parts, schedules, strict=True):
        targets = np.array([schedule[turn % len(schedule)] for turn in range(done)])
        arrived = everyone[[machines[machine][0] for machine in part]].T  # by round, at whom
        loads.append(Load(tuple(part), targets, np.take_along_axis(arrived, targets, axis=1)))
    return loads


def _all_have_time(group: Group, end: float) -> bool:
    """Whether nobody is past its end; also, as a barrier is, the moment at which all are here."""
    has = np.array([float(time.monotonic() < end)])
    group.all_reduce(has, "min")
    return bool(has[0])


def _size(number: int) -> int:
    """Bytes of a round's piece with this number."""
    return int(min(_SMALLEST << number // _ALIKE, _LARGEST))


def _both_ways(group: Group, target: int, source: int, seconds: float) -> float:
    """Bytes per second that came from the one rank while this one sent to the other."""
    failed: list[BaseException] = []

    def sending() -> None:
        try:
            _send(group, target, seconds)
        except BaseException as error:
            failed.append(error)

    sender = Thread(target=sending, name="paceline-check-send")
    sender.start()
    try:
        return _receive(group, source)
    finally:
        sender.join()
        if failed:
            raise failed[0]


def _send(group: Group, peer: int, seconds: float) -> None:
    under_way = deque[Operation | int | None]()
    end = time.monotonic() + seconds
    left, number = _MORE, 0
    while left:
        if left != _MORE or time.monotonic() >= end:
            left = min(left, _IN_FLIGHT) - 1  # as many as the receiver waits for: it must not be left waiting
        under_way.append(group.send(np.full(_size(number), left, np.uint8), peer, async_op=True))
        number += 1
        if len(under_way) == _IN_FLIGHT:
            _finish(under_way.popleft())
    for operation in under_way:
        _finish(operation)


def _receive(group: Group, peer: int) -> float:
    """Bytes per second, from the first moment on at which TCP has found out what it gets."""
    begun = time.monotonic()
    posted = 0
    pieces, under_way = deque[Pieces](), deque[Operation | int | None]()
    sizes: list[int] = []
    arrived: list[float] = []
    left = _MORE
    while left:
        while left == _MORE and len(pieces) < _IN_FLIGHT:
            pieces.append(np.empty(_size(posted), np.uint8))
            under_way.append(group.recv(pieces[-1], peer, async_op=True))
            posted += 1
        _finish(under_way.popleft())
        piece = pieces.popleft()
        arrived.append(time.monotonic() - begun)
        sizes.append(len(piece))
        left = int(piece[0])
    times, come = np.array(arrived), np.cumsum(sizes)
    # Between two arrivals: one who had to wait for a core sees many at once, and the slope of few says nothing then.
    first = int(np.searchsorted(times, _SETTLING * times[-1], side="right")) - 1
    first = max(0, min(first, len(times) - 2))
    return float((come[-1] - come[first]) / max(times[-1] - times[first], 1e-9))


def _finish(operation: Operation | int | None) -> None:
    assert isinstance(operation, Operation)
    operation.wait()
