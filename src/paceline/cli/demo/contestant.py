"""A copy of the network that all ranks train together, and its measurements."""

import time

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from paceline.cli.demo.digits import Digits, steps_per_epoch
from paceline.cli.demo.figures import figures, step_times
from paceline.cli.demo.meter import Meter, no_communication
from paceline.cli.demo.model import residual_network
from paceline.cli.demo.result import Side
from paceline.cli.demo.trainer import Trainer


class Contestant:
    """A copy trained over `group` with DDP, whose first epoch is not timed.

    batch: images per step, all ranks together. communicates: False leaves out the all-reduces, which shows what a step
    costs without them.
    """

    def __init__(self, group: dist.ProcessGroup, batch: int, communicates: bool = True) -> None:
        self.name = dist.get_backend(group) if communicates else "no communication"
        self._group = group
        self._batch = batch
        self._steps = steps_per_epoch(batch)
        self._meter = Meter(group)
        module = DistributedDataParallel(residual_network(), process_group=group, gradient_as_bucket_view=True)
        module.register_comm_hook(None, self._meter.hook if communicates else no_communication)
        self.trainer = Trainer(module, self._steps, self._meter.backward_finished)
        self._spans: list[list[int]] = []
        self._times: list[Tensor] = []

    def train(self, digits: Digits, epoch: int) -> float:
        """Train one epoch and return its mean loss on this rank. Collective."""
        dist.barrier(self._group)
        begin = time.monotonic_ns()
        loss = self.trainer.epoch(digits.batches(epoch, self._batch, self._group.rank(), self._group.size()))
        end = time.monotonic_ns()
        times = self._meter.take()
        if epoch:
            self._spans.append([begin, end])
            self._times.append(times)
        return loss

    def step_ms(self) -> Tensor:
        """Return the mean milliseconds of a step in each timed epoch, float64 [epochs]. Collective."""
        return step_times(_of_all_ranks(torch.tensor(self._spans)), self._steps)

    def side(self, digits: Digits, without_ms: Tensor) -> Side:
        """Return the results. Collective. without_ms: `step_ms` of the copy that does not communicate."""
        times = _of_all_ranks(torch.stack(self._times))
        found = figures(self.step_ms(), without_ms, times, self._batch)
        return Side(self.name, self.trainer.accuracy(digits), found)


def _of_all_ranks(values: Tensor) -> Tensor:
    """Gather int64 [...] from each rank into int64 [ranks, ...] on all ranks."""
    gathered = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, values)
    return torch.stack(gathered)
