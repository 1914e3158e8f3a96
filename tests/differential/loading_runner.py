"""One rank's part of a loading, and the whole of it by DataLoader."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from loading_programs import Loading, Samples, arguments
from torch import Tensor
from torch.utils._pytree import tree_flatten
from torch.utils.data import DataLoader

Batch = tuple[str, list[Tensor]]
"""The structure in words, and the tensors in it."""


def run(rank: int, size: int, loading: Loading) -> tuple[list[list[tuple[float, Batch]]], float]:
    """Take the batches of each epoch. Returns them with their weights, and a random number drawn at the end."""
    from paceline.torch.data import Loader

    torch.manual_seed(loading.seed + rank)
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # it may have workers
    loader = Loader(Samples(loading), shares=loading.shares or "even", **arguments(loading))
    try:
        found = [[(loader.weight, _taken(batch)) for batch in _first(loader, most)] for most in loading.epochs]
    finally:
        loader.close()
    return found, float(torch.rand(()))


def alone(loading: Loading) -> tuple[list[list[Batch]], float]:
    """The batches of each epoch by DataLoader, and a random number drawn at the end."""
    with torch.random.fork_rng():
        torch.manual_seed(loading.seed)
        loader = DataLoader(Samples(loading), **arguments(loading))
        return [[_told(batch) for batch in _first(loader, most)] for most in loading.epochs], float(torch.rand(()))


def _first(batches: Iterable[Any], most: int) -> Iterator[Any]:
    """The first ones, of which no more is asked."""
    each = iter(batches)
    for _ in range(most):
        try:
            yield next(each)
        except StopIteration:
            return


def _taken(batch: Any) -> Batch:
    """What _told returns. The batch is written to, which no other rank may notice."""
    told = _told(batch)
    for leaf in tree_flatten(batch)[0]:
        leaf.zero_()
    return told


def _told(batch: Any) -> Batch:
    leaves, structure = tree_flatten(batch)
    return str(structure), [leaf.clone() for leaf in leaves]
