"""The demo's training script, an ordinary DDP program: `paceline run -n 4 train.py`.

Copies of one network train side by side in the same processes, in turn for an epoch each: one over each backend, and
one whose ranks do not communicate. All copies therefore run under the same conditions, and the ratios between them are
meaningful even if other programs run. Rank 0 trains another copy alone, on the combined batches: its first epoch with
the others', so that the first round shows how long a round takes, and the others afterwards.
"""

import os
import pickle
import time
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import torch
import torch.distributed as dist
import typer
from torch import Tensor

from paceline.cli.demo.contestant import Contestant
from paceline.cli.demo.digits import TEST, TRAINING, Digits, share_digits, steps_per_epoch
from paceline.cli.demo.figure import figure
from paceline.cli.demo.length import EPOCHS, combined_batch, epochs_in_time
from paceline.cli.demo.model import residual_network
from paceline.cli.demo.progress import Stage, tell
from paceline.cli.demo.report import print_result
from paceline.cli.demo.result import Agreement, Result, Setup
from paceline.cli.demo.trainer import Trainer

TIMEOUT = timedelta(seconds=60)


def main(
    backend: Annotated[str, typer.Option(help="The backend under test.")] = "paceline",
    reference: Annotated[str, typer.Option(help="The backend beside it.")] = "gloo",
    epochs: Annotated[int | None, typer.Option(min=2, help="Epochs of each training; the first is not timed.")] = None,
    begun: Annotated[
        float | None, typer.Option(help="When the command began, in seconds of the monotonic clock; now by default.")
    ] = None,
    progress: Annotated[Path | None, typer.Option(help="Append what was done here.")] = None,
    result_file: Annotated[
        Path | None, typer.Option("--result", help="Pickle the result here in place of printing it.")
    ] = None,
) -> None:
    """Train on handwritten digits over both backends and in one process, compare, and report on rank 0.

    The exit code says that the run worked; whether the result is good is in the result.
    """
    begun = time.monotonic() if begun is None else begun
    if backend == "paceline":
        import paceline.torch  # noqa: F401
    dist.init_process_group(backend, timeout=TIMEOUT)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    world = dist.group.WORLD
    beside = dist.new_group(backend=reference, timeout=TIMEOUT)
    assert world is not None
    assert beside is not None

    batch = combined_batch(ranks)
    digits = share_digits()
    tested, other = Contestant(world, batch), Contestant(beside, batch)
    silent = Contestant(world, batch, communicates=False)
    turns = [tested, other, silent]
    alone = Trainer(residual_network(), steps_per_epoch(batch))
    story = _Story(progress if rank == 0 else None, len(turns) + 1, epochs or EPOCHS)

    first = time.monotonic()
    _round(turns, 0, digits, story)
    if rank == 0:
        story.tell("one process", 0, alone.epoch(digits.batches(0, batch)))
    now = time.monotonic()
    story.epochs = epochs or _agreed(epochs_in_time(begun, first, now))
    for trainer in (*(contestant.trainer for contestant in turns), alone):
        trainer.epochs = story.epochs
    for epoch in range(1, story.epochs):
        _round(turns, epoch, digits, story)

    without_ms = silent.step_ms()
    sides = tested.side(digits, without_ms), other.side(digits, without_ms)
    weights = tested.trainer.weights()
    same = _same_on_all_ranks(weights)
    dist.destroy_process_group()
    if rank != 0:
        return
    for epoch in range(1, story.epochs):
        story.tell("one process", epoch, alone.epoch(digits.batches(epoch, batch)))
    story.end()

    agreement = Agreement(
        to_reference=_largest_difference(weights, other.trainer.weights()),
        to_one_process=_largest_difference(weights, alone.weights()),
        same_on_all_ranks=same,
    )
    setup = _setup(weights, ranks, story.epochs, batch, now - first, chosen=epochs is not None)
    result = Result(setup, figure(without_ms.tolist()), *sides, agreement)
    if result_file:
        result_file.write_bytes(pickle.dumps(result))
    else:
        print_result(result)


class _Story:
    """Tells `file` what was trained, of `copies` that train `epochs` epochs each."""

    def __init__(self, file: Path | None, copies: int, epochs: int) -> None:
        self.epochs = epochs
        self._file = file
        self._copies = copies
        self._done = 0

    def tell(self, name: str, epoch: int, loss: float) -> None:
        self._done += 1
        text = f"{name}, epoch {epoch + 1}/{self.epochs}, loss {loss:.4f}"
        tell(self._file, Stage(self._done, self._copies * self.epochs, text))

    def end(self) -> None:
        tell(self._file, Stage(1, 1, "ending the ranks"))


def _round(turns: list[Contestant], epoch: int, digits: Digits, story: _Story) -> None:
    for turn in range(len(turns)):
        contestant = turns[(epoch + turn) % len(turns)]
        story.tell(contestant.name, epoch, contestant.train(digits, epoch))


def _agreed(count: int) -> int:
    """Return the count of rank 0."""
    counts = torch.tensor([count])
    dist.broadcast(counts, src=0)
    return int(counts)


def _setup(weights: Tensor, ranks: int, epochs: int, batch: int, first_epoch_s: float, chosen: bool) -> Setup:
    return Setup(
        torch=torch.__version__,
        ranks=ranks,
        cores=len(os.sched_getaffinity(0)),
        epochs=epochs,
        first_epoch_s=first_epoch_s,
        shortened=epochs < EPOCHS and not chosen,
        steps=steps_per_epoch(batch),
        batch=batch,
        training_images=TRAINING,
        test_images=TEST,
        weights=weights.numel(),
        gradient_bytes=weights.nbytes,
    )


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
