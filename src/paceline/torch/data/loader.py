"""The batches of a job: read once per machine, cut into the parts of its ranks, and there before they are needed."""

from __future__ import annotations

import hashlib
import math
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import RandomSampler, SequentialSampler

from paceline.calibration.torch import MOST_AHEAD, SPEED_WINDOW
from paceline.errors import CommunicationError, refuse_forked
from paceline.group.group import Group
from paceline.observe.batches import BatchTimes, hidden
from paceline.process.current import running
from paceline.rendezvous import this_machine
from paceline.settings.limits import Limits
from paceline.settings.settings import Settings
from paceline.torch.data.errors import ReadingFailed
from paceline.torch.data.layout import copied
from paceline.torch.data.meeting import Hosted, meet
from paceline.torch.data.peers import peers
from paceline.torch.data.receiver import Received
from paceline.torch.data.shares import Shares
from paceline.torch.data.source import FromDataset, FromIterable, Source
from paceline.torch.data.speed import Speed, agreed

_PREFETCH = 2
"""Batches per input worker that DataLoader has under way where nobody says otherwise."""


class Loader:
    """Batches for all ranks of a job, used as torch's DataLoader is.

        loader = paceline.torch.data.Loader(dataset, batch_size=256, shuffle=True, num_workers=4)
        for inputs, targets in loader:
            optimizer.zero_grad()
            (loader.weight * loss(model(inputs), targets)).backward()
            optimizer.step()

    On each machine one rank's process reads for all: it decodes and collates this machine's part of every batch once,
    in memory that the machine's ranks share, where each rank is given its samples without a copy. Batches are made
    while ranks compute, up to 8 ahead of the slowest rank and as far as an eighth of the available memory allows.

    dataset: with `batch_size`, a dataset with `__len__` and `__getitem__`, equal on all machines. Without, an iterable
    of batches, of which each machine has its own and only the first rank's is used. A batch is made of CPU tensors and
    arrays, in lists, tuples and dicts; their first dimension is the samples.
    batch_size: the samples of a batch of *all* ranks together. The last batch of an epoch may have fewer.
    shuffle, sampler, drop_last, collate_fn, worker_init_fn: as in DataLoader. A sampler gives the same order on all
    machines; shuffling follows torch's seed on rank 0, or `generator`, and gives DataLoader's order. collate_fn keeps
    the number of samples.
    num_workers: input workers on this machine, for all its ranks together. With 0 a thread of the first rank reads.
    shares: how a batch is divided among the ranks: "even", "speed" (as each rank is measured to compute, anew every 16
    batches), or a positive weight for each rank.
    group: the ranks: a group of torch's, or one that `paceline.init()` returned. Default: all ranks of
    torch.distributed, or this process alone where that is not initialised.
    timeout: seconds that a rank waits for a batch. Default: PACELINE_TIMEOUT, or 1800.
    options: further arguments of DataLoader, such as prefetch_factor or multiprocessing_context.

    The constructor and `iter(loader)` are collectives. Tensors stay valid for as long as they are kept, and may be
    written to; a batch's memory is used again once no rank has any tensor of it. A rank that has no sample of a batch
    gets one that weighs nothing, so that it can take part in the step.

    Raises ValueError for arguments that make no sense, and CommunicationError in a forked child. An iteration raises
    ReadingFailed on each rank of the machine where the dataset raised or an input worker ended, PeerLost where the
    process that reads is gone, and Timeout.
    """

    weight: float = 0.0
    """This rank's samples × ranks / samples of all ranks, for the batch that was given last."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        *,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        shares: str | Sequence[float] = "even",
        group: dist.ProcessGroup | Group | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        if batch_size is None and (shuffle or sampler or drop_last or collate_fn or num_workers or options):
            raise ValueError("without batch_size the batches are ready: only shares, group and timeout say more")
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size is the samples of a batch, at least 1; got {batch_size}")
        if shuffle and sampler is not None:
            raise ValueError("give shuffle or a sampler, not both")
        self._pid = os.getpid()
        self._peers = peers(group)
        self._by_speed = shares == "speed"
        self._shares = Shares(_weights(shares, self._peers.size))
        self._speed = Speed()
        self._epoch = 0
        self._asked = 0
        self._source: Source | None = None  # where this process reads
        self._generator = torch.Generator()
        self._given: torch.Generator | None = None
        self._of_dataset, self._reseeds, self._base_each_epoch = False, False, True
        process = running()
        cpus = process.partition.parts.input if process is not None and process.partition is not None else ()
        self._times = process.annotations.batches if process is not None else BatchTimes()
        settings = Settings.from_environment()
        seconds = timeout or Limits.of(settings).operation
        ahead = MOST_AHEAD + num_workers * (options.get("prefetch_factor") or _PREFETCH)
        place = self._place = meet(self._peers, this_machine(settings.machine), ahead, seconds, cpus)
        self._close = weakref.finalize(self, place.close)
        self._close.atexit = False  # the reader sees to that
        if not options.get("in_order", True) and not place.one_machine:
            place.close()
            raise ValueError("in_order=False is for one machine: others would make another batch in the same step")
        if batch_size is None:
            self._counts_known = place.one_machine
            self._length: Callable[[], int] = lambda: len(dataset)
            if place.hosted is not None:
                self._source = self._from_iterable(dataset, place.hosted)
            return
        self._of_dataset = True
        self._given = options.get("generator")
        self._reseeds = shuffle
        self._base_each_epoch = not options.get("persistent_workers")
        order = sampler if sampler is not None else self._order(dataset, shuffle, self._given)
        self._counts_known = True
        self._length = lambda: (len(order) + (0 if drop_last else batch_size - 1)) // batch_size  # type: ignore[arg-type]
        options |= {"num_workers": num_workers, "worker_init_fn": worker_init_fn}
        own = getattr(sampler, "generator", None)
        drawn_from = own if isinstance(own, torch.Generator) else self._given
        if process is not None and process.partition is not None and num_workers:
            options["worker_init_fn"] = process.input_workers(worker_init_fn)
        if place.hosted is not None:
            hosted = place.hosted
            self._source = FromDataset(
                *(dataset, order, batch_size, drop_last, collate_fn, options, drawn_from),
                *(place.division, self._shares, hosted.slots, hosted.pool),
            )

    def __len__(self) -> int:
        """Return the number of batches of an epoch. TypeError where the dataset or iterable has no length."""
        return self._length()

    def __iter__(self) -> Iterator[Any]:
        """Begin an epoch; all ranks call it. An iteration that was under way ends."""
        refuse_forked(self._pid)
        self._epoch += 1
        drawn = self._draw()
        self._asked = 0
        told = self._peers.gather([drawn.seed, self._speed.take(), drawn.generator])
        if len({one[2] for one in told} - {""}) > 1:
            raise ValueError("the machines' generators are in different states: give each the same seed")
        self._generator.manual_seed(told[0][0])
        self._shares.restart()
        if self._by_speed:
            self._shares.change(0, agreed([speed for _, speed, _ in told], self._shares.at(0)))
        if self._place.hosted is not None:
            assert self._source is not None
            if drawn.after is not None:
                assert isinstance(self._source, FromDataset)
                self._source.drawn = drawn.after
                torch.set_rng_state(drawn.before)  # the source draws the workers' base seed
            self._place.hosted.reader.begin(self._epoch, self._source)
            if drawn.after is not None:
                torch.set_rng_state(drawn.after)
        return Iteration(self, self._epoch)

    @property
    def hidden_share(self) -> float | None:
        """The share of the loading, 0 to 1, during which this process did not wait for it; None before any batch."""
        return hidden(self._times.loading_ns, self._times.waited_ns)

    def close(self) -> None:
        """Read no more batches; tensors stay valid. Other ranks of this machine raise PeerLost if they want more."""
        self._close()

    def _received(self, epoch: int) -> Received | None:
        try:
            return self._place.receiver.next(epoch)
        except RuntimeError as error:
            if isinstance(error, (CommunicationError, ReadingFailed)) or self._place.hosted is None:
                raise
            # By torch's handler of SIGCHLD, which runs in the main thread alone: an input worker died.
            self._place.hosted.reader.fail(str(error))
            raise ReadingFailed(self._place.receiver.reader, str(error)) from error

    def _order(self, dataset: Any, shuffle: bool, given: torch.Generator | None) -> Iterable[Any]:
        if not shuffle:
            return SequentialSampler(dataset)
        return RandomSampler(dataset, generator=self._generator if given is None else given)

    def _draw(self) -> _Drawn:
        """Draw from the default generator what DataLoader does for an epoch: the seeds of workers and of the order."""
        reads = self._place.hosted is not None
        given = self._source.rewound(self._asked) if isinstance(self._source, FromDataset) else None
        before = torch.get_rng_state()
        if not self._reseeds or self._given is not None:
            state = given.numpy().tobytes() if given is not None and self._given is not None else b""
            if not reads and self._given is None and self._of_dataset:
                _seed()
            return _Drawn(0, hashlib.sha256(state).hexdigest() if state else "", before, None)
        if self._base_each_epoch or self._epoch == 1:
            _seed()
        return _Drawn(_seed(), "", before, torch.get_rng_state())

    def _from_iterable(self, batches: Iterable[Any], hosted: Hosted) -> Source:
        here, alone = self._place.division.here, self._place.one_machine
        return FromIterable(batches, here, alone, self._shares, hosted.slots, hosted.pool)

    def _share_anew(self, batch: int) -> None:
        """Before every so many batches: the ranks agree on shares, for batches that cannot be under way yet."""
        if self._by_speed and batch and batch % SPEED_WINDOW == 0:
            speeds = self._peers.gather(self._speed.take())
            self._shares.change(batch + self._place.ahead + 1, agreed(speeds, self._shares.at(batch)))

    def _agreed(self, received: Received | None, spare: Received | None) -> Received | None:
        """Return this machine's own batch, or a copy of `spare` without one, with the samples of all ranks in total."""
        counts = self._peers.gather(
            -1 if received is None and spare is None else received.cut.samples if received else 0
        )
        if (total := sum(max(0, count) for count in counts)) == 0:
            return None
        if -1 in counts:
            raise ValueError(f"rank {counts.index(-1)} has no batch, where others have: it has none to repeat")
        if received is not None:
            return replace(received, cut=replace(received.cut, total=total))
        assert spare is not None
        return Received(copied(spare.content), replace(spare.cut, samples=0, total=total), 0)


