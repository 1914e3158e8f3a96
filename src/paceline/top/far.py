"""The figures of a job's ranks on another host, which a process there sends over ssh."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

from paceline.launch.job import Job
from paceline.launch.remote import Ssh
from paceline.launch.tree import new_mark
from paceline.observe.figures import MAX_BYTES, Figures, decode

_LONGEST = 64 * MAX_BYTES
"""Bytes of the longest line that is read."""
_WORDS = 500
"""Characters of what a host says that are repeated."""


class FarHost:
    """The ranks on one host. `look` gives their newest figures.

    name: as ssh takes it. job: the number of the job; None stands for the only one that runs there. seconds: from one
    line to the next. Raises OSError if ssh cannot be started.
    """

    def __init__(self, name: str, job: int | None, seconds: float) -> None:
        self.name = name
        self.figures: dict[int, Figures] = {}
        self.silent: dict[int, str] = {}
        self.job: int | None = None
        self._words = ""
        self._lines = self._seen = 0
        self._ended = False
        self._news = threading.Condition()
        argv = [sys.executable, "-m", "paceline.top.stream", "-" if job is None else f"{job:x}", f"{seconds:g}"]
        command = Ssh().command(name, argv, {}, name, 1)
        self._process = Job(
            [command], new_mark(os.environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=False
        )
        self._process.start()
        self._thread = threading.Thread(target=self._read, name="paceline-far-host", daemon=True)
        self._thread.start()

    def look(self, deadline: float) -> None:
        """Wait until the host has sent a line since the last look, or has ended, or the time is over.

        deadline: a moment of `time.monotonic`.
        """
        with self._news:
            self._news.wait_for(lambda: self._ended or self._lines > self._seen, max(0.0, deadline - time.monotonic()))
            self._seen = self._lines

    @property
    def problem(self) -> str:
        """Why there are no figures of this host, "" if there are."""
        if self.figures or self.silent:
            return ""
        return f"{self.name}: {self._words or ('it ended' if self._ended else 'it has not answered yet')}"

    def close(self) -> None:
        """End the process there."""
        self._process.terminate()

    def _read(self) -> None:
        stdout = self._process.processes[0].stdout
        assert stdout is not None
        while line := stdout.readline(_LONGEST):
            with self._news:
                try:
                    self._take(json.loads(line))
                except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                    self._words = line.decode(errors="replace").strip()[:_WORDS] or self._words
                self._lines += 1
                self._news.notify_all()
        with self._news:
            self.figures, self.silent, self._ended = {}, {}, True
            self._news.notify_all()

    def _take(self, content: dict[str, Any]) -> None:
        figures = [decode(json.dumps(one).encode()) for one in content["figures"]]
        silent = {int(rank): str(why) for rank, why in content["silent"].items()}
        self.job, self.figures, self.silent = int(content["job"]), {one.rank: one for one in figures}, silent
