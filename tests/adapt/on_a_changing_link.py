"""A rank that calls a collective, waits for a word on its standard input, and calls it again.

Arguments: all_reduce, all_gather, reduce_scatter, or named for all-reduces that go through a coordinator; calls before
and after; how many times COUNT elements. Rank 0 says when its plans were made again.
"""

from __future__ import annotations

import logging
import sys
from contextlib import closing, nullcontext

import numpy as np

import paceline
from paceline.coordinate import Coordinator, Options, Span, coordinator

COUNT = 12 * 21846
"""Elements of the whole: for 3 ranks and for 4, and just as much as counts."""


class News(logging.Handler):
    """Says during which call, counted anew after the word, plans were made again."""

    call = 0

    def emit(self, record: logging.LogRecord) -> None:
        print(record.getMessage(), file=sys.stderr)
        if "plans made again" in record.getMessage():
            print(f"planned again by call {self.call}", file=sys.stderr)


def call(group: paceline.Group, collective: str, number: int, count: int) -> None:
    mine = np.full(count, group.rank + number, np.float32)
    part = count // group.size
    total = group.size * number + group.size * (group.size - 1) / 2
    if collective == "all_reduce":
        group.all_reduce(mine)
        assert (mine == total).all(), number
    elif collective == "all_gather":
        everything = np.empty(count, np.float32)
        group.all_gather(everything, mine[:part])
        assert (np.arange(group.size) + number == everything.reshape(group.size, part).T).all(), number
    else:
        block = np.empty(part, np.float32)
        group.reduce_scatter(block, mine)
        assert (block == total).all(), number


def call_by_name(group: paceline.Group, names: Coordinator, number: int, count: int) -> None:
    """Two, of which the ranks submit another one first."""
    arrays = [np.full(count, group.rank + number + which, np.float32) for which in (0, 1)]
    order = (0, 1) if group.rank % 2 else (1, 0)
    under_way = [names.all_reduce(f"{which}", Span.of(arrays[which])) for which in order]
    for request in under_way:
        request.wait()
    for which, array in enumerate(arrays):
        total = group.size * (number + which) + group.size * (group.size - 1) / 2
        assert (array == total).all(), (number, which)


def main(collective: str, before: int, after: int, times: int = 1) -> None:
    news = News()
    logging.getLogger("paceline.plan").addHandler(news)
    with (
        paceline.init(timeout=60) as group,
        closing(coordinator(group, Options())) if collective == "named" else nullcontext() as names,
    ):
        for calls in (before, after):
            for number in range(calls):
                news.call = number
                if names is None:
                    call(group, collective, number, times * COUNT)
                else:
                    call_by_name(group, names, number, times * COUNT)
            group.barrier()
            if group.rank == 0 and calls == before:
                print("ready", flush=True)
                sys.stdin.readline()
            group.barrier()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
