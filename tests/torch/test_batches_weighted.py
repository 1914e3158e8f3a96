"""Ranks with unequal parts of batches train as one process does on whole batches, to the last bits of float64."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch_ranks import Ranks

from paceline.calibration.torch import SPEED_WINDOW
from paceline.torch import GradientBuckets
from paceline.torch.data import Loader, Weighted, weighted_hook
from paceline.torch.data.speed import Speed

WAYS = ["loss", "hook", "buckets"]
"""How the weights get into the mean."""
SIZES = (64, 32)
NUMBERS = (117, 115)
FEATURES, TARGETS = 5, 2


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 7), nn.Tanh(), nn.Linear(7, TARGETS)).double()


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def samples(count: int, seed: int) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    return (
        torch.randn(count, FEATURES, generator=chance, dtype=torch.float64),
        torch.randn(count, TARGETS, generator=chance, dtype=torch.float64),
    )


def train(way: str, batches: Any) -> nn.Module:
    """The model after an epoch, trained by all ranks."""
    model = network()
    taken: nn.Module = model
    buckets = None
    if way == "buckets":
        buckets = GradientBuckets(model, batches=batches)
    else:
        taken = DistributedDataParallel(model)
    if way == "hook":
        taken.register_comm_hook(batches, weighted_hook)  # type: ignore[operator]
    optimizer = sgd(model)
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = mse_loss(taken(inputs), targets)
        (loss * batches.weight if way == "loss" else loss).backward()
        optimizer.step()
    if buckets is not None:
        buckets.close()
    return model


def train_alone(batches: Iterable[tuple[Tensor, Tensor]]) -> nn.Module:
    model = network()
    optimizer = sgd(model)
    for inputs, targets in batches:
        optimizer.zero_grad()
        mse_loss(model(inputs), targets).backward()
        optimizer.step()
    return model


def assert_same(ours: nn.Module, theirs: nn.Module) -> None:
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


def own_batches(rank: int) -> list[tuple[Tensor, Tensor]]:
    """Of one rank; the last is ragged."""
    size, number = SIZES[rank], NUMBERS[rank]
    inputs, targets = samples(size * number - 13, rank)
    return list(zip(inputs.split(size), targets.split(size), strict=True))


def check_own_loaders(rank: int, size: int, way: str) -> None:
    """The ranks that docs/faster/data.md speaks of: 117 batches of 64, and 115 of 32."""
    assert len(own_batches(rank)) == NUMBERS[rank]
    ours = train(way, Weighted(own_batches(rank)))
    everyone = [own_batches(each) for each in range(size)]
    combined = [
        tuple(torch.cat([batches[step][part] for batches in everyone if step < len(batches)]) for part in (0, 1))
        for step in range(max(NUMBERS))
    ]
    assert_same(ours, train_alone(combined))  # type: ignore[arg-type]


@pytest.mark.parametrize("way", WAYS)
def test_117_batches_of_64_beside_115_of_32_are_one_process(ranks: Ranks, way: str) -> None:
    ranks(check_own_loaders, 2, way=way)


class Rows:
    def __init__(self, count: int) -> None:
        self.inputs, self.targets = samples(count, 1)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.targets[index]


def on_machines(machines: str, rank: int) -> None:
    """The loader takes it that the rank is on the machine with this letter."""
    os.environ["PACELINE_MACHINE"] = f"machine-{machines[rank]}"


def check_uneven_shares(rank: int, size: int, way: str, machines: str, samples: int) -> None:
    on_machines(machines, rank)
    data = Rows(samples)
    loader = Loader(data, batch_size=20, shares=[64, 32, 5][:size], sampler=list(reversed(range(samples))))
    ours = train(way, loader)
    loader.close()
    inputs, targets = data.inputs.flip(0), data.targets.flip(0)
    assert_same(ours, train_alone(zip(inputs.split(20), targets.split(20), strict=True)))


@pytest.mark.parametrize("machines", ["aaa", "aba", "abc"])
@pytest.mark.parametrize("way", WAYS)
def test_a_divided_batch_is_the_whole_batch(ranks: Ranks, way: str, machines: str) -> None:
    ranks(check_uneven_shares, 3, way=way, machines=machines, samples=141, fresh=True)  # the last batch has 1 sample


def check_machines_with_data_of_their_own(rank: int, size: int, machines: str) -> None:
    on_machines(machines, rank)
    own = {"a": own_batches(0)[:5], "b": own_batches(1)[:3]}
    model = train("loss", loader := Loader(own[machines[rank]]))
    loader.close()
    combined = [
        tuple(torch.cat([batches[step][part] for batches in own.values() if step < len(batches)]) for part in (0, 1))
        for step in range(5)
    ]
    assert_same(model, train_alone(combined))  # type: ignore[arg-type]


@pytest.mark.parametrize("machines", ["aab", "baa"])
def test_machines_may_have_unequal_numbers_of_batches(ranks: Ranks, machines: str) -> None:
    ranks(check_machines_with_data_of_their_own, 3, machines=machines, fresh=True)


def everything(own: list[Any]) -> list[list[Any]]:
    found: list[list[Any]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(found, own)
    return found


def check_an_epoch(rank: int, size: int, machines: str) -> list[int]:
    on_machines(machines, rank)
    loader = Loader(range(101), batch_size=10, shuffle=True, collate_fn=torch.tensor)
    orders = []
    for _ in range(2):
        mine, number = [], 0
        for batch in loader:
            mine += [] if loader.weight == 0 else batch.tolist()
            number += 1
        assert number == len(loader) == 11
        seen = everything(mine)
        assert sorted(chain(*seen)) == list(range(101))
        orders.append(seen)
    assert orders[0] != orders[1]
    loader.close()
    return orders[0]


@pytest.mark.parametrize("machines", ["aaaa", "abab", "abbb"])
def test_an_epoch_is_seen_exactly_once(ranks: Ranks, machines: str) -> None:
    orders = ranks(check_an_epoch, 4, machines=machines, fresh=True)
    assert all(order == orders[0] for order in orders)


def test_batches_are_shared_without_paceline_beside_them(ranks: Ranks) -> None:
    ranks(check_an_epoch, 2, machines="aa", backend="gloo", fresh=True)


def check_shares_by_speed(rank: int, size: int, machines: str) -> None:
    on_machines(machines, rank)
    fast = [300.0, 100.0, 100.0]
    Speed.take = lambda self: fast[rank]  # type: ignore[method-assign]
    count = 10 * 10 * SPEED_WINDOW
    loader = Loader(range(count), batch_size=10, collate_fn=torch.tensor, shares="speed")
    sizes, mine, weights = [], [], []
    for batch in loader:
        sizes.append(len(batch))
        mine += batch.tolist()
        weights.append(loader.weight)
    together = everything([sizes, mine, weights])
    assert sorted(chain(*(one[1] for one in together))) == list(range(count))
    assert all(sum(step) == 10 for step in zip(*(one[0] for one in together), strict=True))
    assert all(abs(sum(step) - size) < 1e-12 for step in zip(*(one[2] for one in together), strict=True))
    assert [one[0][-1] for one in together] == [6, 2, 2]
    loader.close()


@pytest.mark.parametrize("machines", ["aaa", "abb"])
def test_shares_follow_speed_and_no_sample_is_lost(ranks: Ranks, machines: str) -> None:
    ranks(check_shares_by_speed, 3, machines=machines, fresh=True)


def check_kept_tensors(rank: int, size: int) -> int:
    """Whoever keeps tensors has them as they were, and the memory is used again once they are gone."""
    loader = Loader(range(40 * size), batch_size=size, collate_fn=torch.tensor)
    kept = list(loader)
    assert [one.item() for one in kept] == [step * size + rank for step in range(40)]
    for one in kept:
        one += 1000  # its own part, and nobody else's
    assert [one.item() for one in kept] == [1000 + step * size + rank for step in range(40)]
    del kept[:], one
    dist.barrier()
    for _ in range(3):
        assert sum(1 for _ in loader) == 40
    hosted = loader._place.hosted
    loader.close()
    return hosted.pool._count if hosted is not None else 0


def test_tensors_may_be_kept_and_written_to(ranks: Ranks) -> None:
    slots = ranks(check_kept_tensors, 2)
    assert slots[0] <= 40 + 8 + 2


def check_own_memory(rank: int, size: int, machines: str, count: int) -> None:
    """Ranks that have no sample of a batch get one that is nobody else's."""
    on_machines(machines, rank)
    rows = torch.arange(1.0, count + 1)
    for loader in (
        Loader(rows, batch_size=4, collate_fn=torch.stack),
        Loader([rows[begin : begin + 4] for begin in range(0, count, 4)]),
    ):
        for batch in loader:
            kept = batch.clone()
            dist.barrier()
            batch += 100 * (rank + 1)
            dist.barrier()
            assert torch.equal(batch, kept + 100 * (rank + 1))
        loader.close()


