"""horovod.run: a function on several ranks."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from paceline import horovod


def summed(factor: float, *, fail: str = "") -> tuple[int, Any]:
    import torch

    import paceline.horovod.torch as hvd

    hvd.init()
    if fail == "raise" and hvd.rank() == 1:
        raise KeyError("of rank 1")
    if fail == "die" and hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return hvd.rank(), hvd.allreduce(torch.tensor([factor * (hvd.rank() + 1)]), op=hvd.Sum).item()


def test_results_come_in_rank_order() -> None:
    assert horovod.run(summed, args=(2.0,), np=2, hosts="localhost:2", use_mpi=True) == [(0, 6.0), (1, 6.0)]


@pytest.mark.parametrize(
    ("fail", "words"), [("raise", "rank 1 failed: (?s:.*)KeyError: 'of rank 1'"), ("die", "rank [01] failed: ")]
)
def test_a_failure_is_raised_here(fail: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        horovod.run(summed, args=(2.0,), kwargs={"fail": fail}, num_proc=2)


def test_what_cannot_be_started() -> None:
    with pytest.raises(ValueError, match="at least one rank, not 0"):
        horovod.run(summed, num_proc=0)
    with pytest.raises(ValueError, match="host far is not this machine"):
        horovod.run(summed, num_proc=3, hosts="localhost:2,far:1")
