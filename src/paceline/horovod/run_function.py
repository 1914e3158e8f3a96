"""`horovod.run(function, ...)`: a function on several ranks of this machine, and what it returns on each."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from paceline.horovod.hosts import Slots, elsewhere, from_file, from_text
from paceline.horovod.rank_layout import told
from paceline.launch.prefixed_output import rank_folder

_GRACE = 10.0
"""Seconds that the other ranks get, after one failed, to end with an error of their own."""


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
    """Call `func(*args, **kwargs)` on `num_proc` ranks, new processes of this machine; returns their results in order.

    The function, its arguments and results go between this process and its children by multiprocessing, so the function
    is one of a module, and a script calls this under `if __name__ == "__main__":`. Arguments are Horovod's, in its
    order; `np` is the older name of `num_proc`. start_timeout: seconds in which the ranks must have met.
    output_filename: a folder in which each rank's output goes to files, rank.0/stdout, rank.0/stderr and so on.
    What is about ssh, MPI, Gloo or a cache of checks is accepted and means nothing. Raises RuntimeError with the
    traceback of the rank that failed first; ValueError for hosts that are not this machine, another interpreter, and
    what would make the job elastic.
    """
    ranks = num_proc if np is None else np
    if ranks < 1:
        raise ValueError(f"a job needs at least one rank, not {ranks}")
    if hosts is not None and hostfile is not None:
        raise ValueError("the hosts come from hosts or from hostfile, not from both")
    if use_gloo and use_mpi:
        raise ValueError("use_gloo and use_mpi do not go together, and neither is needed")
    elastic = (min_num_proc, max_num_proc, slots, reset_limit, cooldown_range, host_discovery_script, min_np, max_np)
    if any(value is not None for value in elastic):
        raise ValueError(
            "a function is called on ranks that stay the same; a program's may change, by "
            "`python -m paceline.horovod.run --min-np N PROGRAM`"
        )
    if executable not in (None, sys.executable):
        raise ValueError(f"ranks run {sys.executable}, as this process does, and not executable={executable!r}")
    far = elsewhere(_hosts(hosts, hostfile), ranks)
    if far:
        raise ValueError(
            f"host {far[0]} is not this machine, and a function goes nowhere else; programs do, by "
            "`python -m paceline.horovod.run -H HOSTS PROGRAM`"
        )
    interfaces = [*(network_interface.split(",") if network_interface else ()), *(network_interfaces or ())]
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as reservation:
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reservation.bind(("127.0.0.1", 0))  # and not listening: rank 0 still can
        shared = {
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(reservation.getsockname()[1]),
            "PACELINE_SECRET": secrets.token_hex(32),
        }
        if interfaces:
            shared["PACELINE_INTERFACE"] = ",".join(interfaces)
        if start_timeout is not None:
            shared["HOROVOD_START_TIMEOUT"] = str(start_timeout)
        if verbose:
            shared["PACELINE_LOG"] = "INFO"
        environments = [
            {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank), **place}
            for rank, place in enumerate(told(["localhost"] * ranks))
        ]
        folders = [
            rank_folder(Path(output_filename), rank, ranks) if output_filename else None for rank in range(ranks)
        ]
        return _collect(environments, folders, (func, tuple(args), dict(kwargs or {})))


def _hosts(text: str | None, file: str | None) -> Slots:
    return from_text(text) if text else from_file(Path(file)) if file else {}


def _collect(
    environments: Sequence[Mapping[str, str]], folders: Sequence[Path | None], call: tuple[Any, ...]
) -> list[Any]:
    context = multiprocessing.get_context("spawn")
    pipes: list[Connection] = []
    processes = []
    try:
        for environment, folder in zip(environments, folders, strict=True):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(theirs, dict(environment), folder, *call), daemon=True)
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        return _results(pipes)
    finally:
        for process in processes:
            process.kill()
            process.join()
        for pipe in pipes:
            pipe.close()


def _results(pipes: Sequence[Connection]) -> list[Any]:
    results: dict[int, Any] = {}
    waiting = {pipe: rank for rank, pipe in enumerate(pipes)}
    failure = ""
    while waiting:
        ready = wait(list(waiting), timeout=_GRACE if failure else None)
        if not ready:
            break
        for pipe in ready:
            assert isinstance(pipe, Connection)
            rank = waiting.pop(pipe)
            try:
                succeeded, outcome = pipe.recv()
            except EOFError:
                succeeded, outcome = False, "its process ended without a word"
            if succeeded:
                results[rank] = outcome
            elif not failure:
                failure = f"rank {rank} failed: {outcome}"
    if failure:
        raise RuntimeError(failure)
    return [results[rank] for rank in range(len(pipes))]


def _work(
    pipe: Connection,
    environment: dict[str, str],
    folder: Path | None,
    func: Callable[..., Any],
    args: Any,
    kwargs: dict[str, Any],
) -> None:
    os.environ.update(environment)
    if folder is not None:
        _write_into(folder)
    try:
        answer = (True, func(*args, **kwargs))
    except BaseException:
        answer = (False, traceback.format_exc())
    pipe.send(answer)


def _write_into(folder: Path) -> None:
    """From here on both outputs of this process go to files."""
    for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
        stream.flush()
        with (folder / name).open("wb") as file:
            os.dup2(file.fileno(), stream.fileno())
