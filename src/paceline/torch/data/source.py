"""The source of a machine's batches: a dataset through torch's DataLoader, or an iterable. Each is written to a slot.

With a DataLoader its input workers write, each the batches that it makes: what travels to the process that reads is
the description alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader
from torch.utils.data._utils.collate import collate, default_collate_fn_map

from paceline.calibration.torch import MOST_AHEAD
from paceline.torch.data import layout
from paceline.torch.data.chance import Chance
from paceline.torch.data.layout import Layout
from paceline.torch.data.pool import Pool
from paceline.torch.data.rewind import Rewind
from paceline.torch.data.shares import Cut, Shares, cuts, spare, split
from paceline.torch.data.slots import Slots
from paceline.torch.freed_memory import keep_freed_memory


@dataclass(frozen=True)
class Written:
    """A batch in its slot. cuts: each rank's part. ns: the nanoseconds that one process took to make it."""

    slot: int
    layout: Layout
    cuts: dict[int, Cut]
    ns: int


class Source(Protocol):
    """The batches of one machine."""

    ahead: int
    """The most batches that are being made beside those that were."""

    def begin(self) -> Generator[Written]:
        """Begin an epoch. Called where processes may be forked, after the pool was told to reclaim."""
        ...


@dataclass(frozen=True)
class Division:
    """The order in which ranks get the samples of a batch: machine by machine. here: the ranks of this machine."""

    order: tuple[int, ...]
    here: tuple[int, ...]

    def part(self, counts: Sequence[int]) -> slice:
        """Return this machine's part of a batch of which every rank gets `counts` samples."""
        before = self.order[: self.order.index(self.here[0])]
        begin = sum(counts[rank] for rank in before)
        return slice(begin, begin + sum(counts[rank] for rank in self.here))


@dataclass(frozen=True)
class Task:
    """A batch to be made: the indices of its samples, and where to write it. spare: as of `layout.plan`."""

    slot: int
    indices: tuple[Any, ...]
    spare: int = 0


