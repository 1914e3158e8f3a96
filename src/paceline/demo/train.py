"""The demo's training script, an ordinary DDP program: `paceline run -n 4 train.py`.

Two copies of one network train side by side in the same processes, one over each backend, in alternate epochs. So both
meet the same machine, and the ratio between them means something also where other programs run. Afterwards rank 0
trains a third copy alone, on the combined batches.
"""

import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import torch
import torch.distributed as dist
import typer
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from paceline.demo.digits import TEST, TRAINING, Digits, share_digits, steps_per_epoch
from paceline.demo.figures import figures
from paceline.demo.meter import Meter
from paceline.demo.model import residual_network
from paceline.demo.report import Progress, print_header, print_result
from paceline.demo.result import Agreement, Result, Setup, Side
from paceline.demo.trainer import Trainer

COMBINED_BATCH = 64
TIMEOUT = timedelta(seconds=60)


class Contestant:
    """One copy of the network that all ranks train over `group`, and the times of its epochs after the first."""

    def __init__(self, group: dist.ProcessGroup, epochs: int, batch: int) -> None:
        self.name = dist.get_backend(group)
        self.batch = batch
        self._group = group
        self._meter = Meter(group)
        module = DistributedDataParallel(residual_network(), process_group=group, gradient_as_bucket_view=True)
        module.register_comm_hook(None, self._meter.hook)
        self.trainer = Trainer(module, epochs * steps_per_epoch(batch), self._meter.backward_finished)
        self._spans: list[list[int]] = []
        self._times: list[Tensor] = []

    def train(self, digits: Digits, epoch: int) -> float:
        """One epoch; returns its mean loss on this rank."""
        dist.barrier(self._group)
        begin = time.monotonic_ns()
        loss = self.trainer.epoch(digits.batches(epoch, self.batch, self._group.rank(), self._group.size()))
        end = time.monotonic_ns()
        if epoch:
            self._spans.append([begin, end])
            self._times.append(self._meter.take())
        else:
            self._meter.forget()
        return loss

    def finish(self, digits: Digits) -> Side:
        """Collect the times of all ranks; to be called by all."""
        spans, times = _of_all_ranks(torch.tensor(self._spans)), _of_all_ranks(torch.stack(self._times))
        return Side(self.name, self.trainer.accuracy(digits), figures(spans, times, self.batch))


def main(
    backend: Annotated[str, typer.Option(help="The backend under test.")] = "paceline",
    reference: Annotated[str, typer.Option(help="The backend beside it.")] = "gloo",
    epochs: Annotated[int, typer.Option(min=2, help="Epochs of each training; the first is not timed.")] = 12,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the result here too.")] = None,
) -> None:
    """Train on handwritten digits over both backends and in one process, compare, and report on rank 0.

    The exit code says that the run worked; whether the result is good is in the report and in the JSON's `passed`.
    """
    if backend == "paceline":
        import paceline.torch  # noqa: F401
    dist.init_process_group(backend, timeout=TIMEOUT)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    world = dist.group.WORLD
    beside = dist.new_group(backend=reference, timeout=TIMEOUT)
    assert world is not None
    assert beside is not None

    batch = ranks * max(1, round(COMBINED_BATCH / ranks))
    digits = share_digits()
    tested, other = Contestant(world, epochs, batch), Contestant(beside, epochs, batch)
    setup = _setup(tested, ranks, epochs)
    if rank == 0:
        print_header(setup, tested.name, other.name)

    with Progress(3 * epochs, visible=rank == 0) as progress:
        for epoch in range(epochs):
            for contestant in (tested, other) if epoch % 2 == 0 else (other, tested):
                loss = contestant.train(digits, epoch)
                progress.advance(f"{contestant.name}, epoch {epoch + 1} of {epochs}, loss {loss:.4f}")
        sides = tested.finish(digits), other.finish(digits)
        weights = tested.trainer.weights()
        same = _same_on_all_ranks(weights)
        dist.destroy_process_group()
        if rank != 0:
            return
        alone = Trainer(residual_network(), epochs * setup.steps)
        for epoch in range(epochs):
            loss = alone.epoch(digits.batches(epoch, batch))
            progress.advance(f"one process, epoch {epoch + 1} of {epochs}, loss {loss:.4f}")

    agreement = Agreement(
        to_reference=_largest_difference(weights, other.trainer.weights()),
        to_one_process=_largest_difference(weights, alone.weights()),
        same_on_all_ranks=same,
    )
    result = Result(setup, *sides, agreement)
    print_result(result)
    if json_file:
        json_file.write_text(json.dumps(result.to_json(), indent=2) + "\n")


def _setup(contestant: Contestant, ranks: int, epochs: int) -> Setup:
    weights = contestant.trainer.weights()
    return Setup(
        torch=torch.__version__,
        ranks=ranks,
        cores=len(os.sched_getaffinity(0)),
        epochs=epochs,
        steps=steps_per_epoch(contestant.batch),
        batch=contestant.batch,
        training_images=TRAINING,
        test_images=TEST,
        weights=weights.numel(),
        gradient_bytes=weights.nbytes,
    )


def _of_all_ranks(values: Tensor) -> Tensor:
    """int64 [...] on each rank to int64 [ranks, ...] on all."""
    gathered = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, values)
    return torch.stack(gathered)


def _same_on_all_ranks(weights: Tensor) -> bool:
    low, high = weights.clone(), weights.clone()
    dist.all_reduce(low, dist.ReduceOp.MIN)
    dist.all_reduce(high, dist.ReduceOp.MAX)
    return torch.equal(low, high)


def _largest_difference(some: Tensor, others: Tensor) -> float:
    return (some - others).abs().max().item()


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
