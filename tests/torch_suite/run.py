"""Runs torch's own distributed test suite, as shipped in the torch wheel, against the paceline backend.

    python run.py [--select all|representative|NAME...] [--list] [--failures-only]

Ends with `N passed, N failed, N skipped`. Every skipped test must be listed in skips.toml with a reason; a
skip that is not listed fails the run, a listed test that is not skipped gives a warning.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from borrowed_suite import Outcome, conclude, read_skips, show

HERE = Path(__file__).resolve().parent

RANKS = 4
MANY_RANKS = 8
"""For the tests that ask for a larger world."""
DEADLINE = 120.0
"""Seconds for one test."""


UNLOCKED = ("Only MPI supports CPU all_to_all_single", "Only MPI supports all_to_all")
"""torch's reasons for a skip that do not hold: these tests apply to every backend for CPU tensors."""


class AlsoGloo(str):
    """A backend's name that passes for "gloo" too, by which torch's tests mean "a backend for CPU tensors"."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) or other == "gloo"

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def load_suite() -> type[unittest.TestCase]:
    """torch's test class, set up for paceline.

    Changed in it: the backend's name passes for Gloo's too, and all_to_all is not MPI's alone; no profiler
    events are looked for (we emit none yet); two deadlines, too short for four ranks on two cores; ranks are
    forked, because importing torch takes longer than most tests.
    """
    os.environ |= {
        "BACKEND": "gloo",
        "WORLD_SIZE": str(RANKS),
        "OMP_NUM_THREADS": "1",
        "INIT_METHOD": "file://",
    }
    import torch.multiprocessing
    from torch.testing._internal import common_distributed
    from torch.testing._internal.distributed import distributed_test

    import paceline.torch  # noqa: F401  (registers the backend where the package is not installed)

    os.environ["BACKEND"] = "paceline"
    distributed_test.BACKEND = AlsoGloo("paceline")
    for kind in ("PROFILING", "CUDA_PROFILING", "SEND_RECV_PROFILING"):
        setattr(distributed_test, f"{kind}_SUPPORTED_BACKENDS", [])
    for feature in ("ddp", "subgroup", "plugin"):
        common_distributed.DistTestCases.backend_feature[feature].add("paceline")
    distributed_test.Barrier.sync.__func__.__defaults__ = (None, DEADLINE)
    common_distributed.TIMEOUT_DEFAULT = int(DEADLINE)

    base = distributed_test.DistributedTest._DistTestBase
    for test in vars(base).values():
        if getattr(test, "__unittest_skip_why__", None) in UNLOCKED:
            test.__unittest_skip__ = False

    bases = (distributed_test.TestDistBackend, base)

    def set_up(self: Any) -> None:
        super(suite, self).setUp()
        distributed_test.INIT_METHOD = os.environ["INIT_METHOD"]
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    suite: Any = type("PacelineSuite", bases, {"setUp": set_up, "__module__": __name__})
    return suite


def names(suite: type[unittest.TestCase]) -> list[str]:
    return list(unittest.TestLoader().getTestCaseNames(suite))


def run_test(suite: type[unittest.TestCase], name: str) -> Outcome:
    outcome = _run_with(suite, name, RANKS)
    if outcome.state == "skipped" and "world" in outcome.detail.lower():
        return _run_with(suite, name, MANY_RANKS)
    return outcome


def _run_with(suite: type[unittest.TestCase], name: str, ranks: int) -> Outcome:
    os.environ["WORLD_SIZE"] = str(ranks)
    result = unittest.TestResult()
    start = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        with output_to(output):
            suite(name).run(result)
        seconds = time.monotonic() - start
        if result.skipped:
            return Outcome(name, "skipped", result.skipped[0][1], seconds)
        if problems := result.errors + result.failures:
            output.seek(0)
            return Outcome(name, "failed", f"{output.read()}\n{problems[0][1]}", seconds)
    return Outcome(name, "passed", "", seconds)


@contextmanager
def output_to(file: IO[str]) -> Iterator[None]:
    """Send what this process and those that it starts print to `file`."""
    sys.stdout.flush()
    sys.stderr.flush()
    terminal = [os.dup(1), os.dup(2)]
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, saved in enumerate(terminal, start=1):
            os.dup2(saved, descriptor)
            os.close(saved)


def choose(available: list[str], selection: list[str]) -> Iterator[str]:
    if selection == ["all"]:
        yield from available
        return
    if selection == ["representative"]:
        lines = (HERE / "representative.txt").read_text().splitlines()
        selection = [line for line in lines if line and not line.startswith("#")]
    for name in selection:
        if name not in available:
            raise SystemExit(f"torch's suite has no test {name}")
        yield name


def main() -> int:
    parser = argparse.ArgumentParser(description="torch's own distributed tests on paceline")
    parser.add_argument("--select", nargs="+", default=["representative"], help="all, representative, or names")
    parser.add_argument("--list", action="store_true", help="print the names and exit")
    parser.add_argument("--failures-only", action="store_true", help="do not print passed tests")
    arguments = parser.parse_args()
    suite = load_suite()
    available = names(suite)
    if arguments.list:
        print(*available, sep="\n")
        return 0
    skips = read_skips(HERE / "skips.toml")
    outcomes: list[Outcome] = []
    for name in choose(available, arguments.select):
        skip = skips.of(name)
        if skip is not None and not skip.run:
            outcome = Outcome(name, "skipped", skip.reason, 0.0)
        else:
            outcome = skips.judge(run_test(suite, name))
        outcomes.append(outcome)
        show(outcome, arguments.failures_only)
    for name in skips.unused(available):
        print(f"warning: skips.toml lists {name}, which torch's suite does not have")
    return conclude(outcomes)


if __name__ == "__main__":
    sys.exit(main())
