"""Starts ranks on this machine directly, without torch, an agent or a shell."""

import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from paceline.launch import tree
from paceline.launch.job import Command, Job, wrapped
from paceline.launch.reservation import reserve
from paceline.launch.threads import thread_variables


class LocalJob(Job):
    """Runs `ranks` processes of the program `argv`, with the variables that torchrun sets.

        with LocalJob(4, [sys.executable, "work.py"], environment, threads=1) as job:
            code = job.wait(timeout=60)

    env: the whole environment of the ranks, to which RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR,
    MASTER_PORT and, unless it is set, a secret of this job (PACELINE_SECRET) are added. threads: threads per rank for
    numeric libraries; variables set in `env` take precedence, and None sets nothing. output: a folder for each rank's
    output (`rank-0.out`, `rank-0.err`, …); None uses the caller's output. report, cores: see `child.py`. extra_env:
    further variables of each rank. descriptors: see `Command`.

    When the context is left, also by an exception, every process that the job started has ended; if the launching
    process itself is killed, the kernel ends the ranks. For `poll`, `wait` and `terminate` see `Job`. Raises ValueError
    for less than one rank, and if all ports of PACELINE_PORTS in `env` are in use.
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
        extra_env: Sequence[Mapping[str, str]] = (),
        descriptors: Sequence[int] = (),
    ) -> None:
        if ranks < 1:
            raise ValueError(f"a job needs at least one rank, not {ranks}")
        self._reservation, place = reserve("127.0.0.1", env)
        base = {
            **env,
            **(thread_variables(threads, env) if threads is not None else {}),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": place.host,
            "MASTER_PORT": str(place.port),
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
            for rank, extra in enumerate(extra_env or [{}] * ranks)
        ]
        super().__init__(commands, tree.new_mark(env), output=output)

    def terminate(self, grace: float = 2.0) -> list[int]:
        """End the job as `Job.terminate` does, and release the port."""
        left = super().terminate(grace)
        self._reservation.close()
        return left
