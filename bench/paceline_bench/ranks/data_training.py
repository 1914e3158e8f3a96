"""A rank that stands for a device, or for the host of all devices, and trains one of eight networks in several ways.

The ways are those of Xu et al., "ScaleDNN: Data Movement Aware DNN Training on Multi-GPU": its baseline of section II,
in which a master gets whole batches and splits them, broadcasts the parameters and gathers the gradients, then with the
splitting of section IV-A, with the pre-loading of section IV-B too, and with the compression of section IV-C.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

from .data_feed import Batch, Feed, made, serve
from .data_networks import dataset, network
from .data_steps import GlooStep, HorovodStep, MasterStep, Step
from .wire import Message

CATEGORIES = ("host_to_device", "peer_to_peer", "broadcast", "compute", "reduce", "other")
"""Those of the paper's section III-B: the way of a batch from the host to the device that waits for it; from the master
to the others; parameters; forward and backward propagation; gradients; and the update."""
AHEAD = ("pre_loading", "three_in_one")
"""The approaches whose next batch is on its way while devices compute."""
WARM_UP = 2
"""Steps that are not timed."""
_TOLERANCE, _HALF_TOLERANCE = 1e-3, 1e-2
"""The largest error that a gradient may have, as a share of the largest of its parameter: as float32, as float16."""
_HALF_STEP = 2.0**-24
"""The distance of small numbers of float16."""


class DataTraining:
    """One rank. The last one is the host, the others are devices, and the first of them is the master."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        torch.set_num_threads(1)
        # Paceline's store and torch's have the same port, one after the other.
        self._world = importlib.import_module("paceline").init(timeout=timeout)
        self.rank, self.size = self._world.rank, self._world.size
        self.about = f"torch {torch.__version__}"
        self._host = self.size - 1
        ranks = list(range(self._host))
        self._part = self._world.split(int(self.rank == self._host))  # the devices, or the host alone
        self._hvd = importlib.import_module("paceline.horovod.torch")
        self._process_set = self._hvd.ProcessSet(ranks)
        self._hvd.init(process_sets=[self._process_set])
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
        self._gloo = dist.new_group(ranks, backend="gloo")
        self._batch = int(options["batch"])  # of all devices together
        self._ns = dict.fromkeys(CATEGORIES, 0)

    def do_check(self, model: str, approach: str) -> Message:
        """Return the number of parameters whose gradient is wrong on rank 0, and the bytes of the parameters."""
        if self.rank == self._host:
            self._serve(model, approach, 1)
            return {}
        step = self._step(model, approach)
        for batch in self._batches(model, approach, 1):
            step.broadcast()
            step.backward(*batch)
            step.reduce()
        wrong = self._wrong(step, model, approach) if self.rank == 0 else 0
        return {"wrong": wrong, "bytes": sum(one.nbytes for one in step.module.parameters())}

    def do_feed(self, model: str, approach: str, batches: int) -> Message:
        """Bring so many batches to the devices, who do nothing with them."""
        if self.rank == self._host:
            self._serve(model, approach, batches)
        else:
            for _ in self._batches(model, approach, batches):
                pass
        return {}

    def do_train(self, model: str, approach: str, steps: int) -> Message:
        """Make a few untimed steps and `steps` timed ones; return wall seconds, and the seconds of each category."""
        if self.rank == self._host:
            self._serve(model, approach, WARM_UP + steps)
            return {}
        step = self._step(model, approach)
        begin = 0.0
        for number, batch in enumerate(self._batches(model, approach, WARM_UP + steps)):
            with self._counting("broadcast"):
                step.broadcast()
            with self._counting("compute"):
                step.backward(*batch)
            with self._counting("reduce"):
                step.reduce()
            with self._counting("other"):
                step.update()
            if number == WARM_UP - 1:
                self._part.barrier()
                self._ns = dict.fromkeys(CATEGORIES, 0)
                begin = time.perf_counter()
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "categories": {name: ns / 1e9 for name, ns in self._ns.items()}}

    def close(self) -> None:
        """Leave the job."""
        self._hvd.shutdown()
        dist.destroy_process_group()

    @contextmanager
    def _counting(self, category: str) -> Iterator[None]:
        begin = time.perf_counter_ns()
        try:
            yield
        finally:
            self._ns[category] += time.perf_counter_ns() - begin

    def _serve(self, model: str, approach: str, count: int) -> None:
        askers = [0] if approach == "master" else list(range(self._host))
        serve(self._world, askers, made(dataset(model), self._batch, count, self._part))

    def _step(self, model: str, approach: str) -> Step:
        module = network(model)
        if approach == "ddp_gloo":
            return GlooStep(module, self._gloo)
        if approach == "horovod_fp16":
            return HorovodStep(module, self._process_set)
        return MasterStep(module, self._part, "three_in_one" if approach == "three_in_one" else None)

    def _batches(self, model: str, approach: str, count: int) -> Iterator[Batch]:
        """Yield this device's part of each batch."""
        sample, _ = dataset(model)[0]
        part, whole = (
            (sample.new_empty((samples, *sample.shape)), torch.empty(samples, dtype=torch.int64))
            for samples in (self._batch // self._host, self._batch)
        )
        if approach == "master":
            yield from self._from_master(whole, part, count)
            return
        feed, ahead = Feed(self._world, self._host, part), approach in AHEAD
        for number in range(count):
            with self._counting("host_to_device"):
                if not ahead or not number:
                    feed.ask()
                batch = feed.next()
                if ahead and number + 1 < count:
                    feed.ask()
            yield batch

    def _from_master(self, whole: Batch, part: Batch, count: int) -> Iterator[Batch]:
        feed = Feed(self._world, self._host, whole)
        for _ in range(count):
            batch: Batch = ()
            if self.rank == 0:
                with self._counting("host_to_device"):
                    feed.ask()
                    batch = feed.next()
            mine = tuple(torch.empty_like(one) for one in part)
            with self._counting("peer_to_peer"):
                for index, one in enumerate(mine):
                    self._part.scatter(one, batch[index] if batch else None, 0)
            yield mine

    def _wrong(self, step: Step, model: str, approach: str) -> int:
        """Compare the gradients with those of one process that has all devices' batches, and the same parameters."""
        alone = network(model)
        with torch.no_grad():
            for ours, theirs in zip(step.module.parameters(), alone.parameters(), strict=True):
                theirs.copy_(ours)
        part = self._batch // self._host
        for device in range(self._host):
            samples = [dataset(model)[device * part + index] for index in range(part)]
            inputs, targets = torch.stack([one for one, _ in samples]), torch.tensor([label for _, label in samples])
            (cross_entropy(alone(inputs), targets) / self._host).backward()
        wrong = 0
        half = approach == "horovod_fp16"
        for ours, theirs in zip(step.module.parameters(), alone.parameters(), strict=True):
            assert ours.grad is not None and theirs.grad is not None
            allowed = (_HALF_TOLERANCE if half else _TOLERANCE) * float(theirs.grad.abs().max()) + 1e-12
            wrong += float((ours.grad - theirs.grad).abs().max()) > allowed + (2 * _HALF_STEP if half else 0)
        return wrong
