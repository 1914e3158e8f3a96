"""What every test shares: no process left behind; skips, which CI turns into failures; Hypothesis without deadlines."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import left_behind
import psutil
import pytest

if TYPE_CHECKING:
    from browser import Browser

SYSTEM_PACKAGES = Path(__file__).parents[1] / "requirements" / "system-packages.txt"
REFUSED_IN_CI = ("needs system package", "needs root")

# Ranks share few cores: how long an example takes, to make or to run, says nothing. CI tries the same examples every
# time.
untimed = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("default", untimed)
hypothesis.settings.register_profile("ci", untimed, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_configure(config: pytest.Config) -> None:
    # A background job starts with SIGINT ignored and hands that down: tests of Ctrl-C would test nothing.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    left_behind.mark()
    config.addinivalue_line("markers", "needs_package(*names): needs these packages of system-packages.txt")
    config.addinivalue_line("markers", "requires_root_network: makes network namespaces with `ip`")
    config.addinivalue_line("markers", "smoke: one quick test of its kind of job, for `make check`")
    config.addinivalue_line(
        "markers", "long: takes long and covers few files; `make test-long` runs it, once they change"
    )


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
    from browser import CHROMIUM, Browser

    if CHROMIUM is None:
        pytest.skip("needs a browser: chromium")
    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs_package"):
        for name in marker.args:
            skip_without(name)
    if item.get_closest_marker("requires_root_network"):
        skip_without("iproute2")
        if not can_make_network_namespaces():
            pytest.skip("needs root, or the right to make network namespaces")


def skip_without(package: str) -> None:
    """Skip the running test, naming `package`, unless the command or the file that it brings is there.

    Args:
        package: a name listed in requirements/system-packages.txt (KeyError otherwise).
    """
    command = system_packages()[package]
    if which(command) is None and not Path(command).is_file():
        pytest.skip(f"needs system package {package} (no {command})")


@cache
def system_packages() -> dict[str, str]:
    """Debian package -> the command or the file that shows it is there."""
    lines = (line.partition("#")[0].split() for line in SYSTEM_PACKAGES.read_text().splitlines())
    return {words[0]: words[1] for words in lines if words}


def which(command: str) -> str | None:
    # Debian keeps `ip` and its like out of an ordinary user's PATH.
    return shutil.which(command) or shutil.which(command, path="/usr/sbin:/sbin")


@cache
def can_make_network_namespaces() -> bool:
    unshare = which("unshare")
    return unshare is not None and subprocess.run([unshare, "--net", "true"], capture_output=True).returncode == 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    report: pytest.TestReport = yield
    return refuse_skip(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    report: pytest.CollectReport = yield
    return refuse_skip(report)


def refuse_skip(report):
    """Turn a skip for want of the system into a failure when CI runs the tests."""
    if os.environ.get("CI") == "true" and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith(REFUSED_IN_CI):
            report.outcome = "failed"
            report.longrepr = f"CI runs every test, and this one skipped: {reason}"
    return report
