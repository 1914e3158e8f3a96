"""A plugin of pytest in each rank: leaves out what skips.toml says cannot pass, and writes down each test's outcome.

The environment says where, and what the names of the tests begin with: SUITE_OUTCOMES, a folder, and SUITE_PREFIX.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from borrowed_suite import read_skips
from run import BEGUN

from paceline.horovod import job

SKIPS = read_skips(Path(__file__).with_name("skips.toml"))
PREFIX = os.environ["SUITE_PREFIX"]
FILE = Path(os.environ["SUITE_OUTCOMES"]) / f"rank-{os.environ['HOROVOD_RANK']}"

PARTS: list[tuple[str, str]] = []
"""Of the present test, what came of each of its subtests and why."""


class Inside:
    """What Horovod's tests of process sets ask its insides for."""

    @staticmethod
    def _get_process_set_ids_and_ranks() -> dict[int, list[int]]:
        return {number: list(ranks) for number, ranks in job.current().sets.items()}


def called(nodeid: str) -> str:
    file, _, rest = nodeid.partition("::")
    return f"{PREFIX}{Path(file).stem}/{rest.rpartition('::')[2]}"


def write(name: str, state: str, detail: str, seconds: float) -> None:
    with FILE.open("a") as file:
        file.write(json.dumps([name, state, detail, seconds]) + "\n")


def pytest_configure() -> None:
    import paceline.horovod.tensorflow as hvd

    hvd.mpi_ops._basics = Inside
    # By this Horovod's tests of Adasum on CPUs ask whether it is there, which takes MPI with Horovod.
    hvd.mpi_enabled = lambda: True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        skip = SKIPS.of(called(item.nodeid))
        if skip is not None and not skip.run:
            item.add_marker(pytest.mark.skip(reason=skip.reason))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        write(called(report.nodeid), "failed", report.longreprtext, 0.0)


def pytest_runtest_logstart(nodeid: str) -> None:
    PARTS.clear()
    write(called(nodeid), "failed", BEGUN, 0.0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test whose parts were all skipped was skipped, which pytest calls passed."""
    state = report.outcome
    detail = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    if hasattr(report, "context"):  # a part of the test
        PARTS.append((state, detail))
        if not report.failed:
            return
    elif report.when == "call" and report.passed and PARTS and all(part == "skipped" for part, _ in PARTS):
        state, detail = PARTS[-1]
    if report.when == "call" or not report.passed:
        write(called(report.nodeid), state, detail, report.duration)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    # A launcher ends the other ranks when one fails, but they are to finish their tests.
    session.exitstatus = 0
