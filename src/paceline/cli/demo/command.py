"""`paceline demo` trains a small network over Paceline and over Gloo and compares the two."""

import json
import os
import pickle
import signal
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.checks import installed, ranks_here
from paceline.cli.demo.progress import Progress
from paceline.cli.demo.report import print_header, print_result
from paceline.cli.demo.result import Result
from paceline.cli.output_file import writable, write
from paceline.cli.usage import UsageError
from paceline.cpu.budget import available
from paceline.launch.arguments import split
from paceline.launch.run import LaunchRequest, run

TRAIN = Path(__file__).with_name("train.py")
BACKENDS = ("paceline", "gloo")
NEEDS = {"torch": "torch", "sklearn": "scikit-learn"}
"""The modules that the demo imports, and the packages that hold them."""


def command(
    ranks: Annotated[int, typer.Option("-n", min=1, callback=ranks_here, help="Ranks to start on this machine.")] = 4,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Epochs of each training; the first is not timed. [default: 12, fewer where that takes over 90 s]",
        ),
    ] = None,
    backend: Annotated[
        str, typer.Option(help="The backend under test; gloo shows how much chance there is.")
    ] = "paceline",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the result here too.", callback=writable)
    ] = None,
) -> int:
    """Train a small network on handwritten digits over Paceline, over Gloo and in one process, and compare.

    Exit code 1 if the accuracy is too low or the final weights don't agree.
    """
    if backend not in BACKENDS:
        raise UsageError(f"--backend {backend} is none of {', '.join(BACKENDS)}")
    installed(NEEDS)
    budget = available()
    with tempfile.TemporaryDirectory(prefix="paceline-demo-") as folder:
        found, progress = Path(folder) / "result", Path(folder) / "progress"
        length = ["--begun", str(time.monotonic())] if epochs is None else ["--epochs", str(epochs)]
        words = [str(TRAIN), "--backend", backend, *length, "--progress", str(progress), "--result", str(found)]
        # Without torchrun, whose own start takes seconds and which writes of each signal. SIGTERM ends a rank without a
        # traceback at any moment of its start.
        request = LaunchRequest(split(words), str(ranks), threads=1, direct=True, interrupt=signal.SIGTERM)
        print_header(ranks, len(budget.affinity), backend, "gloo", epochs)
        try:
            with Progress(progress):
                code = run(request, dict(os.environ), budget)
        except ValueError as error:  # the environment holds a setting that no rank would accept
            raise UsageError(str(error)) from None
        if code:
            return code
        result: Result = pickle.loads(found.read_bytes())
    print_result(result)
    write(json_file, lambda: json.dumps(result.to_json(), indent=2) + "\n")
    return 1 if result.faults() else 0
