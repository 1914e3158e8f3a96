"""Epochs that are left before their end: the order of the next one is that of torch's DataLoader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from paceline.torch.data import Loader

EPOCHS = [(1, None), (0, 1, None), (2, 3, None, None), (None, 1, None)]
"""The batches that are taken of each epoch; None: all."""

DATA = [torch.tensor(float(number)) for number in range(100)]


def shuffled(generator: torch.Generator) -> dict[str, Any]:
    return {"shuffle": True, "generator": generator}


def sampled(generator: torch.Generator) -> dict[str, Any]:
    return {"sampler": RandomSampler(DATA, generator=generator)}


def drawn_again(generator: torch.Generator) -> dict[str, Any]:
    return {"sampler": RandomSampler(DATA, replacement=True, generator=generator)}


def both(generator: torch.Generator) -> dict[str, Any]:
    return {**drawn_again(generator), "generator": torch.Generator().manual_seed(1)}


class Numpys(SequentialSampler):
    """A sampler whose `generator` is another library's."""

    generator = numpy.random.default_rng(0)


def numpys(_generator: torch.Generator) -> dict[str, Any]:
    return {"sampler": Numpys(DATA)}


def taken(kind: Callable[..., Any], order: Callable[..., dict[str, Any]], workers: int, epochs: tuple[Any, ...]) -> Any:
    generator = torch.Generator().manual_seed(0)
    loader = kind(DATA, batch_size=30, num_workers=workers, **order(generator))
    found = []
    for count in epochs:
        batches = iter(loader)
        found.append([next(batches).tolist() for _ in range(len(loader) if count is None else count)])
        if count is None:
            assert next(batches, None) is None
        del batches
    if kind is Loader:
        loader.close()
    return found


@pytest.mark.parametrize("epochs", EPOCHS)
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("order", [shuffled, sampled, drawn_again, both, numpys])
def test_a_generator_goes_on_behind_what_was_taken(order: Any, workers: int, epochs: tuple[int | None, ...]) -> None:
    assert taken(Loader, order, workers, epochs) == taken(DataLoader, order, workers, epochs)


def test_a_seed_that_is_set_in_between_counts() -> None:
    generator = torch.Generator().manual_seed(0)
    loader = Loader(DATA, batch_size=7, **shuffled(generator))
    next(iter(loader))
    found = []
    for _ in range(2):
        assert len(list(loader)) == len(loader)  # nothing more is drawn
        generator.manual_seed(5)
        found.append([batch.tolist() for batch in loader])
    loader.close()
    assert found[0] == found[1]
