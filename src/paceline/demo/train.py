"""The demo's training script, an ordinary DDP program: `paceline run -n 4 train.py`.

Copies of one network train side by side in the same processes, in turn for an epoch each: one over each backend, and
one whose ranks do not communicate. All copies therefore run under the same conditions, and the ratios between them are
meaningful even if other programs run. Afterwards rank 0 trains another copy alone, on the combined batches.
"""

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import torch
import torch.distributed as dist
import typer
from torch import Tensor

from paceline.demo.contestant import Contestant
from paceline.demo.digits import TEST, TRAINING, share_digits, steps_per_epoch
from paceline.demo.figure import figure
from paceline.demo.model import residual_network
from paceline.demo.report import Progress, print_header, print_result
from paceline.demo.result import Agreement, Result, Setup
from paceline.demo.trainer import Trainer

COMBINED_BATCH = 64
"""Images per step, all ranks together, before rounding to a multiple of the ranks."""
TIMEOUT = timedelta(seconds=60)


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
    silent = Contestant(world, epochs, batch, communicates=False)
    turns = [tested, other, silent]
    setup = _setup(tested.trainer.weights(), ranks, epochs, batch)
    if rank == 0:
        print_header(setup, tested.name, other.name)

    with Progress((len(turns) + 1) * epochs, visible=rank == 0) as progress:
        for epoch in range(epochs):
            for turn in range(len(turns)):
                contestant = turns[(epoch + turn) % len(turns)]
                loss = contestant.train(digits, epoch)
                progress.advance(f"{contestant.name}, epoch {epoch + 1} of {epochs}, loss {loss:.4f}")
        without_ms = silent.step_ms()
        sides = tested.side(digits, without_ms), other.side(digits, without_ms)
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
    result = Result(setup, figure(without_ms.tolist()), *sides, agreement)
    print_result(result)
    if json_file:
        json_file.write_text(json.dumps(result.to_json(), indent=2) + "\n")


def _setup(weights: Tensor, ranks: int, epochs: int, batch: int) -> Setup:
    return Setup(
        torch=torch.__version__,
        ranks=ranks,
        cores=len(os.sched_getaffinity(0)),
        epochs=epochs,
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
