"""A lost rank ends the ops that wait for it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
import tensorflow as tf
from horovod_ranks import Ranks

import paceline.horovod.tensorflow as hvd
from paceline.errors import PeerLost
from paceline.horovod.tensorflow.kernels.library import LIBRARY


def lose_rank_1(rank: int, size: int, file: str) -> None:
    step = tf.function(lambda x: hvd.allreduce(x, name="gradient"))
    step(tf.ones([3]))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(tf.errors.UnknownError) as caught:
        step(tf.ones([3]))
    lost = LIBRARY.last_failure
    assert isinstance(lost, PeerLost)
    Path(file).write_text(json.dumps([caught.value.message, lost.rank, lost.tensor, lost.operation, str(lost)]))


def test_a_lost_rank_is_named_and_ends_the_function(ranks: Ranks, tmp_path: Path) -> None:
    file = tmp_path / "said"
    with pytest.raises(AssertionError, match="the process died with exit code -9"):
        ranks(lose_rank_1, 2, deadline=60, fresh=True, file=str(file))
    message, rank, tensor, operation, text = json.loads(file.read_text())
    assert '"allreduce.gradient"' in message
    assert "rank 1" in message
    assert text in message
    assert (rank, tensor) == (1, "allreduce.gradient")
    # Where the loss was noticed before the call, nobody has looked at its tensor.
    assert operation.removesuffix(" float32[3] AVG") == 'all_reduce "allreduce.gradient"'
