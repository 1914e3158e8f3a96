"""Jobs of ranks that run a program of a test's folder, without a launcher."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from warm_python import STACKS, Forked, WarmPython

from paceline.launch import tree
from paceline.launch.job import Command
from paceline.launch.local import LocalJob

PROGRAMS = Path(__file__).with_name("programs")
"""What ranks of several rooms' tests run."""
RAW = (
    "encodings.idna",
    "numpy.random",
    "paceline.adapt.adaptation",
    "paceline.adapt.remeasure",
    "paceline.adapt.replanner",
    "paceline.coordinate",
    "paceline.process.verdict_log",
    "paceline.plan.between",
    "paceline.process.init",
    "paceline.topology.file",
    "psutil",
    "pytest",
)
"""What nearly all programs import, and jobs on several machines."""
TORCH = (
    *RAW,
    "paceline.horovod.torch",
    "paceline.torch",
    "paceline.torch.backend",
    "paceline.torch.first_store",
    "paceline.torch.fully_sharded",
    "paceline.torch.gradients",
    "paceline.torch.sharded",
    "torch._dynamo",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
)
"""What programs of torch's users import."""


def warm(number: int, imports: tuple[str, ...] = RAW, library_path: str | None = None) -> WarmPython:
    """One of several processes that have imported these modules. They last as long as the tests.

    library_path: their LD_LIBRARY_PATH, which the linker reads as a process begins; None: that of this process.
    """
    return _warm(number, imports, None if library_path == os.environ.get("LD_LIBRARY_PATH") else library_path)


@cache
def _warm(number: int, imports: tuple[str, ...], library_path: str | None) -> WarmPython:
    under = [] if library_path is None else ["env", f"LD_LIBRARY_PATH={library_path}"]
    modules = (*imports, "brief_rounds") if imports in (RAW, TORCH) else imports
    brief = imports == TORCH or number == 0  # others take themselves apart, as interpreters do
    return WarmPython(modules, under, brief, number=None if under else number)


class WarmJob(LocalJob):
    """Its ranks are forked from processes that have imported what they need, which saves most of a short job's time.

    There are two such processes, so that neither the hashes of strings nor the addresses of libraries are alike on all
    ranks.
    """

    def __init__(
        self, ranks: int, argv: list[str], env: Mapping[str, str], output: Path, imports: tuple[str, ...]
    ) -> None:
        super().__init__(ranks, argv, env, threads=1, output=output)
        self._argv, self._folder, self._imports = argv, output, imports

    def _spawn(self, number: int, command: Command) -> Forked:  # type: ignore[override]
        stem = self._folder / f"rank-{number}"
        env = {**command.env, tree.MARK: self.mark}
        forking = warm(number % 2, self._imports, command.env.get("LD_LIBRARY_PATH"))
        return forking.start(self._argv, env, stem.with_suffix(".out"), stem.with_suffix(".err"))


def job(
    ranks: int,
    program: Path,
    *arguments: str,
    output: Path,
    env: Mapping[str, str] | None = None,
    imports: tuple[str, ...] | None = RAW,
) -> LocalJob:
    """A job of `ranks` processes of `program`, whose output goes to the folder `output`.

    imports: what the processes have imported from the beginning; None: each is an interpreter of its own.
    """
    argv, environment = [str(program), *arguments], {**os.environ, **(env or {})}
    if imports is None:
        return LocalJob(ranks, [sys.executable, *argv], environment, threads=1, output=output)
    return WarmJob(ranks, argv, environment, output, imports)


def run(
    ranks: int,
    program: Path,
    *arguments: str,
    output: Path,
    deadline: float = 250,
    env: Mapping[str, str] | None = None,
    imports: tuple[str, ...] | None = RAW,
) -> None:
    """Run it to its end; fails with what the ranks wrote if one of them fails or time is up."""
    with job(ranks, program, *arguments, output=output, env=env, imports=imports) as running:
        try:
            code = running.wait(deadline)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{whereabouts(running, output)}\n{words(output)}") from None
    assert code == 0, words(output)


def whereabouts(running: LocalJob, output: Path) -> str:
    """What the threads of each process that still runs do in the kernel; its stacks come to what it wrote."""
    lines = []
    for number, process in enumerate(running.processes):
        if process.poll() is not None:
            continue
        for thread in Path(f"/proc/{process.pid}/task").iterdir():
            with suppress(OSError):  # it has just ended
                state, *_ = (thread / "stat").read_text().rpartition(")")[2].split()
                lines.append(f"rank {number}, thread {thread.name}: {state} {(thread / 'wchan').read_text()}")
        if isinstance(running, WarmJob):
            process.send_signal(STACKS)
            written, deadline = output / f"rank-{number}.err", time.monotonic() + 5
            while "Current thread" not in written.read_text() and time.monotonic() < deadline:
                time.sleep(0.05)
    return "\n".join(lines)


def words(output: Path) -> str:
    """The end of what each rank wrote."""
    return "\n".join(f"{path.name}: {path.read_text()[-3000:]}" for path in sorted(output.iterdir()))
