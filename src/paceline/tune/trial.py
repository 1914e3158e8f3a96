"""One short run of the user's script with a setting: it is started, watched by asking its rank 0, and ended."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from paceline.calibration import tune as fitted
from paceline.formats.numbers import in_full
from paceline.lab.job import LabJob
from paceline.lab.lab import Lab
from paceline.launch.arguments import Arguments
from paceline.launch.job import Job, wait_for_exit
from paceline.launch.local import LocalJob
from paceline.launch.threads import THREAD_VARIABLES, interop_variables
from paceline.launch.torchrun import rank_program
from paceline.observe.begins import MAX_BYTES, decode
from paceline.observe.trace.asking import question
from paceline.observe.trace.listener import Name
from paceline.observe.trace.live import listening
from paceline.tune.run import Run, block_rates
from paceline.tune.setting import Setting

_LOOK_SECONDS = 0.2
"""Seconds between two looks at the job; each takes a rank a fraction of a millisecond."""
_ANSWER_SECONDS = 2.0
_PORTS = itertools.cycle(range(29600, 29700))
"""Ports of a lab, where nothing else runs: a job that was ended leaves its own in use for a while."""
_LAST_WORDS = 300
"""The most characters of an error that a reason quotes."""


@dataclass(frozen=True)
class Effort:
    """The time that runs may take.

    seconds: the time in which steps are measured, of which the first run of a setting takes FIRST_SHARE. timeout: the
    seconds in which a step has to come, the first one after the start too.
    """

    seconds: float = 2.0
    timeout: float = 120.0

    def of(self, number: int) -> float:
        """The seconds of a setting's run with this number, from 0."""
        return self.seconds if number else fitted.FIRST_SHARE * self.seconds


class Steps:
    """The steps that rank 0 has told of."""

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.known = False
        """True if the rank has answered at all."""
        self._name: Name | None = None

    def look(self, job: Job) -> bool:
        """Ask rank 0 of the job; returns whether there are new steps."""
        self._name = self._name or _rank_0(job)
        told = question(self._name, "steps", decode, _ANSWER_SECONDS, MAX_BYTES) if self._name else None
        if not isinstance(told, list):
            return False
        self.known = True
        if not told or told == self.begins[-len(told) :]:
            return False
        if self.begins and told[-1] < self.begins[-1]:  # the rank knows its steps better now, by another clock
            self.begins.clear()
        self.begins = [begin for begin in self.begins if begin < told[0]] + told
        return True

    def warm(self, ended: bool = False) -> list[int]:
        """The steps after the warm-up, which is the first half at most of a job that has ended."""
        late = self.begins[fitted.WARM_UP_STEPS :]
        if not late:
            return []
        warm_up_ns = fitted.WARM_UP_SECONDS * 1e9
        if ended:
            warm_up_ns = min(warm_up_ns, (self.begins[-1] - self.begins[0]) / 2)
        return [begin for begin in late if begin - self.begins[0] >= warm_up_ns]

    def enough(self, seconds: float) -> bool:
        """Return whether these steps are enough for a measurement of so many seconds."""
        warm = self.warm()
        steps, span = len(warm) - 1, (warm[-1] - warm[0]) / 1e9 if warm else 0.0
        slow = span >= fitted.SLOW * seconds
        return span >= seconds and steps >= (fitted.LEAST_SLOW_STEPS if slow else fitted.LEAST_STEPS)


def trial(
    words: Sequence[str],
    setting: Setting,
    number: int,
    environ: Mapping[str, str],
    effort: Effort,
    until: float,
    lab: Lab | None = None,
) -> Run:
    """Run the user's command with this setting until its steps are measured, and end all its processes.

    words: the command, as `paceline run` takes it. number: how many runs of the setting were before it. environ: the
    user's environment; its variables that set threads and cores are replaced. until: when the run has to be over, by
    `time.monotonic`. lab: the machines that the ranks are started on, None for this one.

    A run that fails, hangs, or ends before its steps could be measured has the reason in its result. Raises OSError if
    the processes cannot be started.
    """
    arguments = Arguments((), (), setting.command(words))
    kept = {name: value for name, value in environ.items() if name not in THREAD_VARIABLES}
    env = {**kept, "PACELINE_CORES": setting.cores, **interop_variables(setting.interop)}
    output = Path(tempfile.mkdtemp(prefix="paceline-tune-"))
    try:
        program = rank_program(arguments, env)
        with _job(setting, program, env, output, lab) as job:
            steps, reason, unused = _watched(job, effort.of(number), effort.timeout, until)
        reason = reason or _failure(job, output)
        warm = steps.warm(ended=not steps.enough(effort.of(number)))
        early = not reason and len(warm) <= fitted.LEAST_SLOW_STEPS
        if early:
            reason = _too_few(steps)
        rates = () if reason else block_rates(warm)
        return Run(setting, number, effort.of(number), rates, reason, unused, early)
    finally:
        shutil.rmtree(output, ignore_errors=True)


def _job(setting: Setting, program: Sequence[str], env: Mapping[str, str], output: Path, lab: Lab | None) -> Job:
    if lab is None:
        return LocalJob(setting.processes, program, env, threads=setting.threads, output=output)
    return LabJob(lab, program, env, port=next(_PORTS), threads=setting.threads, output=output)


def _watched(job: Job, seconds: float, timeout: float, until: float) -> tuple[Steps, str, bool]:
    """Watch the job until its steps are measured or it has ended.

    Returns its steps, why it has to be given up, and whether that is because it goes on without using Paceline.
    """
    steps = Steps()
    patience = time.monotonic() + timeout
    while job.poll() is None and not job.failures:
        if steps.look(job):
            patience = time.monotonic() + timeout
        if steps.enough(seconds):
            break
        if time.monotonic() > patience:
            count = len(steps.begins)
            since = f"after {count} steps" if count else "after the start" if steps.known else "and no use of Paceline"
            return steps, f"no step for {in_full(timeout)} s {since}", not steps.known
        if time.monotonic() > until:
            return steps, "the time of the search was over before its steps were measured", False
        wait_for_exit(job.processes, _LOOK_SECONDS)
    return steps, "", False


def _rank_0(job: Job) -> Name | None:
    """The socket of the job's rank 0, which may be a process that the started one has started; None before it is
    there.
    """
    found = [name for name in listening() if name.rank == 0]
    if not found:
        return None
    started = {process.pid for process in job.processes}
    for name in found:
        try:
            above = {name.pid, *(parent.pid for parent in psutil.Process(name.pid).parents())}
        except psutil.Error:
            continue
        if above & started:
            return name
    return None


def _failure(job: Job, output: Path) -> str:
    """The first failure of the job before it was ended, and the last line of what that rank wrote; "" without one."""
    if job.failed is None:
        return ""
    written = output / f"rank-{[process.pid for process in job.processes].index(job.failed.pid)}.err"
    lines = written.read_text(errors="replace").strip().splitlines()
    return f"{job.failed}{f': {lines[-1].strip()[:_LAST_WORDS]}' if lines else ''}"


def _too_few(steps: Steps) -> str:
    if not steps.known:
        return "it ended, and none of its processes used Paceline for long enough to be asked"
    return f"it ended after {len(steps.begins)} steps, of which the first {fitted.WARM_UP_STEPS} are warm-up"