class Writer:
    """Stands for a dataset in the input workers: it gets a whole batch's samples, collates and writes them."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any], slots: Slots) -> None:
        self._dataset, self._collate, self._slots = dataset, collate, slots
        self._largest = 0

    def __getitems__(self, task: Task) -> tuple[int, Layout, int]:
        begun = time.monotonic_ns()
        several = getattr(self._dataset, "__getitems__", None)
        indices = list(task.indices)
        try:
            samples = several(indices) if several else [self._dataset[index] for index in indices]
            batch = self._collate(samples)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:  # it would end an input worker without a word
            raise RuntimeError(f"the dataset raised {error!r}") from error
        planned, tensors = layout.plan(batch, task.spare)
        if (made := planned.rows - task.spare) != len(indices):
            raise ValueError(
                f"collate_fn made a batch of {made} samples from {len(indices)}: the first dimension of all tensors "
                "is the samples"
            )
        if self._collate is not _collate and made > 1:
            layout.require_fields(batch, made, lambda: self._collate(samples[:-1]))
        if planned.nbytes > self._largest:
            # Malloc may keep what one batch's samples took, and as much for decoding. It would give them back to the
            # system after each batch, and to fault them in again takes a third of the time of an image of 224×224.
            keep_freed_memory(2 * (planned.nbytes - self._largest))
            self._largest = planned.nbytes
        layout.write(planned, tensors, self._slots.array(task.slot, planned.nbytes))
        return task.slot, planned, time.monotonic_ns() - begun


class FromDataset:
    """This machine's parts of the batches of a dataset, by a DataLoader.

    order: the indices of an epoch, the same on every machine; it is iterated once an epoch. options: DataLoader's.
    generator: the user's, from which the order is drawn.
    """

    def __init__(
        self,
        dataset: Any,
        order: Iterable[Any],
        batch_size: int,
        drop_last: bool,
        collate_fn: Callable[[list[Any]], Any] | None,
        options: dict[str, Any],
        generator: torch.Generator | None,
        division: Division,
        shares: Shares,
        slots: Slots,
        pool: Pool,
    ) -> None:
        self._batches: Iterable[list[Any]] = BatchSampler(order, batch_size, drop_last)
        self._division, self._shares, self._pool = division, shares, pool
        self._cuts: dict[int, dict[int, Cut]] = {}  # by slot, as workers may end in another order than they began
        self._loader: DataLoader[Any] = DataLoader(
            Writer(dataset, collate_fn or _collate, slots),  # type: ignore[arg-type]
            batch_sampler=self,  # type: ignore[arg-type]
            collate_fn=_unchanged,
            **options,
        )
        self.ahead = self._loader.num_workers * (self._loader.prefetch_factor or 1)
        self.chance = Chance() if not self._loader.num_workers else None
        """The generator from which the reading thread draws; None where input workers draw."""
        self._rewind = Rewind(generator, self.ahead + MOST_AHEAD + 1) if generator is not None else None
        self.drawn: Tensor | None = None
        """The state of the default generator from which an epoch draws; None for the one that it has at the begin."""

    def __iter__(self) -> Iterator[Task]:
        """The DataLoader asks for its tasks here, and runs ahead by `ahead` of them."""
        self._cuts.clear()
        here = self._division.here
        batches = self._batches if self._rewind is None else self._rewind.noting(self._batches)
        for number, indices in enumerate(batches):
            counts = split(len(indices), self._shares.at(number))
            own = [counts[rank] for rank in here]
            slot = self._pool.take()
            self._cuts[slot] = cuts(here, own, len(indices))
            mine = indices[self._division.part(counts)] or indices[:1]
            yield Task(slot, tuple(mine), spare(own))

    def rewound(self, asked: int) -> Tensor | None:
        """The state that the given generator will have at the begin of the next epoch, None if none was given.

        asked: how often this process has asked for a batch of the epoch that it leaves. As with DataLoader, the
        generator has then drawn these batches, and as many more as input workers have under way.
        """
        return None if self._rewind is None else self._rewind.choose(asked + self.ahead)

    def begin(self) -> Generator[Written]:
        """Begin an epoch: start the input workers."""
        if self._rewind is not None:
            self._rewind.apply()
        made = iter(self._loader)
        if self.chance is not None:
            self.chance.begin(torch.get_rng_state() if self.drawn is None else self.drawn)
        return self._written(made)

    def _written(self, made: Iterator[Any]) -> Generator[Written]:
        while True:
            with self.chance or nullcontext():
                found = next(made, None)
            if found is None:
                return
            slot, planned, ns = found
            yield Written(slot, planned, self._cuts.pop(slot), ns)


class FromIterable:
    """The batches of an iterable, which are this machine's own.

    alone: whether all ranks are on this machine, so that its batches are all there are.
    """

    ahead = 0

    def __init__(
        self,
        batches: Iterable[Any],
        here: Sequence[int],
        alone: bool,
        shares: Shares,
        slots: Slots,
        pool: Pool,
    ) -> None:
        self._batches, self._here, self._alone = batches, tuple(here), alone
        self._shares, self._slots, self._pool = shares, slots, pool

    def begin(self) -> Generator[Written]:
        """Begin an epoch: the iterable begins again."""
        return self._written(iter(self._batches))

    def _written(self, batches: Iterator[Any]) -> Generator[Written]:
        number, begun = 0, time.monotonic_ns()
        for batch in batches:
            if not number:
                layout.refuse_images(batch)
            planned, tensors = layout.plan(batch)
            if planned.rows:
                weights = self._shares.at(number)
                counts = split(planned.rows, [weights[rank] for rank in self._here])
                found = cuts(self._here, counts, planned.rows if self._alone else None)
                if extra := spare(counts):
                    planned, tensors = layout.plan(batch, extra)
                slot = self._pool.take()
                layout.write(planned, tensors, self._slots.array(slot, planned.nbytes))
                yield Written(slot, planned, found, time.monotonic_ns() - begun)
                number += 1
            begun = time.monotonic_ns()


def _stack(samples: Sequence[Tensor], *, collate_fn_map: object = None) -> layout.Stack:
    return layout.Stack(samples)


_COLLATE = {**default_collate_fn_map, Tensor: _stack}


def _collate(samples: list[Any]) -> Any:
    """As torch's default_collate, but samples are stacked where the batch will be, and not in /dev/shm before."""
    return collate(samples, collate_fn_map=_COLLATE)


def _unchanged(value: Any) -> Any:
    return value
