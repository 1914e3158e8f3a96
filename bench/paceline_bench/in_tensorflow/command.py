"""`paceline bench tensorflow` sums a model's gradients in a `tf.function`, and trains a Keras model."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline.cli.checks import finite
from paceline.formats.terminal import show
from paceline_bench import report, systems
from paceline_bench.coordination.command import MODELS, gradients
from paceline_bench.ddp.measure import measure
from paceline_bench.ending import FAILED, ending
from paceline_bench.in_tensorflow import keras_steps
from paceline_bench.interleave import Effort, Interleaved, Work
from paceline_bench.option import JSON, environment, one_of, time_limit
from paceline_bench.place import LOCAL_RANKS
from paceline_bench.row import records, write_json
from paceline_bench.run import BenchRequest, started
from paceline_bench.table import columns, table

_BURST_SECONDS = 0.5
"""Seconds of a burst: several steps in a row, as in a training."""
BATCH = 16
"""Images per rank and step of the Keras model."""


def command(
    ranks: LOCAL_RANKS = 2,
    model: Annotated[
        str, typer.Option(help=f"Whose gradients, of {', '.join(MODELS)}.", callback=one_of(MODELS))
    ] = MODELS[0],
    peers: Annotated[Path, environment("TensorFlow, and sees Paceline")] = Path(sys.prefix),
    rounds: Annotated[int, typer.Option(min=3, help="Most turns of each system.")] = Effort.rounds,
    seconds: Annotated[
        float, typer.Option(callback=finite, min=0, help="Time for the gradients; at least 3 rounds run.")
    ] = 30.0,
    steps: Annotated[int, typer.Option(min=1, help="Timed Keras steps per turn, after one that isn't.")] = 5,
    timeout: Annotated[float, time_limit("a start or a turn")] = 300.0,
    json_file: JSON = None,
) -> None:
    """Sum a model's gradients by name over all ranks, and make training steps of a small Keras model.

    Each step makes the gradients, by one multiplication each, and sums them: through Horovod's API for torch, in place,
    each submitted when it is made, and all waited for at the end; through a DistributedGradientTape in a `tf.function`;
    and through the all-reduce of TensorFlow's MultiWorkerMirroredStrategy ("mirrored"), by its ring over gRPC. With one
    rank nothing is summed, so that the time is that of making them. The Keras model has Paceline's
    DistributedOptimizer, or the strategy. All ranks stay alive and are measured in turn, and results are checked
    before they are timed.

    Exit code: 0, 1 when a result was wrong or a system failed, 2 when TensorFlow or torch is not installed.
    """
    out, err = Console(), Console(stderr=True)
    with ending(err):
        chosen = systems.in_tensorflow(peers)
    named = json.dumps(list(gradients(model).gradients))
    chosen = [replace(one, options={**one.options, "gradients": named, "batch": str(BATCH)}) for one in chosen]
    work = Work("all_reduce", "float32", "sum", sum(elements for _, elements in json.loads(named)))
    request = BenchRequest(chosen, ranks, timeout=timeout)
    with (
        ending(err) as complain,
        err.status("starting") as status,
        started(request, os.environ, complain) as sessions,
    ):
        interleaved = Interleaved(sessions, Effort(rounds, seconds, _BURST_SECONDS), complain)
        interleaved.failed = len(sessions) < len(chosen)
        measured = interleaved.measure(work, lambda done: status.update(f"{model}'s gradients, round {done}"))
        summed = [report.figures(one, work) for one in measured]
        show(out, report.table(summed, root=0))
        trainers = [session for session in sessions if session in interleaved.sessions]
        trainers = [session for session in trainers if session.system.path == "tensorflow"]
        trained = keras_steps.rows(measure(trainers, rounds, steps, status.update), BATCH, steps)
    show(out, table(columns(keras_steps.Row, *keras_steps.SHOWN), trained))
    if json_file is not None:
        write_json(records(summed, model=model) + records(trained), json_file)
    if interleaved.failed or any(row.wrong for row in (*summed, *trained)):
        raise typer.Exit(FAILED)
