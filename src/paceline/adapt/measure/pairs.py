"""Measure between two ranks: the time of a small message, and the rate of many large ones."""

from __future__ import annotations

import time
from collections import deque
from statistics import median

import numpy as np

from paceline.adapt.measure.arrivals import Arrivals
from paceline.calibration.measure import (
    IN_FLIGHT,
    LARGEST_STREAM,
    LATENCY_SECONDS,
    ROUND_TRIPS,
    SETTLED_PIECES,
    SMALLEST_STREAM,
    STREAM_GROWTH,
    STREAM_PIECES,
    STREAMS,
    WARM_UP_TRIPS,
)
from paceline.group.group import Group
from paceline.group.operation import Operation


def latency(group: Group, peer: int) -> float:
    """Return the seconds that a small message takes to `peer`: half of the lower quartile of several round trips.

    Both ranks call it, and both get the same result.
    """
    word = np.zeros(1)  # 0: another round trip follows; else it is the result, and the last message
    if group.rank > peer:
        while not word[0]:
            group.recv(word, peer)
            group.send(word, peer)
        return float(word[0])
    taken: list[float] = []
    end = time.monotonic() + LATENCY_SECONDS
    while len(taken) < WARM_UP_TRIPS + ROUND_TRIPS and (len(taken) <= WARM_UP_TRIPS or time.monotonic() < end):
        start = time.perf_counter()
        group.send(word, peer)
        group.recv(word, peer)
        taken.append(time.perf_counter() - start)
    counted = sorted(taken[WARM_UP_TRIPS:])
    # The lower quartile; numpy's own, like its median, imports numpy.ma, which takes longer than the whole measurement.
    word[0] = np.interp((len(counted) - 1) / 4, range(len(counted)), counted) / 2
    group.send(word, peer)
    group.recv(word, peer)
    return float(word[0])


def send_stream(group: Group, peer: int, seconds: float, enough: int) -> None:
    """Send streams to `peer`, which calls `receive_stream`.

    The streams grow until three equally long ones take about `seconds` together, or until 1.5 times as long has passed.
    enough: bytes that a stream must have to count; shorter ones measure wake-ups rather than a link.
    """
    size, equal = SMALLEST_STREAM, 0
    answer = np.zeros(2)
    latest = time.monotonic() + 1.5 * seconds
    while True:
        _send(group, peer, size // STREAM_PIECES)
        group.recv(answer, peer)
        rate, taken = answer
        long = size >= enough and (taken >= seconds / (STREAMS + 1) or size == LARGEST_STREAM)
        equal = equal + 1 if long else 0
        if equal == STREAMS or (long and time.monotonic() > latest):
            break
        if not long:
            size = int(min(max(rate * seconds / STREAMS, 2 * size, enough), STREAM_GROWTH * size, LARGEST_STREAM))
    group.send(np.zeros(1, np.int64), peer)


def receive_stream(group: Group, peer: int) -> float:
    """Return the bytes per second that arrived from `peer`.

    The fastest of its longest streams counts where the kernel counts bytes, as a rank that waits for a core can only
    slow a stream down, and else their median.
    """
    size = np.zeros(1, np.int64)
    rates: dict[int, list[float]] = {}
    counted = False
    while group.recv(size, peer) == peer and size[0]:
        arrivals = _receive(group, peer, int(size[0]))
        rate, counted = arrivals.rate(SETTLED_PIECES), arrivals.counted
        rates.setdefault(int(size[0]), []).append(rate)
        group.send(np.array([rate, arrivals.seconds]), peer)
    longest = rates[max(rates)]
    return max(longest) if counted else median(longest)


def _send(group: Group, peer: int, size: int) -> None:
    piece = np.zeros(size, np.uint8)
    group.send(np.array([size], np.int64), peer)
    under_way: deque[Operation | int | None] = deque()
    for _ in range(STREAM_PIECES):
        under_way.append(group.send(piece, peer, async_op=True))
        if len(under_way) == IN_FLIGHT:
            _finish(under_way.popleft())
    for operation in under_way:
        _finish(operation)


def _receive(group: Group, peer: int, size: int) -> Arrivals:
    pieces = [np.zeros(size, np.uint8) for _ in range(IN_FLIGHT)]
    under_way = deque(group.recv(piece, peer, async_op=True) for piece in pieces)
    arrivals = Arrivals(group, peer)
    for number in range(STREAM_PIECES):
        _finish(under_way.popleft())
        arrivals.add(size)
        if number + IN_FLIGHT < STREAM_PIECES:
            under_way.append(group.recv(pieces[number % IN_FLIGHT], peer, async_op=True))
    return arrivals


def _finish(operation: Operation | int | None) -> None:
    assert isinstance(operation, Operation)
    operation.wait()
