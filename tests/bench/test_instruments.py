"""The native instruments compute what they time."""

from __future__ import annotations

import numpy as np
import pytest

from paceline import _engine
from paceline_bench import instruments
from paceline_bench.limit import WORK, Limit


def prepared(ranks, collective, elements):
    limit = Limit(ranks)
    limit.ask(do="prepare", collective=collective, dtype="float32", op="sum", elements=elements, root=0, codec="")
    return limit


@pytest.mark.parametrize("collective", WORK)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_the_limit_is_right_before_it_is_timed(collective, ranks):
    for elements in (1, 2, 16, 25, 17_500, 786_432):
        limit = prepared(ranks, collective, elements)
        assert limit.ask(do="verify", seeds=[1, 2]) == [{"wrong": 0, "algorithm": WORK[collective]}]
        (found,) = limit.ask(do="burst", calls=4)
        assert found["seconds"] > 0 and found["cpu_seconds"] > 0
        assert limit.ask(do="verify", seeds=[3])[0]["wrong"] == 0


@pytest.mark.parametrize(("collective", "ranks_with_it"), [("all_reduce", 1), ("sendrecv", 3)])
def test_a_pass_that_does_nothing_is_wrong_in_every_element_of_the_result(collective, ranks_with_it, monkeypatch):
    limit = prepared(3, collective, 1000)
    monkeypatch.setattr(instruments, "time_passes", lambda *arguments: 0)
    (found,) = limit.ask(do="verify", seeds=[1])
    assert found["wrong"] > 0.9 * 1000 * ranks_with_it  # a sum may be as one of its terms by chance


def test_the_yardstick_and_the_kernel_do_the_same_work():
    a, b = np.arange(1, 8, dtype=np.float32), np.arange(7, -6, -2, dtype=np.float32)
    reduced, added = np.zeros_like(a), np.zeros_like(a)
    dtype, op = _engine.DTYPES["float32"], _engine.OPS["SUM"]
    inputs = a.ctypes.data, b.ctypes.data, a.size, 3
    assert instruments.time_reduce(dtype, op, 1.0, reduced.ctypes.data, *inputs) > 0
    assert instruments.time_add(added.ctypes.data, *inputs) > 0
    assert reduced.tolist() == added.tolist() == [8, 7, 6, 5, 4, 3, 2]
