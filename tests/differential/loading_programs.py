"""Loadings drawn at random: a dataset, an order, a way to collate, and how the epochs are gone through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler

STRUCTURES = ("tensor", "tuple", "list", "dict", "named", "nested", "numbers", "images")
ORDERS = ("plain", "shuffle", "random", "subset", "weighted")
DTYPES = ("float32", "float64", "int64", "uint8", "bool")


@dataclass(frozen=True)
class Loading:
    """structure: of a sample; "images" are collated to a list of them, which cannot be divided.

    draws: the dataset draws a random number for each sample, in an input worker: a reading thread has its own.
    generator: a seed of one that is given, or None. collates: with a function of its own. epochs: how many batches of
    each are taken. shares: by rank, or None for even ones.
    """

    size: int
    samples: int
    shape: tuple[int, ...]
    dtype: str
    structure: str
    draws: bool
    batch: int
    order: str
    generator: int | None
    drop_last: bool
    collates: bool
    workers: int
    persistent: bool
    epochs: tuple[int, ...]
    shares: tuple[int, ...] | None
    seed: int


@st.composite
def loadings(draw: st.DrawFn) -> Loading:
    """Draw a loading by one to three ranks of one machine."""
    size = draw(st.integers(1, 3))
    workers = draw(st.sampled_from((0, 0, 0, 1, 2)))
    whole = st.just(1000)
    return Loading(
        size=size,
        samples=draw(st.integers(1, 20)),
        shape=tuple(draw(st.lists(st.integers(1, 4), max_size=3))),
        dtype=draw(st.sampled_from(DTYPES)),
        structure=draw(st.sampled_from(STRUCTURES)),
        draws=workers > 0 and draw(st.booleans()),
        batch=draw(st.integers(1, 8)),
        order=draw(st.sampled_from(ORDERS)),
        generator=draw(st.one_of(st.none(), st.integers(0, 99))),
        drop_last=draw(st.booleans()),
        collates=draw(st.booleans()),
        workers=workers,
        persistent=workers > 0 and draw(st.booleans()),
        epochs=tuple(draw(st.lists(st.one_of(whole, st.integers(1, 3)), min_size=1, max_size=3))),
        shares=draw(st.one_of(st.none(), st.lists(st.integers(1, 4), min_size=size, max_size=size).map(tuple))),
        seed=draw(st.integers(0, 2**16)),
    )


class Pair(NamedTuple):
    """A sample of two fields."""

    left: Tensor
    right: Tensor


class Samples:
    """A dataset."""

    def __init__(self, loading: Loading) -> None:
        self.loading = loading

    def __len__(self) -> int:
        return self.loading.samples

    def __getitem__(self, index: int) -> Any:
        loading = self.loading
        content = torch.full(loading.shape, index + 1, dtype=torch.float64).to(getattr(torch, loading.dtype))
        label = torch.rand(()) if loading.draws else torch.tensor(float(index))
        return {
            "tensor": lambda: content.double() + label,
            "tuple": lambda: (content, label),
            "list": lambda: [content, label],
            "dict": lambda: {"x": content, "y": label},
            "named": lambda: Pair(content, label),
            "nested": lambda: {"x": (content, [label, content]), "y": {"z": label}},
            "numbers": lambda: (index, float(label), content),
            "images": lambda: torch.full((loading.batch, 2, 2), float(index)),
        }[loading.structure]()


def collated(samples: list[Any]) -> Any:
    """One more value beside the usual ones, of as many samples."""
    return torch.utils.data.default_collate(samples), torch.arange(len(samples))


def arguments(loading: Loading) -> dict[str, Any]:
    """The arguments of DataLoader, and of Paceline's."""
    generator = None if loading.generator is None else torch.Generator().manual_seed(loading.generator)
    found: dict[str, Any] = {
        "batch_size": loading.batch,
        "drop_last": loading.drop_last,
        "num_workers": loading.workers,
        "generator": generator,
    }
    if loading.workers:
        found |= {"persistent_workers": loading.persistent, "multiprocessing_context": "fork"}
    if loading.structure == "images":
        found["collate_fn"] = list
    elif loading.collates:
        found["collate_fn"] = collated
    if loading.order == "shuffle":
        found["shuffle"] = True
    elif loading.order != "plain":
        found["sampler"] = _sampler(loading)
    return found


def _sampler(loading: Loading) -> Sampler[int]:
    own = torch.Generator().manual_seed(loading.seed)
    if loading.order == "random":
        return RandomSampler(Samples(loading), generator=own)
    if loading.order == "subset":
        return SubsetRandomSampler(range(0, loading.samples, 2), generator=own)
    if loading.order == "weighted":
        weights = [1.0 + index % 3 for index in range(loading.samples)]
        return WeightedRandomSampler(weights, loading.samples + 2, generator=own)
    return SequentialSampler(Samples(loading))