@pytest.mark.parametrize(("machines", "count"), [("aaa", 5), ("aaa", 6), ("abb", 5)])
def test_a_rank_without_samples_has_memory_of_its_own(ranks: Ranks, machines: str, count: int) -> None:
    ranks(check_own_memory, 3, machines=machines, count=count, fresh=True)


def check_batches_that_are_changed(rank: int, size: int, machines: str) -> None:
    """A batch that a rank gets to take part in a step is as it was read, whatever was done to those before."""
    on_machines(machines, rank)
    for kind in (Weighted, Loader):
        batches, steps = kind([[torch.full((2, 1), 2.0)] for _ in range(3 if rank == 0 else 1)]), 0
        for (batch,) in batches:
            assert batch.eq(2.0).all()
            batch.sub_(2.0).log_()
            steps += 1
        assert steps == 3


def test_repeated_batches_are_as_they_were(ranks: Ranks) -> None:
    ranks(check_batches_that_are_changed, 2, machines="ab", fresh=True)


class Noisy:
    """Samples with noise, from each of the ways in which datasets draw it."""

    def __len__(self) -> int:
        return 14

    def __getitem__(self, index: int) -> Tensor:
        noise = torch.rand(1) + torch.randn_like(torch.zeros(1)) + torch.empty(1).uniform_()
        return torch.cat([torch.tensor([float(index)]), noise, torch.randint(100, (1,))])


