"""Ranks on this machine, started directly: no torch, no agent, no shell."""

import os
import secrets
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from paceline.launch import tree
from paceline.launch.job import Command, Job, wrapped
from paceline.launch.threads import thread_variables


class LocalJob(Job):
    """`ranks` processes of the program `argv`, each told its rank as torchrun would tell it.

        with LocalJob(4, [sys.executable, "work.py"], environment, threads=1) as job:
            code = job.wait(timeout=60)

    env: the whole environment of the ranks; RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
    and a secret of this job (PACELINE_SECRET, unless `env` has one) are added.
    threads: threads per rank for numeric libraries; never replaces what `env` sets. None: left alone.
    output: a folder where each rank's output goes (`rank-0.out`, `rank-0.err`, …); None: the caller's own.
    report, cores: see `child.py`. told: what each rank's environment has beside all that, if anything.
    descriptors: see `Command`.

    When the context is left, every process that the job started has ended, also after an exception; if the launching
    process itself is killed, the kernel ends the ranks. `poll`, `wait`, `terminate`: see `Job`.
    """

    def __init__(
        self,
        ranks: int,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        threads: int | None = None,
        output: Path | None = None,
        report: str = "-",
        cores: str = "-",
        told: Sequence[Mapping[str, str]] = (),
        descriptors: Sequence[int] = (),
    ) -> None:
        if ranks < 1:
            raise ValueError(f"a job needs at least one rank, not {ranks}")
        # Bound and kept, but not listening: nobody else is given this port, and rank 0 can still listen on it.
        self._reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reservation.bind(("127.0.0.1", 0))
        base = {
            **env,
            **(thread_variables(threads, env) if threads is not None else {}),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self._reservation.getsockname()[1]),
        }
        base.setdefault("PACELINE_SECRET", secrets.token_hex(32))
        program = wrapped(argv, death_signal=signal.SIGKILL, parent=os.getpid(), report=report, cores=cores)
        commands = [
            Command(
                program,
                {**base, "RANK": str(rank), "LOCAL_RANK": str(rank), **extra},
                f"rank {rank}",
                descriptors=tuple(descriptors),
            )
            for rank, extra in enumerate(told or [{}] * ranks)
        ]
        super().__init__(commands, tree.new_mark(env), output=output)

    def terminate(self, grace: float = 2.0) -> list[int]:
        """As `Job.terminate`; also gives the port back."""
        left = super().terminate(grace)
        self._reservation.close()
        return left
