"""A job whose output comes line by line, each with its rank before it: as it is where ranks are on several hosts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from paceline.launch.job import Command, Job
from paceline.launch.stderr import STDOUT, Collector, Voice


class HeardJob(Job):
    """As `Job`; both outputs of its processes go through the collector. Process i is rank i until `call` says else."""

    def __init__(self, commands: Sequence[Command], mark: str, collector: Collector) -> None:
        super().__init__(commands, mark, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._collector = collector
        self._voices: dict[int, tuple[Voice, ...]] = {}

    def call(self, number: int, rank: int) -> None:
        """From here on this process is that rank."""
        for voice in self._voices[number]:
            voice.rank, voice.prefix = rank, f"[{rank}] "

    def _spawn(self, number: int, command: Command) -> subprocess.Popen[bytes]:
        process = super()._spawn(number, command)
        voices = []
        for stream, target in ((process.stdout, STDOUT), (process.stderr, None)):
            assert stream is not None
            voices.append(self._collector.listen_to(os.dup(stream.fileno()), process.pid, target=target))
            stream.close()
        self._voices[number] = tuple(voices)
        self.call(number, number)
        return process
