"""A job whose output is passed on line by line, each with its rank as prefix, as for ranks on several hosts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from paceline.formats.files import open_file
from paceline.launch.job import Command, Job
from paceline.launch.output_stream import STDOUT, OutputStream
from paceline.launch.stderr import Collector


class PrefixedOutputJob(Job):
    """A job whose stdout and stderr go through the collector. Process i is rank i until `set_rank` changes that.

    copies: a folder for copies of the output: the files `stdout` and `stderr` in `rank.i`, as horovodrun writes them.
    """

    def __init__(
        self, commands: Sequence[Command], mark: str, collector: Collector, copies: Path | None = None
    ) -> None:
        super().__init__(commands, mark, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._collector = collector
        self._copies = copies
        self._count = len(commands)
        self._streams: dict[int, tuple[OutputStream, ...]] = {}

    def set_rank(self, number: int, rank: int) -> None:
        """Prefix the output of process `number` with this rank from now on."""
        for output in self._streams[number]:
            output.rank, output.prefix = rank, f"[{rank}] "

    def _spawn(self, number: int, command: Command) -> subprocess.Popen[bytes]:
        process = super()._spawn(number, command)
        outputs = []
        for name, stream, target in (("stdout", process.stdout, STDOUT), ("stderr", process.stderr, None)):
            assert stream is not None
            descriptor, file = os.dup(stream.fileno()), self._file(number, name)
            outputs.append(self._collector.listen_to(descriptor, process.pid, target=target, file=file))
            stream.close()
        self._streams[number] = tuple(outputs)
        self.set_rank(number, number)
        return process

    def _file(self, number: int, name: str) -> IO[bytes] | None:
        if self._copies is None:
            return None
        try:
            place = rank_folder(self._copies, number, self._count) / name
            return os.fdopen(open_file(place), "wb", buffering=0)
        except OSError as error:
            self._collector.warn(
                f"what rank {number} writes to {name} is not copied to {self._copies}: {error.strerror}"
            )
            return None


def rank_folder(folder: Path, rank: int, ranks: int) -> Path:
    """Create and return the folder for the output of one of `ranks` ranks. The names sort by rank. Raises OSError."""
    place = folder / f"rank.{rank:0{len(str(max(ranks - 1, 0)))}}"
    place.mkdir(parents=True, exist_ok=True)
    return place
