"""Jobs of ranks that run `player.py`, one by one, as the test wants them; killed at the end of the test."""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

import psutil
from hostile import Address

from paceline.observe.trace import live

if TYPE_CHECKING:
    from typing_extensions import Self

PLAYER = Path(__file__).with_name("player.py")
DEADLINE = 150.0
"""Seconds for whatever a rank is to say next."""
LIMIT = 50.0
"""Seconds that the ranks have to meet, and for every collective: less than a test waits for them."""


class Played:
    """A rank's process, and what it says."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self.process = process
        self._errors = errors
        self._heard = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def hear(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        until = time.monotonic() + DEADLINE
        while b"\n" not in self._heard:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))
            part = os.read(self.process.stdout.fileno(), 4096) if ready else b""
            if not part:
                self._fail("said nothing more")
            self._heard += part
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def expect(self, line: str) -> None:
        """Its next line is this one."""
        if (heard := self.hear()) != line:
            self._fail(f"said {heard!r}, not {line!r}")

    def door(self) -> Address:
        """Where it is about to call another rank."""
        word, host, port = self.hear().split()
        assert word == "door"
        return host, int(port)

    def error(self) -> tuple[str, str]:
        """The class and the message of what it raises, and how it ends. At further doors it is told to go on."""
        word, _, rest = self.hear().partition(" ")
        while word == "door":
            self.say()
            word, _, rest = self.hear().partition(" ")
        if word != "error":
            self._fail(f"said {word!r}, not an error")
        assert self.process.wait(DEADLINE) == 7
        told = json.loads(rest)
        return told["kind"], told["message"]

    def kill(self) -> None:
        """End it, and all that the command above it started, and wait until nothing of it is left."""
        assert self.process.stdout is not None
        self.process.kill()
        while self.process.stdout.read(4096):
            pass
        self.process.wait()

    def say(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def log(self) -> list[str]:
        """The lines that it wrote to stderr."""
        return self._errors.read_text().splitlines()

    def _fail(self, what: str) -> NoReturn:
        raise AssertionError(f"it {what}; {self.process.poll()}; its stderr:\n" + "\n".join(self.log()[-40:]))


class Play:
    """A job of `size` ranks, each on a machine of its own as far as they know: they meet and talk over TCP."""

    def __init__(self, size: int, folder: Path, **settings: str) -> None:
        # Bound and kept, but not listening: nobody else is given this port, and rank 0 can still listen on it.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.store: Address = ("127.0.0.1", int(self._reserved.getsockname()[1]))
        self.ranks: dict[int, Played] = {}
        self._size, self._folder = size, folder
        clean = {n: v for n, v in os.environ.items() if not n.startswith(("PACELINE_", "OMPI_", "PMI_", "SLURM_"))}
        self._environment = {**clean, "PACELINE_SECRET": secrets.token_hex(16), "PACELINE_TIMEOUT": str(LIMIT)}
        self._environment |= settings
        self._processes: list[Played] = []

    def start(
        self, rank: int, *words: str, store: Address | None = None, under: tuple[str, ...] = (), **settings: str
    ) -> Played:
        """Start a rank. store: where it calls rank 0; under: the command that starts it."""
        host, port = store or self.store
        environment = {
            **self._environment,
            "RANK": str(rank),
            "WORLD_SIZE": str(self._size),
            "MASTER_ADDR": host,
            "MASTER_PORT": str(port),
            "PACELINE_MACHINE": f"machine-{rank}",
            **settings,
        }
        errors = self._folder / f"rank-{rank}-{len(self._processes)}.err"
        with errors.open("wb") as file:
            process = subprocess.Popen(
                [*under, sys.executable, str(PLAYER), *words],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
            )
        self.ranks[rank] = Played(process, errors)
        self._processes.append(self.ranks[rank])
        return self.ranks[rank]

    def await_store(self) -> None:
        """Until rank 0 listens."""
        until = time.monotonic() + DEADLINE
        while not listens(self.store):
            assert time.monotonic() < until and self.ranks[0].process.poll() is None, self.ranks[0].log()
            time.sleep(0.01)

    def everybody(self, line: str) -> None:
        """Every rank says this next."""
        for rank in self.ranks.values():
            rank.expect(line)

    def finish(self) -> None:
        """Stop the training of ranks that have met; all of them end well."""
        self.ranks[0].say()
        self.everybody("done")
        for rank in self.ranks.values():
            assert rank.process.wait(DEADLINE) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for played in self._processes:
            played.process.kill()
            played.process.communicate()
        self._reserved.close()
        if kind is None:
            pids = {played.pid for played in self._processes}
            assert not [name for name in live.listening() if name.pid in pids]
            assert not [path for path in Path("/dev/shm").iterdir() if "paceline" in path.name]


def listens(address: Address) -> bool:
    """Whether somebody accepts connections there."""
    try:
        socket.create_connection(address, DEADLINE).close()
    except ConnectionRefusedError:
        return False
    return True


def await_end(processes: Iterable[psutil.Process]) -> None:
    """Until all of them have ended. Fails, and kills what is left, if they do not."""
    _, left = psutil.wait_procs(processes, timeout=DEADLINE)
    for process in left:
        process.kill()
    assert not left
