"""`paceline demo` trains a small network over Paceline and over Gloo and compares the two."""

import json
import os
import signal
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from paceline import demo
from paceline.cpu.budget import available
from paceline.launch.arguments import split
from paceline.launch.run import LaunchRequest, run
from paceline.options.checks import installed, ranks_here
from paceline.options.output_file import writable, write
from paceline.options.usage import UsageError

TRAIN = Path(demo.__file__).with_name("train.py")
BACKENDS = ("paceline", "gloo")
NEEDS = {"torch": "torch", "sklearn": "scikit-learn"}
"""The modules that the demo imports, and the packages that hold them."""


def command(
    ranks: Annotated[int, typer.Option("-n", min=1, callback=ranks_here, help="Ranks to start on this machine.")] = 4,
    epochs: Annotated[int, typer.Option(min=2, help="Epochs of each training; the first is not timed.")] = 12,
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
    with tempfile.TemporaryDirectory(prefix="paceline-demo-") as folder:
        found = Path(folder) / "result.json"
        words = [str(TRAIN), "--backend", backend, "--epochs", str(epochs), "--json", str(found)]
        # SIGTERM ends a rank without a traceback at any moment of its start.
        request = LaunchRequest(split(words), str(ranks), threads=1, interrupt=signal.SIGTERM)
        try:
            code = run(request, dict(os.environ), available())
        except ValueError as error:  # the environment holds a setting that no rank would accept
            raise UsageError(str(error)) from None
        if code:
            return code
        result = found.read_text()
    write(json_file, lambda: result)
    return 0 if json.loads(result)["passed"] else 1