@dataclass(frozen=True)
class _Drawn:
    """A rank's draw for an epoch. generator: the digest of the one that it was given and reads with, or "".

    before, after: the default generator's states; after is None where the order is not the loader's own.
    """

    seed: int
    generator: str
    before: Tensor
    after: Tensor | None


def _seed() -> int:
    return int(torch.empty((), dtype=torch.int64).random_().item())


class Iteration(Iterator[Any]):
    """The batches of one epoch of a loader. Where it is dropped before its end, other ranks go on."""

    def __init__(self, loader: Loader, epoch: int) -> None:
        self._loader, self._epoch = loader, epoch
        self._number = 0
        self._spare: Received | None = None
        self._leave = weakref.finalize(self, loader._place.receiver.leave, epoch)
        self._leave.atexit = False

    def __next__(self) -> Any:
        """Return the next batch. Raises what `Loader` names."""
        loader = self._loader
        refuse_forked(loader._pid)
        if not self._leave.alive:
            raise StopIteration
        if loader._epoch != self._epoch:
            raise RuntimeError("this iteration ended when another one of the same loader began")
        loader._asked += 1
        loader._speed.asked()
        loader._share_anew(self._number)
        with loader._times.waiting():
            received = loader._received(self._epoch)
        if not loader._counts_known:
            if self._spare is None and received is not None:
                # Whoever gets a batch may write to it.
                self._spare = replace(received, content=copied(received.content))
            received = loader._agreed(received, self._spare)
        if received is None:
            self._leave()
            if isinstance(loader._source, FromDataset) and loader._source.chance is not None:
                loader._source.chance.end()
            raise StopIteration
        self._number += 1
        loader._times.add(received.ns)
        loader._speed.handed(received.cut.samples)
        assert received.cut.total
        loader.weight = received.cut.samples * loader._peers.size / received.cut.total
        return received.content


def _weights(shares: str | Sequence[float], ranks: int) -> list[float]:
    if isinstance(shares, str):
        if shares not in ("even", "speed"):
            raise ValueError(f'shares are "even", "speed" or a weight for each rank, not {shares!r}')
        return [1.0] * ranks
    weights = [float(share) for share in shares]
    if len(weights) != ranks or not all(0 < weight < math.inf for weight in weights):
        raise ValueError(f"shares are a positive weight for each of {ranks} ranks, got {weights}")
    return weights
