"""What every test shares: no process left behind; skips by name; Hypothesis without deadlines."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import hypothesis
import left_behind
import needs
import psutil
import pytest
import warm_python

if TYPE_CHECKING:
    from browser import Browser

# Ranks share few cores: how long an example takes, to make or to run, says nothing. A strict run tries the same
# examples every time.
untimed = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("default", untimed)
hypothesis.settings.register_profile("strict", untimed, derandomize=True)
hypothesis.settings.load_profile("strict" if os.environ.get(needs.STRICT) == "1" else "default")


def pytest_configure(config: pytest.Config) -> None:
    # A background job starts with SIGINT ignored and hands that down: tests of Ctrl-C would test nothing.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    left_behind.mark()
    if config.getoption("numprocesses", None):
        config.add_cleanup(partial(shutil.rmtree, warm_python.share()))
    config.addinivalue_line("markers", "needs(*names): needs these of tests/needs.py, or skips")
    config.addinivalue_line("markers", "smoke: one quick test of its kind of job, for `make check`")
    config.addinivalue_line("markers", "verify: no answer to whether it works here; `make verify` runs it")
    config.addinivalue_line("markers", "long: takes minutes; `make verify` runs it once what it covers has changed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Spare the collector what is imported with the tests, which stays: now, and whenever garbage is collected."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _no_process_left_behind() -> Iterator[None]:
    before = set(psutil.pids())
    yield
    left = left_behind.started_since(before)
    words = "\n".join(map(left_behind.describe, left))
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    assert not left, f"the tests of this module left processes behind:\n{words}"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless browser; tests that want it skip where none is installed."""
    needs.skip_without("chromium")
    from browser import Browser

    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            needs.skip_without(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    report: pytest.TestReport = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if needs.refused(reason):
            report.outcome = "failed"
            report.longrepr = f"with {needs.STRICT}=1 every test runs, and this one skipped: {reason}"
    return report
