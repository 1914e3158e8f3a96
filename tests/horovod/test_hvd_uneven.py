"""Ranks with unequal amounts of data, by the lines that docs/faster/data.md gives."""

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


def check_shared_batches(rank: int, size: int) -> None:
    """Uneven parts of a loader's batches and their weights, beside one process on whole batches."""
    import torch

    import paceline
    import paceline.horovod.torch as hvd
    from paceline.torch.data import Loader

    inputs, targets = (torch.cat(parts) for parts in zip(*uneven.loader(0), *uneven.loader(1), strict=True))
    rows = list(zip(inputs, targets, strict=True))
    model, alone = uneven.model(), uneven.model()
    optimizer = hvd.DistributedOptimizer(uneven.optimizer(model), model.named_parameters())
    group = paceline.init()
    loader = Loader(rows, batch_size=7, shares=[3, 1, 2], group=group)
    for some, wanted in loader:
        optimizer.zero_grad()
        (loader.weight * uneven.loss(model(some), wanted)).backward()
        optimizer.step()
    loader.close()
    group.close()
    stepper = uneven.optimizer(alone)
    for some, wanted in zip(inputs.split(7), targets.split(7), strict=True):
        stepper.zero_grad()
        uneven.loss(alone(some), wanted).backward()
        stepper.step()
    for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)


def test_a_loader_gives_horovods_optimizer_the_gradients_of_whole_batches(ranks: Ranks) -> None:
    ranks(check_shared_batches, 3)
