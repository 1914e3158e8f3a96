"""A job whose output comes line by line, each with its rank before it: as it is where ranks are on several hosts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from paceline.launch.job import Command, Job
from paceline.launch.stderr import STDOUT, Collector, Voice


class HeardJob(Job):
    """As `Job`; both outputs of its processes go through the collector. Process i is rank i until `call` says else.

    copies: a folder for what process i says, too: the files `stdout` and `stderr` in `rank.i`, as horovodrun has them.
    """

    def __init__(
        self, commands: Sequence[Command], mark: str, collector: Collector, copies: Path | None = None
    ) -> None:
        super().__init__(commands, mark, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._collector = collector
        self._copies = copies
        self._count = len(commands)
        self._voices: dict[int, tuple[Voice, ...]] = {}

    def call(self, number: int, rank: int) -> None:
        """From here on this process is that rank."""
        for voice in self._voices[number]:
            voice.rank, voice.prefix = rank, f"[{rank}] "

    def _spawn(self, number: int, command: Command) -> subprocess.Popen[bytes]:
        process = super()._spawn(number, command)
        voices = []
        for name, stream, target in (("stdout", process.stdout, STDOUT), ("stderr", process.stderr, None)):
            assert stream is not None
            heard, file = os.dup(stream.fileno()), self._file(number, name)
            voices.append(self._collector.listen_to(heard, process.pid, target=target, file=file))
            stream.close()
        self._voices[number] = tuple(voices)
        self.call(number, number)
        return process

    def _file(self, number: int, name: str) -> IO[bytes] | None:
        if self._copies is None:
            return None
        return (rank_folder(self._copies, number, self._count) / name).open("wb", buffering=0)


def rank_folder(folder: Path, rank: int, ranks: int) -> Path:
    """Where one of so many ranks' output is kept, in order of their names; made if it is not there. Raises OSError."""
    place = folder / f"rank.{rank:0{len(str(max(ranks - 1, 0)))}}"
    place.mkdir(parents=True, exist_ok=True)
    return place
