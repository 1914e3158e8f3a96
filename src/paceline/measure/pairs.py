"""Measure between two ranks: the time of a small message, and the rate of many large ones."""

from __future__ import annotations

import time
from collections import deque
from statistics import median

import numpy as np

from paceline.group.group import Group
from paceline.group.operation import Operation

ROUND_TRIPS = 16
"""Round trips that are measured."""
_WARM_UP = 2
"""Round trips before them that are not counted."""
_LATENCY_SECONDS = 0.05
"""Seconds after which no more round trips begin, where each takes long."""
_PIECES = 32
"""Messages of a stream."""
_SETTLED = 8
"""Messages that arrive before the clock starts, because of a shaper's burst and TCP's slow start."""
_SMALLEST, _LARGEST = 64 << 10, 256 << 20
"""Bytes of the first and the longest stream."""
_GROWTH = 16
"""A factor: the next stream is at most this many times as long."""
_STREAMS = 3
"""Streams of equal length of which the median counts; a rank that loses its core for a moment spoils one of them."""
_IN_FLIGHT = 4
"""Messages that are sent or received at once."""


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
    end = time.monotonic() + _LATENCY_SECONDS
    while len(taken) < _WARM_UP + ROUND_TRIPS and (len(taken) <= _WARM_UP or time.monotonic() < end):
        start = time.perf_counter()
        group.send(word, peer)
        group.recv(word, peer)
        taken.append(time.perf_counter() - start)
    word[0] = np.quantile(taken[_WARM_UP:], 0.25) / 2
    group.send(word, peer)
    group.recv(word, peer)
    return float(word[0])


def send_stream(group: Group, peer: int, seconds: float, enough: int) -> None:
    """Send streams to `peer`, which calls `receive_stream`.

    The streams grow until three equally long ones take about `seconds` together, or until 1.5 times as long has passed.
    enough: bytes that a stream must have to count; shorter ones measure wake-ups rather than a link.
    """
    size, equal = _SMALLEST, 0
    answer = np.zeros(2)
    latest = time.monotonic() + 1.5 * seconds
    while True:
        _send(group, peer, size // _PIECES)
        group.recv(answer, peer)
        rate, taken = answer
        long = size >= enough and (taken >= seconds / (_STREAMS + 1) or size == _LARGEST)
        equal = equal + 1 if long else 0
        if equal == _STREAMS or (long and time.monotonic() > latest):
            break
        if not long:
            size = int(min(max(rate * seconds / _STREAMS, 2 * size, enough), _GROWTH * size, _LARGEST))
    group.send(np.zeros(1, np.int64), peer)


def receive_stream(group: Group, peer: int) -> float:
    """Return the bytes per second that arrived from `peer`, the median of its longest streams."""
    size = np.zeros(1, np.int64)
    rates: dict[int, list[float]] = {}
    while group.recv(size, peer) == peer and size[0]:
        rate, taken = _receive(group, peer, int(size[0]))
        rates.setdefault(int(size[0]), []).append(rate)
        group.send(np.array([rate, taken]), peer)
    return median(rates[max(rates)])


def _send(group: Group, peer: int, size: int) -> None:
    piece = np.zeros(size, np.uint8)
    group.send(np.array([size], np.int64), peer)
    under_way: deque[Operation | int | None] = deque()
    for _ in range(_PIECES):
        under_way.append(group.send(piece, peer, async_op=True))
        if len(under_way) == _IN_FLIGHT:
            _finish(under_way.popleft())
    for operation in under_way:
        _finish(operation)


def _receive(group: Group, peer: int, size: int) -> tuple[float, float]:
    """The bytes per second after the first messages, and the seconds that all of them took."""
    pieces = [np.zeros(size, np.uint8) for _ in range(_IN_FLIGHT)]
    under_way = deque(group.recv(piece, peer, async_op=True) for piece in pieces)
    begun = time.perf_counter()
    arrived = []
    for number in range(_PIECES):
        _finish(under_way.popleft())
        arrived.append(time.perf_counter())
        if number + _IN_FLIGHT < _PIECES:
            under_way.append(group.recv(pieces[number % _IN_FLIGHT], peer, async_op=True))
    # The slope of all arrivals is used; the first and the last alone mean little where a rank shares its core.
    per_piece = float(np.polyfit(np.arange(_SETTLED, _PIECES), np.array(arrived[_SETTLED:]) - begun, 1)[0])
    return size / max(per_piece, 1e-9), arrived[-1] - begun


def _finish(operation: Operation | int | None) -> None:
    assert isinstance(operation, Operation)
    operation.wait()
