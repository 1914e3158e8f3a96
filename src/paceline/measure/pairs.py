"""What two ranks measure between them: the time of a small message, and the rate of many large ones."""

from __future__ import annotations

import time
from collections import deque
from statistics import median

import numpy as np

from paceline.group.group import Group
from paceline.group.operation import Operation

ROUND_TRIPS = 16
_WARM_UP = 2
_LATENCY_SECONDS = 0.05
"""No more round trips after that, where each takes long."""
_PIECES = 32
_SETTLED = 8
"""Pieces that arrive before the clock starts: what a shaper lets through at first, and TCP's slow start."""
_SMALLEST, _LARGEST = 64 << 10, 256 << 20
"""Bytes of the first and the longest stream."""
_GROWTH = 16
_STREAMS = 3
"""A rank that lost its core for a moment spoils one of them."""
_IN_FLIGHT = 4


def latency(group: Group, peer: int) -> float:
    """Seconds that a small message takes to the peer: half of a round trip on a good day, the lower quartile of many.

    Both call it, and get the same.
    """
    word = np.zeros(1)  # 0: another round trip follows; else the result, which ends it
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
    """Streams to the peer, which calls `receive_stream`: ever longer ones, until three equally long ones take about
    `seconds` together, or half as much again has passed.

    enough: bytes that a stream must have to count; shorter ones say more about waking up than about a link.
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
    """Bytes per second that arrived: the median of the peer's longest streams."""
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
    """Bytes per second after the first pieces, and the seconds that all took."""
    pieces = [np.zeros(size, np.uint8) for _ in range(_IN_FLIGHT)]
    under_way = deque(group.recv(piece, peer, async_op=True) for piece in pieces)
    begun = time.perf_counter()
    arrived = []
    for number in range(_PIECES):
        _finish(under_way.popleft())
        arrived.append(time.perf_counter())
        if number + _IN_FLIGHT < _PIECES:
            under_way.append(group.recv(pieces[number % _IN_FLIGHT], peer, async_op=True))
    # The slope of all arrivals: the first and the last alone say little of a rank that shares its core.
    per_piece = float(np.polyfit(np.arange(_SETTLED, _PIECES), np.array(arrived[_SETTLED:]) - begun, 1)[0])
    return size / max(per_piece, 1e-9), arrived[-1] - begun


def _finish(operation: Operation | int | None) -> None:
    assert isinstance(operation, Operation)
    operation.wait()