def check_seeds(rank: int, size: int, workers: int, given: bool) -> None:
    multiprocessing.current_process().daemon = False  # it has input workers
    options = {"batch_size": 4, "shuffle": True, "num_workers": workers}
    if workers:
        options["multiprocessing_context"] = "fork"  # type: ignore[assignment]  # others import torch anew
    found = []
    for kind in (DataLoader, Loader):
        torch.manual_seed(7)
        loader = kind(Noisy(), **options, **({"generator": torch.Generator().manual_seed(5)} if given else {}))  # type: ignore[operator]
        rows = []
        for _ in range(2):
            mine = []
            for batch in loader:
                if kind is DataLoader:
                    rows.append(batch.clone())
                else:
                    mine.append(batch.clone())
            parts = everything(mine)
            rows += [torch.cat(both) for both in zip(*parts, strict=True)]
        found.append(torch.cat(rows))
        if kind is Loader:
            loader.close()
    assert torch.equal(*found)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_seed_gives_what_dataloader_gives(ranks: Ranks, workers: int, given: bool) -> None:
    ranks(check_seeds, 2, workers=workers, given=given, fresh=True)


def check_own_generator(rank: int, size: int) -> None:
    """What is drawn amid reading, by whoever trains, changes nothing of what is read."""
    found = []
    for draws in (0, 3):
        torch.manual_seed(7)
        loader = Loader(Noisy(), batch_size=4)
        batches = []
        for batch in loader:
            batches.append(batch.clone())
            torch.rand(draws)
        found.append(torch.cat(batches))
        loader.close()
    assert torch.equal(*found)


def test_who_trains_draws_apart_from_who_reads(ranks: Ranks) -> None:
    ranks(check_own_generator, 2)


class SlowFirst:
    """The first part of a batch comes when another one has been made."""

    def __init__(self) -> None:
        self.made = multiprocessing.get_context("fork").Event()

    def __len__(self) -> int:
        return 11

    def __getitem__(self, index: int) -> Tensor:
        if index < 4:
            assert self.made.wait(60)
        else:
            self.made.set()
        return torch.tensor([index])


def check_out_of_order(rank: int, size: int, machines: str) -> None:
    on_machines(machines, rank)
    options = {"batch_size": 4, "num_workers": 3, "in_order": False, "multiprocessing_context": "fork"}
    if len(set(machines)) > 1:
        with pytest.raises(ValueError, match="in_order=False is for one machine"):
            Loader(SlowFirst(), **options)  # type: ignore[arg-type]
        return
    multiprocessing.current_process().daemon = False  # it has input workers
    loader = Loader(SlowFirst(), **options)  # type: ignore[arg-type]
    parts = {batch.flatten().tolist()[0] // 4: (batch.flatten().tolist(), loader.weight) for batch in loader}
    own = [[0, 1], [4, 5], [8, 9]] if rank == 0 else [[2, 3], [6, 7], [10]]
    assert parts == {at: (own[at], len(own[at]) * 2 / min(4, 11 - 4 * at)) for at in range(3)}
    loader.close()


@pytest.mark.parametrize("machines", ["aa", "ab"])
def test_batches_that_come_out_of_order_have_their_own_cuts(ranks: Ranks, machines: str) -> None:
    ranks(check_out_of_order, 2, machines=machines, fresh=True)


def check_refusals(rank: int, size: int) -> None:
    for words, arguments in {
        "at least 1": {"batch_size": 0},
        "not both": {"batch_size": 2, "shuffle": True, "sampler": [1, 2]},
        "only shares, group and timeout": {"shuffle": True},
        "a positive weight for each of 1 ranks": {"batch_size": 2, "shares": [1, 2]},
        '"even", "speed"': {"batch_size": 2, "shares": "slow"},
    }.items():
        with pytest.raises(ValueError, match=words):
            Loader([1, 2], **arguments)  # type: ignore[arg-type]
    loader = Loader(range(6), batch_size=2, collate_fn=torch.tensor)
    first = iter(loader)
    next(first)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(RuntimeError, match="another one"):
        next(first)
    with pytest.raises(TypeError, match="no len"):
        len(Loader(endless()))
    loader.close()


def endless() -> Iterator[Tensor]:
    while True:
        yield torch.ones(3)


def test_arguments_that_make_no_sense_are_refused(ranks: Ranks) -> None:
    ranks(check_refusals, 1)
