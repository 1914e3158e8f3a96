"""`horovod.run(function, ...)` calls a function on several ranks of this machine and returns their results."""

from __future__ import annotations

import math
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from signal import Signals
from subprocess import Popen, TimeoutExpired
from typing import IO, Any

import cloudpickle

from paceline.horovod import called
from paceline.horovod.hosts import Slots, elsewhere, from_file, from_text
from paceline.horovod.options import check
from paceline.horovod.rank_layout import rank_variables
from paceline.launch.job import SURVIVORS_GRACE_SECONDS
from paceline.launch.local import LocalJob
from paceline.launch.prefixed_output import rank_folder

_POLL_INTERVAL = 0.5
"""Seconds between two checks for ranks that have ended without an answer."""


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int = 1,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: Sequence[float] | None = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    host_discovery_script: str | None = None,
    start_timeout: float | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,
    output_filename: str | None = None,
    verbose: Any = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    network_interface: str | None = None,
    network_interfaces: Sequence[str] | None = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
) -> list[Any]:
    """Call `func(*args, **kwargs)` on `num_proc` ranks, new processes of this machine, and return their results in rank
    order.

    The function, its arguments and its results travel between this process and its children in cloudpickle's format, so
    the function may be a lambda, a nested function or one of the script itself. The parameters are Horovod's, in its
    order; `np` is the older name of `num_proc`.

    start_timeout: seconds within which the ranks must connect. output_filename: a folder for each rank's output:
    rank.0/stdout, rank.0/stderr and so on.

    The parameters for ssh, MPI, Gloo and caching are accepted and have no effect. Raises RuntimeError with the
    traceback of the rank that failed first. Raises ValueError for a function that cannot be serialised, for settings
    that no rank could accept, for hosts other than this machine, for another interpreter, and for parameters that would
    make the job elastic.
    """
    ranks = num_proc if np is None else np
    if ranks < 1:
        raise ValueError(f"a job needs at least one rank, not {ranks}")
    if hosts is not None and hostfile is not None:
        raise ValueError("the hosts come from hosts or from hostfile, not from both")
    if use_gloo and use_mpi:
        raise ValueError("use_gloo and use_mpi exclude each other, and neither is needed")
    elastic = (min_num_proc, max_num_proc, slots, reset_limit, cooldown_range, host_discovery_script, min_np, max_np)
    if any(value is not None for value in elastic):
        raise ValueError(
            "a function is called on ranks that stay the same; run a program to have ranks that change: "
            "`python -m paceline.horovod.run --min-np N PROGRAM`"
        )
    if executable not in (None, sys.executable):
        raise ValueError(f"ranks run {sys.executable}, as this process does, and not executable={executable!r}")
    far = elsewhere(_hosts(hosts, hostfile), ranks)
    if far:
        raise ValueError(
            f"host {far[0]} is not this machine, and a function is called only here; programs run elsewhere: "
            "`python -m paceline.horovod.run -H HOSTS PROGRAM`"
        )
    interfaces = [*(network_interface.split(",") if network_interface else ()), *(network_interfaces or ())]
    env = dict(os.environ)
    if interfaces:
        env["PACELINE_INTERFACE"] = ",".join(interfaces)
    if start_timeout is not None:
        env["HOROVOD_START_TIMEOUT"] = str(start_timeout)
    if verbose:
        env["PACELINE_LOG"] = "INFO"
    check({}, env)
    with _in_memory(_words(func, tuple(args), dict(kwargs or {}))) as call:
        return _collect(ranks, call, env, Path(output_filename) if output_filename else None)


def _hosts(text: str | None, file: str | None) -> Slots:
    return from_text(text) if text else from_file(Path(file)) if file else {}


