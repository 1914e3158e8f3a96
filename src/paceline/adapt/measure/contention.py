"""Measure in rounds in which all machines send at once as fast as they can, which shows the links that they share."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from threading import Thread

import numpy as np
import numpy.typing as npt

from paceline.adapt.measure.arrivals import Arrivals
from paceline.calibration.measure import (
    ALIKE,
    IN_FLIGHT,
    LARGEST_MESSAGE,
    SETTLING,
    SMALLEST_MESSAGE,
)
from paceline.group.group import Group
from paceline.group.operation import Operation
from paceline.topology.measured import Load

Pieces = npt.NDArray[np.uint8]

_MORE = 255
"""The first byte of a message until the end is near; then the byte is the number of messages that follow."""


def loaded(
    group: Group,
    machines: Sequence[Sequence[int]],
    parts: Sequence[Sequence[int]],
    schedules: Sequence[Sequence[Sequence[int]]],
    seconds: float,
    end: float,
) -> list[Load]:
    """Measure while the machines of every part send to each other at once, by their first ranks.

    All parts measure at the same time. machines: the ranks of each machine. parts: disjoint sets of machines.
    schedules: the rounds of each part, as from `crowds`; a part that is through begins again until all are. seconds:
    the length of a round. end: a time of `time.monotonic()` after which no round begins on any rank, except the first;
    rounds that did not begin are left out. This is a collective; every rank returns the same.
    """
    count = max(map(len, schedules))
    own = next(number for number, ranks in enumerate(machines) if group.rank in ranks)
    mine = next((number for number, part in enumerate(parts) if own in part), None)
    got = np.zeros((count, 2))
    # Memory that is new in every message would take longer to map than to send.
    leaving, coming = np.zeros((2, IN_FLIGHT, LARGEST_MESSAGE), np.uint8)
    done = 0
    while done < count and _all_have_time(group, end if done else np.inf):
        turn, done = done, done + 1
        if mine is None or group.rank != machines[own][0]:
            continue
        part, sends_to = parts[mine], schedules[mine][turn % len(schedules[mine])]
        place = part.index(own)
        target, source = part[sends_to[place]], part[sends_to.index(place)]
        got[turn] = _both_ways(group, machines[target][0], machines[source][0], seconds, leaving, coming)
    everyone = np.empty((group.size, done, 2))
    group.all_gather(everyone, got[:done].copy())
    loads = []
    for part, schedule in zip(parts, schedules, strict=True):
        targets = np.array([schedule[turn % len(schedule)] for turn in range(done)])
        # By round and receiver.
        arrived, bursts = (everyone[[machines[machine][0] for machine in part], :, each].T for each in (0, 1))
        by_sender = (np.take_along_axis(each, targets, axis=1) for each in (arrived, bursts))
        loads.append(Load(tuple(part), targets, *by_sender))
    return loads


def _all_have_time(group: Group, end: float) -> bool:
    """Return whether no rank is past its end. Like a barrier, it returns when all ranks are here."""
    has = np.array([float(time.monotonic() < end)])
    group.all_reduce(has, "min")
    return bool(has[0])


def _size(number: int) -> int:
    """The bytes of the message with this number in a round."""
    return int(min(SMALLEST_MESSAGE << number // ALIKE, LARGEST_MESSAGE))


def _both_ways(
    group: Group, target: int, source: int, seconds: float, leaving: Pieces, coming: Pieces
) -> tuple[float, float]:
    """The bytes per second that came from `source` while this rank sent to `target`, and their `Arrivals.burst`.

    leaving, coming: arrays of (IN_FLIGHT, LARGEST_MESSAGE) uint8 for what is under way.
    """
    failed: list[BaseException] = []

    def sending() -> None:
        try:
            _send(group, target, seconds, leaving)
        except BaseException as error:
            failed.append(error)

    sender = Thread(target=sending, name="paceline-check-send")
    sender.start()
    try:
        return _receive(group, source, coming)
    finally:
        sender.join()
        if failed:
            raise failed[0]


def _send(group: Group, peer: int, seconds: float, pieces: Pieces) -> None:
    under_way = deque[Operation | int | None]()
    end = time.monotonic() + seconds
    left, number = _MORE, 0
    while left:
        if left != _MORE or time.monotonic() >= end:
            left = min(left, IN_FLIGHT) - 1  # the receiver has posted this many receives, and all must complete
        piece = pieces[number % IN_FLIGHT, : _size(number)]
        piece[0] = left
        under_way.append(group.send(piece, peer, async_op=True))
        number += 1
        if len(under_way) == IN_FLIGHT:
            _finish(under_way.popleft())
    for operation in under_way:
        _finish(operation)


def _receive(group: Group, peer: int, pieces: Pieces) -> tuple[float, float]:
    """The bytes per second that arrived after TCP had found its rate, and how much faster they came in a burst."""
    arrivals = Arrivals(group, peer)
    posted = read = 0
    under_way = deque[Operation | int | None]()
    left = _MORE
    while left:
        while left == _MORE and len(under_way) < IN_FLIGHT:
            piece = pieces[posted % IN_FLIGHT, : _size(posted)]
            under_way.append(group.recv(piece, peer, async_op=True))
            posted += 1
        _finish(under_way.popleft())
        arrivals.add(_size(read))
        left = int(pieces[read % IN_FLIGHT, 0])
        read += 1
    settled = arrivals.after(SETTLING)
    return arrivals.mean(settled), arrivals.burst(settled)


def _finish(operation: Operation | int | None) -> None:
    assert isinstance(operation, Operation)
    operation.wait()
