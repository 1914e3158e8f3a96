"""Rounds in which all machines send at once, as fast as they can: what they then get shows the links they share."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from threading import Thread

import numpy as np

from paceline.group.group import Group
from paceline.group.operation import Operation
from paceline.topology.measured import Load, Matrix

_PIECES = 64
_SMALLEST, _LARGEST = 4 << 10, 1 << 20
"""Bytes of a piece, of which an unhindered machine sends about `_PIECES` in a round."""
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
    alone: Matrix,
    seconds: float,
    end: float,
) -> list[Load]:
    """The machines of every part send to each other at once, by their first ranks; all parts at the same time.

    machines: the ranks of each. parts: of machines, without a common one. schedules: of each part, rounds as of
    `crowds`; who is through begins anew until all are. alone[i, j]: bytes per second that a
    machine gets when nobody else sends. seconds: of a round. end: by `time.monotonic()`; no round but the first begins
    later on any rank, and those that did not begin are left out. Collective; every rank returns the same.
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
        got[turn] = _both_ways(
            group,
            (machines[target][0], _size(alone[own, target], seconds)),
            (machines[source][0], _size(alone[source, own], seconds)),
            seconds,
        )
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


def _size(rate: float, seconds: float) -> int:
    return int(min(max(rate * seconds / _PIECES, _SMALLEST), _LARGEST))


def _both_ways(group: Group, to: tuple[int, int], source: tuple[int, int], seconds: float) -> float:
    """Bytes per second that came from the one while this rank sent to the other; each a rank, and bytes of a piece."""
    failed: list[BaseException] = []

    def sending() -> None:
        try:
            _send(group, *to, seconds)
        except BaseException as error:
            failed.append(error)

    sender = Thread(target=sending, name="paceline-check-send")
    sender.start()
    try:
        return _receive(group, *source, seconds)
    finally:
        sender.join()
        if failed:
            raise failed[0]


def _send(group: Group, peer: int, size: int, seconds: float) -> None:
    more, under_way = np.full(size, _MORE, np.uint8), deque[Operation | int | None]()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        under_way.append(group.send(more, peer, async_op=True))
        if len(under_way) == _IN_FLIGHT:
            _finish(under_way.popleft())
    # As many as the receiver waits for: it must not be left waiting.
    last = [np.full(size, left, np.uint8) for left in reversed(range(_IN_FLIGHT))]
    under_way += [group.send(piece, peer, async_op=True) for piece in last]
    for operation in under_way:
        _finish(operation)


def _receive(group: Group, peer: int, size: int, seconds: float) -> float:
    pieces = [np.empty(size, np.uint8) for _ in range(_IN_FLIGHT)]
    begun = time.monotonic()
    under_way = deque(group.recv(piece, peer, async_op=True) for piece in pieces)
    arrived: list[float] = []
    left = _MORE
    while left:
        _finish(under_way.popleft())
        piece = pieces[len(arrived) % _IN_FLIGHT]
        arrived.append(time.monotonic() - begun)
        left = int(piece[0])
        if left == _MORE:
            under_way.append(group.recv(piece, peer, async_op=True))
    times = np.array(arrived)
    steady = times[(times >= _SETTLING * seconds) & (times <= seconds)]
    if len(steady) < 3:
        steady = times  # too few to leave any out
    return size / max(float(np.polyfit(np.arange(len(steady)), steady, 1)[0]), 1e-9)


def _finish(operation: Operation | int | None) -> None:
    assert isinstance(operation, Operation)
    operation.wait()
