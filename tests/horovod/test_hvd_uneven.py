"""Ranks with unequal amounts of data, by the lines that docs/how-to/uneven.md gives."""

from __future__ import annotations

import uneven
from horovod_ranks import Ranks


def check(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    model = uneven.model()
    optimizer = hvd.DistributedOptimizer(uneven.optimizer(model), model.named_parameters())
    given = {"hvd": hvd, "model": model, "optimizer": optimizer, "loader": uneven.loader(rank)}
    uneven.train("With Horovod's API", given)
    uneven.check(model.parameters(), size)
    momentum = [entry["momentum_buffer"] for entry in optimizer.state_dict()["state"].values()]
    assert all(len(set(map(str, hvd.allgather_object(one)))) == 1 for one in momentum)


def test_weighted_steps_are_those_of_one_process(ranks: Ranks) -> None:
    ranks(check, 3)
