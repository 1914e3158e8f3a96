"""Runs one function on several real processes: forked from one that has imported torch, and kept between tests."""

from __future__ import annotations

import faulthandler
import importlib
import itertools
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch
import torch.distributed as dist

START = 180.0
"""Seconds for processes to start and import torch; no test's own time."""
PRELOAD = [
    "paceline.torch",
    "torch._dynamo",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
]
GRACE = 5.0
"""Seconds that the other ranks get to report after the first one failed."""


class Ranks:
    """`ranks(function, size)` calls `function(rank, size)` on each of `size` processes in one process group.

    It returns what the ranks returned, in order, or raises with the traceback of the rank that failed first.
    """

    def __init__(self) -> None:
        self._store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self._crews: dict[Any, _Crew] = {}
        self._jobs = itertools.count()

    def __call__(
        self,
        function: Callable[..., Any],
        size: int = 2,
        *,
        deadline: float = 120.0,
        timeout: float = 30.0,
        backend: str = "paceline",
        environment: dict[str, str] | None = None,
        fresh: bool = False,
        **arguments: Any,
    ) -> list[Any]:
        key = (size, tuple(sorted((environment or {}).items())))
        crew = self._crews.pop(key, None)
        if crew is None:
            crew = _Crew(size, environment or {}, self._store.port)
        job = (
            next(self._jobs),
            function.__module__,
            function.__qualname__,
            backend,
            timeout,
            deadline,
            arguments,
        )
        clean = False
        try:
            results = crew.run(job, deadline)
            clean = not fresh
        finally:
            if clean:
                self._crews[key] = crew
            else:
                crew.kill()
        return results

    def close(self) -> None:
        for crew in self._crews.values():
            crew.kill()


class _Crew:
    def __init__(self, size: int, environment: dict[str, str], port: int) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOAD)
        self.pipes: list[Connection] = []
        self.processes: list[BaseProcess] = []
        for rank in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, rank, size, port, environment), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def run(self, job: tuple[Any, ...], deadline: float) -> list[Any]:
        self._collect(START)
        for pipe in self.pipes:
            pipe.send(job)
        return self._collect(deadline)

    def _collect(self, deadline: float) -> list[Any]:
        end = time.monotonic() + deadline
        waiting = dict(zip(self.pipes, range(len(self.pipes)), strict=True))
        results: dict[int, Any] = {}
        failures: list[tuple[float, int, str]] = []
        while waiting and time.monotonic() < end:
            for pipe in wait(list(waiting), timeout=max(0.0, end - time.monotonic())):
                assert isinstance(pipe, Connection)
                rank = waiting.pop(pipe)
                try:
                    succeeded, when, outcome = pipe.recv()
                except EOFError:
                    succeeded, when, outcome = False, time.time(), "the process died"
                if succeeded:
                    results[rank] = outcome
                else:
                    failures.append((when, rank, outcome))
                    end = min(end, time.monotonic() + GRACE)
        if failures:
            (_, rank, text), *others = sorted(failures)
            then = [f"rank {other}: {words.strip().splitlines()[-1]}" for _, other, words in others]
            raise AssertionError("\n".join([f"rank {rank} failed first:", text, *then]))
        if waiting:
            raise AssertionError(
                f"ranks {sorted(waiting.values())} did not finish within {deadline:g} s (stacks above)"
            )
        return [results[rank] for rank in sorted(results)]

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        for pipe in self.pipes:
            pipe.close()


def _serve(pipe: Connection, rank: int, size: int, port: int, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    torch.set_num_threads(1)
    dist.set_debug_level_from_env()
    server = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
    while True:
        pipe.send((True, time.time(), None))
        try:
            number, module, name, backend, timeout, deadline, arguments = pipe.recv()
        except EOFError:
            return
        faulthandler.dump_traceback_later(max(1.0, deadline - 1.0), exit=False, file=sys.stderr)
        try:
            function = importlib.import_module(module)
            for part in name.split("."):
                function = getattr(function, part)
            dist.init_process_group(
                backend,
                store=dist.PrefixStore(f"job{number}", server),
                rank=rank,
                world_size=size,
                timeout=timedelta(seconds=timeout),
            )
            result = function(rank, size, **arguments)  # type: ignore[operator]
            if dist.is_initialized():
                dist.destroy_process_group()
            answer = (True, time.time(), result)
        except BaseException:
            answer = (False, time.time(), traceback.format_exc())
        finally:
            faulthandler.cancel_dump_traceback_later()
        pipe.send(answer)
