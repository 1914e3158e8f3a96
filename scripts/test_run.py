"""Run the tests of behaviour, C++ and Python beside each other, show how they go on, and sum up.

    python scripts/test_run.py [ARGUMENT OF PYTEST]...

What pytest says is shown as it comes. The logs of both stay in build/test, and results.json with what came of them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psutil

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "test"
MEMORY_OF_WORKER = 2 << 30
"""Bytes that a pytest worker and the ranks that it starts may need."""
MOST_WORKERS = 8
LAST_WORDS = 60
"""Lines of what failed C++ tests have printed, or of the log if nothing was built, which are shown."""


@dataclass
class Outcome:
    """What came of one kind of tests. skipped: reason -> how many. printed: what failed tests have printed."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


class Run:
    """Two commands beside each other, which end with this process."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []
        self.stopped: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop)

    def start(self, words: Sequence[str], output: int) -> subprocess.Popen[bytes]:
        """A process in a session of its own, so that a signal reaches all that it starts."""
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        self._running.append(process)
        return process

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopped = number
        for process in self._running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)


def workers() -> int:
    """How many pytest processes: tests wait for half of their time, so that there are two for each CPU."""
    return max(1, min(2 * len(os.sched_getaffinity(0)), memory() // MEMORY_OF_WORKER, MOST_WORKERS))


def memory() -> int:
    """The machine's bytes of memory, or a container's."""
    limits = (Path("/sys/fs/cgroup", name) for name in ("memory.max", "memory/memory.limit_in_bytes"))
    told = [int(text) for file in limits if file.is_file() and (text := file.read_text().strip()) != "max"]
    return min([psutil.virtual_memory().total, *told])


def results(file: Path) -> Outcome:
    """What a file of JUnit's says. Raises OSError or ParseError if it is not there or not whole."""
    outcome = Outcome()
    for case in ET.parse(file).iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name')}".removeprefix("::")
        bad = [kind for kind in ("failure", "error") if case.find(kind) is not None]
        skipped = case.find("skipped")
        if bad or case.get("status") == "fail":
            outcome.failed.append(name)
            outcome.printed += [f"{name} printed:", *(case.findtext("system-out") or "nothing").splitlines()]
        elif skipped is not None:
            outcome.skipped[skipped.get("message") or "no reason is given"] += 1
        else:
            outcome.passed += 1
    return outcome


def of(file: Path, code: int, log: Path) -> Outcome:
    """The results in `file` of a command that ended with `code`; a failure of the command itself is one of them."""
    try:
        outcome = results(file)
    except (OSError, ET.ParseError):
        outcome = Outcome()
    if code and not outcome.failed:
        outcome.failed.append(f"ended with {code}: {log.relative_to(ROOT)}")
    return outcome


def summary(kinds: dict[str, Outcome], seconds: float) -> str:
    """The table of all that ran, and the sentence that counts."""
    lines = ["", f"{'':14}{'passed':>8}{'failed':>8}{'skipped':>9}"]
    for kind, outcome in kinds.items():
        lines.append(f"{kind:14}{outcome.passed:8}{len(outcome.failed):8}{outcome.skipped.total():9}")
    skipped = sum((outcome.skipped for outcome in kinds.values()), Counter[str]())
    if skipped:
        lines += ["", "skipped, with what would let them run:"]
        lines += [f"{count:6}  {reason}" for reason, count in skipped.most_common()]
    failed = [f"{kind}: {name}" for kind, outcome in kinds.items() for name in outcome.failed]
    if failed:
        lines += ["", "failed:", *(f"        {name}" for name in failed)]
    passed = sum(outcome.passed for outcome in kinds.values())
    counts = f"{passed} passed, {len(failed)} failed, {skipped.total()} skipped"
    took = "after {} min {} s".format(*divmod(round(seconds), 60))
    verdict = f"Failed, {took}; the logs are in build/test." if failed or not passed else f"Passed, {took}."
    return "\n".join([*lines, "", counts, verdict])


def main() -> int:
    """Run everything, and return the exit code."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    begin, run = time.monotonic(), Run()
    logs = {kind: FOLDER / f"{kind}.log" for kind in ("cpp", "python")}
    files = {"cpp": ROOT / "build" / "cpp" / "plain" / "results.xml", "python": FOLDER / "python.xml"}
    for old in files.values():
        old.unlink(missing_ok=True)
    with logs["cpp"].open("wb") as log:
        built = run.start(["scripts/cpp-tests", "plain"], log.fileno())
    words = [sys.executable, "-m", "pytest", "--numprocesses", str(workers()), "--dist", "worksteal", "-rfE"]
    words += [f"--junitxml={files['python']}", *sys.argv[1:]]
    tested = run.start(words, subprocess.PIPE)
    assert tested.stdout is not None
    with logs["python"].open("wb") as log:
        while part := os.read(tested.stdout.fileno(), 1 << 16):
            log.write(part)
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
    codes = {"python": tested.wait(), "cpp": built.wait()}
    if run.stopped is not None:
        print(f"Stopped by {signal.Signals(run.stopped).name}.")
        return 128 + run.stopped
    kinds = {kind: of(files[kind], codes[kind], logs[kind]) for kind in ("cpp", "python")}
    if kinds["cpp"].failed:
        log = logs["cpp"].read_text(errors="replace").splitlines()
        print(*(kinds["cpp"].printed or log)[-LAST_WORDS:], sep="\n")
    seconds = time.monotonic() - begin
    print(summary({"C++": kinds["cpp"], "Python": kinds["python"]}, seconds))
    told = {"seconds": seconds, "kinds": {kind: vars(outcome) for kind, outcome in kinds.items()}}
    (FOLDER / "results.json").write_text(json.dumps(told, indent=1) + "\n")
    return int(any(outcome.failed or not outcome.passed for outcome in kinds.values()))


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
