"""A rank that stands for a device and trains one of the eight networks, given its batches in several ways.

The ways are those of Xu et al., "ScaleDNN: Data Movement Aware DNN Training on Multi-GPU": its baseline of section II,
in which a master gets whole batches and splits them, broadcasts the parameters and gathers the gradients, then with the
splitting of section IV-A, and with the pre-loading of section IV-B too.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import default_collate

from .data_networks import dataset, network
from .wire import Message

CATEGORIES = ("host_to_device", "peer_to_peer", "broadcast", "compute", "reduce", "other")
"""Those of the paper's section III-B: a batch's way to the device that asks for it, with its decoding; from the master
to the others; parameters; forward and backward propagation; gradients; and the update."""
_WARM_UP = 2
"""Steps that are not timed."""
_RATE = 0.01

Batch = tuple[Tensor, Tensor]


class DataTraining:
    """One rank. All collectives are Paceline's, but for those of the approach "ddp_gloo"."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        torch.set_num_threads(1)
        importlib.import_module("paceline.torch")
        dist.init_process_group("paceline", timeout=timedelta(seconds=timeout))
        self._gloo = dist.new_group(backend="gloo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.about = f"torch {torch.__version__}"
        self._batch = int(options["batch"])  # of all ranks together
        self._ns = dict.fromkeys(CATEGORIES, 0)
        self._moved = 0
        self._made_ns = 0

    def do_check(self, model: str, approach: str) -> Message:
        """Return the number of parameters whose gradient is wrong on rank 0, and the bytes of the parameters."""
        training = _Training(model, approach, self._gloo)
        ((inputs, targets),) = list(self._batches(model, approach, 1))
        self._step(training, inputs, targets)
        wrong = 0
        if self.rank == 0:
            alone = network(model)
            for part in zip(*(whole.chunk(self.size) for whole in self._made(model, 0, self._batch)), strict=True):
                (cross_entropy(alone(part[0]), part[1]) / self.size).backward()  # type: ignore[no-untyped-call]
            for ours, theirs in zip(training.gradients(), alone.parameters(), strict=True):
                assert theirs.grad is not None
                scale = float(theirs.grad.abs().max()) + 1e-12
                wrong += float((ours - theirs.grad).abs().max()) > 1e-3 * scale
        return {"wrong": wrong, "bytes": sum(one.nbytes for one in training.module.parameters())}

    def do_train(self, model: str, approach: str, steps: int) -> Message:
        """Make a few untimed steps and `steps` timed ones.

        Returns this rank's wall seconds, the seconds of each category, the bytes of batches that reached this device,
        and the seconds that it took to make the batches, 0 where another rank knows.
        """
        training = _Training(model, approach, self._gloo)
        times = importlib.import_module("paceline.runtime.process").runtime().annotations.batches
        begin = end = 0.0
        loading = 0
        for number, (inputs, targets) in enumerate(self._batches(model, approach, _WARM_UP + steps)):
            self._step(training, inputs, targets)
            if number == _WARM_UP - 1:
                dist.barrier()
                self._ns = dict.fromkeys(CATEGORIES, 0)
                self._moved = self._made_ns = 0
                begin, loading = time.perf_counter(), times.loading_ns
            end = time.perf_counter()
        made_ns = times.loading_ns - loading if approach == "pre_loading" else self._made_ns
        return {
            "seconds": end - begin,
            "categories": {name: ns / 1e9 for name, ns in self._ns.items()},
            "moved": self._moved,
            "loading": made_ns / 1e9,
        }

    def close(self) -> None:
        """Leave the process group."""
        dist.destroy_process_group()

    @contextmanager
    def _counting(self, category: str) -> Iterator[None]:
        begin = time.perf_counter_ns()
        try:
            yield
        finally:
            self._ns[category] += time.perf_counter_ns() - begin

    def _batches(self, model: str, approach: str, count: int) -> Iterator[Batch]:
        """Yield this rank's part of each batch."""
        if approach == "master":
            yield from self._from_master(model, count)
        elif approach == "ddp_gloo":
            yield from self._by_itself(model, count)
        else:
            yield from self._shared(model, count, ahead=approach != "splitting")

    def _from_master(self, model: str, count: int) -> Iterator[Batch]:
        for number in range(count):
            whole: Batch | None = None
            if self.rank == 0:
                with self._counting("host_to_device"):
                    whole = self._made(model, number * self._batch, self._batch)
                self._moved += sum(one.nbytes for one in whole)
            with self._counting("peer_to_peer"):
                mine = self._scattered(model, whole)
            if self.rank:
                self._moved += sum(one.nbytes for one in mine)
            yield mine

    def _scattered(self, model: str, whole: Batch | None) -> Batch:
        like = self._part_of(dataset(model)[0])
        for index, mine in enumerate(like):
            parts = list(whole[index].chunk(self.size)) if whole is not None else None
            dist.scatter(mine, parts, 0)
        return like

    def _part_of(self, sample: tuple[Tensor, int]) -> Batch:
        count = self._batch // self.size
        return sample[0].new_empty((count, *sample[0].shape)), torch.empty(count, dtype=torch.int64)

    def _by_itself(self, model: str, count: int) -> Iterator[Batch]:
        part = self._batch // self.size
        for number in range(count):
            with self._counting("host_to_device"):
                mine = self._made(model, number * self._batch + self.rank * part, part)
            self._moved += sum(one.nbytes for one in mine)
            yield mine

    def _shared(self, model: str, count: int, ahead: bool) -> Iterator[Batch]:
        data = importlib.import_module("paceline.torch.data")
        asked = threading.Semaphore(count if ahead else 0)
        if ahead:
            order = range(count * self._batch)
            loader = data.Loader(dataset(model), batch_size=self._batch, sampler=order, num_workers=1)
        else:
            made = (self._made(model, number * self._batch, self._batch) for number in range(count))
            loader = data.Loader(_OnDemand(made, asked))
        batches = iter(loader)
        for _ in range(count):
            asked.release()
            with self._counting("host_to_device"):
                inputs, targets = next(batches)
            self._moved += inputs.nbytes + targets.nbytes
            yield inputs, targets
        del inputs, targets
        asked.release()  # the iterable ends
        assert next(batches, None) is None
        loader.close()

    def _made(self, model: str, first: int, count: int) -> Batch:
        """Make `count` samples from number `first` on."""
        samples, begin = dataset(model), time.perf_counter_ns()
        inputs, targets = default_collate([samples[first + index] for index in range(count)])
        self._made_ns += time.perf_counter_ns() - begin
        return inputs, targets

    def _step(self, training: _Training, inputs: Tensor, targets: Tensor) -> None:
        if not training.synchronised:
            with self._counting("broadcast"):
                dist.broadcast(training.parameters_flat, 0)
        with self._counting("compute"):
            training.backward(inputs, targets)
        if not training.synchronised:
            with self._counting("reduce"):
                dist.reduce(training.gradients_flat, 0)
        with self._counting("other"):
            if training.synchronised or self.rank == 0:
                training.update(1 if training.synchronised else self.size)


class _OnDemand:
    """An iterable that makes its next batch only when it was asked for."""

    def __init__(self, batches: Iterator[Any], asked: threading.Semaphore) -> None:
        self._batches, self._asked = batches, asked

    def __iter__(self) -> Iterator[Any]:
        while self._asked.acquire() and (batch := next(self._batches, None)) is not None:
            yield list(batch)


class _Training:
    """A network whose parameters, and gradients, lie in one tensor each, so that one collective moves all of them."""

    def __init__(self, model: str, approach: str, gloo: dist.ProcessGroup) -> None:
        self.module = network(model)
        self.synchronised = approach == "ddp_gloo"
        """Whether the backward pass ends with mean gradients on all ranks."""
        parameters = list(self.module.parameters())
        if self.synchronised:
            self._taken: nn.Module = DistributedDataParallel(self.module, process_group=gloo)
            self._optimizer = torch.optim.SGD(parameters, _RATE)
            return
        self._taken = self.module
        self.parameters_flat = torch.cat([one.detach().flatten() for one in parameters])
        self.gradients_flat = torch.zeros_like(self.parameters_flat)
        begin = 0
        for one in parameters:
            part = slice(begin, begin + one.numel())
            one.data = self.parameters_flat[part].view_as(one)
            one.grad = self.gradients_flat[part].view_as(one)
            begin = part.stop

    def backward(self, inputs: Tensor, targets: Tensor) -> None:
        """Compute the gradients of a batch."""
        if self.synchronised:
            self._optimizer.zero_grad()
        else:
            self.gradients_flat.zero_()
        cross_entropy(self._taken(inputs), targets).backward()  # type: ignore[no-untyped-call]

    def update(self, ranks: int) -> None:
        """Make the mean of the gradients of so many ranks, and a step of SGD."""
        if self.synchronised:
            self._optimizer.step()
        else:
            self.parameters_flat.add_(self.gradients_flat.div_(ranks), alpha=-_RATE)

    def gradients(self) -> list[Tensor]:
        """Return the parameters' gradients."""
        return [one.grad for one in self.module.parameters() if one.grad is not None]
