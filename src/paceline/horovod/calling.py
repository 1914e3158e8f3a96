"""`horovod.run(function, ...)`: a function on several ranks of this machine, and what it returns on each."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from paceline.horovod.hosts import elsewhere, from_text

_GRACE = 10.0
"""Seconds that the other ranks get, after one failed, to end with an error of their own."""


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int = 1,
    hosts: str | None = None,
    verbose: Any = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    network_interfaces: Sequence[str] | None = None,
    np: int | None = None,
) -> list[Any]:
    """Call `func(*args, **kwargs)` on `num_proc` ranks, new processes of this machine; returns their results in order.

    The function, its arguments and results go between this process and its children by multiprocessing, so the function
    is one of a module, and a script calls this under `if __name__ == "__main__":`. np: the older name of `num_proc`.
    use_gloo, use_mpi are accepted and mean nothing. Raises RuntimeError with the traceback of the rank that failed
    first, ValueError for hosts that are not this machine.
    """
    ranks = num_proc if np is None else np
    if ranks < 1:
        raise ValueError(f"a job needs at least one rank, not {ranks}")
    far = elsewhere(from_text(hosts), ranks) if hosts else []
    if far:
        raise ValueError(
            f"host {far[0]} is not this machine, and a function goes nowhere else; programs do, by "
            "`python -m paceline.horovod.run -H HOSTS PROGRAM`"
        )
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
        if network_interfaces:
            shared["PACELINE_INTERFACE"] = ",".join(network_interfaces)
        if verbose:
            shared["PACELINE_LOG"] = "INFO"
        environments = [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]
        return _collect(environments, (func, tuple(args), dict(kwargs or {})))


def _collect(environments: Sequence[Mapping[str, str]], call: tuple[Any, ...]) -> list[Any]:
    context = multiprocessing.get_context("spawn")
    pipes: list[Connection] = []
    processes = []
    try:
        for environment in environments:
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(theirs, dict(environment), *call), daemon=True)
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
    pipe: Connection, environment: dict[str, str], func: Callable[..., Any], args: Any, kwargs: dict[str, Any]
) -> None:
    os.environ.update(environment)
    try:
        answer = (True, func(*args, **kwargs))
    except BaseException:
        answer = (False, traceback.format_exc())
    pipe.send(answer)