def _words(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Serialise the call for `called`. Raises ValueError with one sentence if that fails."""
    try:
        call = cloudpickle.dumps((func, args, kwargs))
    except Exception as error:
        name = getattr(func, "__qualname__", repr(func))
        raise ValueError(f"the call of {name} cannot be sent to other processes: {error}") from None
    return pickle.dumps((sys.path, sys.argv, call))


@contextmanager
def _in_memory(data: bytes) -> Iterator[int]:
    with os.fdopen(os.memfd_create("paceline call"), "wb") as file:
        file.write(data)
        file.flush()
        yield file.fileno()


class _Ranks(LocalJob):
    """Writes output to the files that horovodrun makes."""

    def _files(self, number: int) -> tuple[IO[bytes] | None, IO[bytes] | None]:
        if self._output is None:
            return None, None
        folder = rank_folder(self._output, number, len(self._commands))
        return (folder / "stdout").open("wb"), (folder / "stderr").open("wb")


def _collect(ranks: int, call: int, env: Mapping[str, str], output: Path | None) -> list[Any]:
    with ExitStack() as pipes:
        ours, theirs = zip(*(Pipe(duplex=False) for _ in range(ranks)), strict=True)
        for pipe in (*ours, *theirs):
            pipes.enter_context(pipe)
        answers = [pipe.fileno() for pipe in theirs]
        program = [sys.executable, "-m", called.__name__, str(call), ",".join(map(str, answers))]
        job = _Ranks(
            ranks,
            program,
            env,
            output=output,
            extra_env=rank_variables(["localhost"] * ranks),
            descriptors=(call, *answers),
        )
        with job:
            for pipe in theirs:
                pipe.close()
            results, failure = _results(job, ours)
            if len(results) == ranks:  # all results are here; how the ranks exit no longer matters
                with suppress(TimeoutError):
                    job.wait(SURVIVORS_GRACE_SECONDS)
    if failure:
        raise RuntimeError(failure)
    return [results[rank] for rank in range(ranks)]


def _results(job: LocalJob, pipes: Sequence[Connection]) -> tuple[dict[int, Any], str]:
    """Return each rank's result, and a description of the failure that came first or "".

    After a failure the other ranks get a grace period to report errors of their own. Which one is seen first says
    little: a rank that fails takes others with it, and this process may hear of all at once.
    """
    results: dict[int, Any] = {}
    failures: list[tuple[float, str]] = []
    end = math.inf
    while len(results) < len(pipes) and time.monotonic() < end:
        waiting = {pipe: rank for rank, pipe in enumerate(pipes) if rank not in results}
        over = [pipe for pipe, rank in waiting.items() if job.processes[rank].poll() is not None]
        for pipe in dict.fromkeys([*wait(list(waiting), timeout=0 if over else _POLL_INTERVAL), *over]):
            assert isinstance(pipe, Connection)
            rank = waiting[pipe]
            succeeded, results[rank], ended = _answer(job.processes[rank], pipe)
            if not succeeded:
                failures.append((ended, f"rank {rank} failed: {results[rank]}"))
                end = min(end, time.monotonic() + SURVIVORS_GRACE_SECONDS)
    return results, min(failures, default=(0.0, ""))[1]


def _answer(process: Popen[bytes], pipe: Connection) -> tuple[bool, Any, float]:
    """Return the answer of a rank that has answered, ended, or both, and when that was on the monotonic clock."""
    try:
        answer = pipe.recv_bytes() if pipe.poll() else b""
    except EOFError:
        answer = b""
    if answer:
        try:
            succeeded, outcome, ended = pickle.loads(answer)
            return succeeded, outcome, ended
        except Exception as error:
            return False, f"what it returned cannot be read here: {error}", time.monotonic()
    try:
        code = process.wait(SURVIVORS_GRACE_SECONDS)
    except TimeoutExpired:
        return False, "its process closed the pipe for its answer", time.monotonic()
    how = f"was killed by {Signals(-code).name}" if code < 0 else f"exited with code {code}"
    return False, f"its process {how}", time.monotonic()
