"""An input worker, which makes a batch on request, as a data loader's process does."""

from __future__ import annotations

import os
import subprocess
import sys
from types import TracebackType

from .load import ComputeLoad


class InputWorker:
    """A process of its own that makes batches, one at a time. It is a context manager, and uses no CPU while idle."""

    def __init__(self, units: int) -> None:
        """Start the process. units: the work of a batch, in units of `ComputeLoad`."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main({units})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._asked = False

    @property
    def pid(self) -> int:
        """The pid of the process."""
        return self._process.pid

    def ask(self) -> None:
        """Let it start the next batch. Raises ConnectionError if the process is gone."""
        assert self._process.stdin is not None
        self._process.stdin.write(b".")
        self._asked = True

    def wait(self) -> None:
        """Wait for the batch that was asked for last, if any. Raises ConnectionError if the process is gone."""
        assert self._process.stdout is not None
        if self._asked and not self._process.stdout.read(1):
            raise ConnectionError(f"the input worker with pid {self._process.pid} is gone")
        self._asked = False

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> InputWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def main(units: int) -> None:
    """Make batches until standard input ends."""
    load = ComputeLoad()
    while sys.stdin.buffer.raw.read(1):  # type: ignore[union-attr]
        load.work(units)
        sys.stdout.buffer.write(b".")
        sys.stdout.buffer.flush()
