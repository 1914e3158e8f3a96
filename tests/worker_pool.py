"""Runs functions on several real processes: forked from one that has imported the framework, and kept between tests."""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from multiprocessing import current_process
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

from jobs import TORCH, warm
from warm_python import Forked

START = 180.0
"""Seconds for processes to start and import torch; no test's own time."""
GRACE = 5.0
"""Seconds that the other ranks get to report after the first one failed."""
Around = Callable[..., AbstractContextManager[None]]


class WorkerPools:
    """`run` calls a function on each process of a pool, inside `around(rank, size, **context)`.

    around: a function of a module, as the processes import it by name. preload: modules to import before forking.
    """

    def __init__(self, around: Around, preload: Sequence[str] = TORCH) -> None:
        self._around = around
        self._preload = preload
        self._pools: dict[Any, _Pool] = {}

    def run(
        self,
        function: Callable[..., Any],
        size: int,
        arguments: Mapping[str, Any],
        *,
        deadline: float,
        context: Mapping[str, Any],
        environment: Mapping[str, str],
        fresh: bool,
    ) -> list[Any]:
        """What `function(rank, size, **arguments)` returns on each rank; raises with the traceback of who failed first.

        environment: added to the processes'. fresh: the processes end with the call.
        """
        key = (size, tuple(sorted(environment.items())))
        pool = self._pools.pop(key, None)
        if pool is None:
            pool = _Pool(size, dict(environment), self._around, self._preload)
        job = (function.__module__, function.__qualname__, deadline, dict(context), dict(arguments))
        clean = False
        try:
            results = pool.run(job, deadline)
            clean = not fresh
        finally:
            if clean:
                self._pools[key] = pool
            else:
                pool.kill()
        return results

    def close(self) -> None:
        for pool in self._pools.values():
            pool.kill()


class _Pool:
    def __init__(self, size: int, environment: dict[str, str], around: Around, preload: Sequence[str]) -> None:
        self.pipes: list[Connection] = []
        self.processes: list[Forked] = []
        for rank in range(size):
            ours, theirs = Pipe()
            with theirs:
                forking, variables = warm(0, tuple(preload)), {**os.environ, **environment}
                self.processes.append(forking.start([__file__], variables, stdin=theirs.fileno()))
            ours.send((sys.path, bytes(current_process().authkey)))
            ours.send((rank, size, around))
            self.pipes.append(ours)

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
                    succeeded, when, outcome = False, time.time(), self._end_of(rank)
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

    def _end_of(self, rank: int) -> str:
        return f"the process died with exit code {self.processes[rank].wait(GRACE)}"

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for pipe in self.pipes:
            pipe.close()


def _serve() -> None:
    faulthandler.enable(sys.stderr)
    pipe = Connection(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    sys.path[:], current_process().authkey = pipe.recv()  # tensors are fetched from each other with the key
    rank, size, around = pipe.recv()
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    while True:
        pipe.send((True, time.time(), None))
        try:
            module, name, deadline, context, arguments = pipe.recv()
        except EOFError:
            return
        faulthandler.dump_traceback_later(max(1.0, deadline - 1.0), exit=False, file=sys.stderr)
        try:
            function = importlib.import_module(module)
            for part in name.split("."):
                function = getattr(function, part)
            with around(rank, size, **context):
                result = function(rank, size, **arguments)  # type: ignore[operator]
            answer = (True, time.time(), result)
        except BaseException:
            answer = (False, time.time(), traceback.format_exc())
        finally:
            faulthandler.cancel_dump_traceback_later()
        pipe.send(answer)


if __name__ == "__main__":
    _serve()
