"""ShardedOptimizer: gradients that come in any order, and ranks that end before they all have."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from sharded_training import Net, backward, loss_of, model
from torch_ranks import Ranks

from paceline.errors import CommunicationError, PeerLost
from paceline.torch import GradientBuckets, ShardedOptimizer

Pass = dict[str, Any]
PROGRAM: list[Pass] = [
    {"backward": [[None, 1, 2]], "quiet": False, "looks": False, "zero_early": False, "none": True, "zero": "model"},
    {
        "backward": [[3, 3, 3], [2, 3, None]],
        "quiet": True,
        "looks": True,
        "zero_early": False,
        "none": True,
        "zero": "",
    },
    {"backward": [[1, 3, 1]], "quiet": False, "looks": False, "zero_early": False, "none": False, "zero": "optimizer"},
]
"""Passes of three ranks."""


def check_program(rank: int, size: int, program: Sequence[Pass]) -> None:
    """The same as with GradientBuckets, whatever is left out, comes twice, is set to zero or looked at in between."""
    ours, theirs = model(rank).double(), model().double()
    optimizer = ShardedOptimizer(ours.parameters(), torch.optim.SGD, lr=0.01, momentum=0.9, bucket_bytes=12000)
    buckets = GradientBuckets(theirs, bucket_bytes=12000)
    plain = torch.optim.SGD(theirs.parameters(), lr=0.01, momentum=0.9)
    for number, one in enumerate(program):
        for net, exchange, steps in ((ours, optimizer, optimizer), (theirs, buckets, plain)):
            for part, withouts in enumerate(one["backward"]):
                quiet = part + 1 < len(one["backward"]) and one["quiet"]
                with exchange.no_sync() if quiet else nullcontext():
                    backward(net, 10 * number + part, rank, withouts[rank])
            if one["looks"]:
                torch.autograd.grad(loss_of(net, number, rank), list(net.layers.parameters()))
            if one["zero_early"]:
                net.zero_grad(set_to_none=one["none"])
            steps.step()
            if one["zero"] == "optimizer":
                steps.zero_grad(set_to_none=one["none"])
            elif one["zero"] == "model":
                net.zero_grad(set_to_none=one["none"])
        for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-13, msg=f"{name} after {number}")
    optimizer.close()
    buckets.close()


def programs(size: int) -> st.SearchStrategy[list[Pass]]:
    withouts = st.lists(st.sampled_from([None, 0, 1, 2, 3]), min_size=size, max_size=size)
    one = st.fixed_dictionaries(
        {
            "backward": st.lists(withouts, min_size=1, max_size=3),
            "quiet": st.booleans(),
            "looks": st.booleans(),
            "zero_early": st.booleans(),
            "none": st.booleans(),
            "zero": st.sampled_from(["optimizer", "model", ""]),
        }
    )
    return st.lists(one, min_size=1, max_size=4)


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_in_any_order(ranks: Ranks, size: int) -> None:
    @settings(max_examples=12, deadline=None)
    @given(programs(size))
    def holds(program: list[Pass]) -> None:
        ranks(check_program, size, program=program)

    holds()


def train(net: Net, rank: int) -> None:
    for step in range(2):
        backward(net, step, rank)


def abort_in_backward(rank: int, size: int) -> None:
    net = model()
    _optimizer = ShardedOptimizer(net.parameters(), torch.optim.SGD, bucket_bytes=6000)
    if rank == 0:
        group: Any = dist.group.WORLD
        backward(net, 0, rank)
        group.abort()
    else:
        with pytest.raises(CommunicationError, match="rank 0 called abort"):
            train(net, rank)


def die_before_the_step(rank: int, size: int) -> None:
    net = model()
    optimizer = ShardedOptimizer(net.parameters(), torch.optim.SGD)
    backward(net, 0, rank)
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(PeerLost, match=f"rank {size - 1} "):
        optimizer.step()


def test_a_rank_aborts(ranks: Ranks) -> None:
    ranks(abort_in_backward, 2, fresh=True)


def test_a_rank_dies_before_the_step(ranks: Ranks) -> None:
    with pytest.raises(AssertionError, match=r"rank 2 failed first:\nthe process died with exit code -9$"):
        ranks(die_before_the_step, 3, fresh=True)
