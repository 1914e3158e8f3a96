"""One run: start every system, measure size by size, leave nothing behind."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import FrameType, TracebackType

from paceline.bench import report, sizes
from paceline.bench.interleave import Complain, Effort, Interleaved, Work
from paceline.bench.limit import Limit
from paceline.bench.report import Row
from paceline.bench.session import Session, SessionFailed
from paceline.bench.systems import System
from paceline.lab.lab import Lab
from paceline.lab.namespaces import Unavailable
from paceline.lab.speed import flows


@dataclass(frozen=True)
class Request:
    """What to measure. timeout: seconds that starting a system, or any single order to it, may take.

    lab: the machines that the ranks are on, None for this one; it is entered for the run.
    limit: measure what memory allows as well, for all_reduce of float32 sums.
    """

    systems: Sequence[System]
    ranks: int
    works: Sequence[Work] = ()
    lab: Lab | None = None
    effort: Effort = field(default_factory=Effort)
    timeout: float = 120.0
    limit: bool = False


@dataclass
class Outcome:
    """rows: in the order of sizes, then systems. failed: a system broke. refused: one can't do what was asked.

    Whatever led to either was complained about.
    """

    rows: list[Row]
    failed: bool
    refused: bool


def run(request: Request, environ: Mapping[str, str], complain: Complain, progress: Callable[[str], None]) -> Outcome:
    """Measures; everything it started is gone when it returns or raises, also for KeyboardInterrupt and SIGTERM.

    environ: what the ranks inherit. complain: told what goes wrong with one system, while the others go on.
    Raises `lab.namespaces.Unavailable` when the lab can't be made.
    """
    progress("starting")
    with started(request, environ, complain) as alive:
        limit = [Limit(request.ranks)] if request.limit else []
        meter = request.lab.traffic if request.lab else None
        interleaved = Interleaved([*alive, *limit], request.effort, complain, meter)
        interleaved.failed = len(alive) < len(request.systems)
        place = _place(request.lab, complain, progress)
        rows: list[Row] = []
        for work in request.works:
            name = f"{work.collective} {sizes.show(sizes.in_bytes(work.elements, work.dtype))}"
            progress(name)
            measured = interleaved.measure(work, lambda done, name=name: progress(f"{name}, round {done}"))  # type: ignore[misc]
            rows += report.best([report.figures(one, work, place) for one in measured])
        return Outcome(rows, interleaved.failed, interleaved.refused)


def _place(lab: Lab | None, complain: Complain, progress: Callable[[str], None]) -> report.Place:
    """The machines, with the share of their rates that their links carry: the median over the machines."""
    if lab is None:
        return report.HERE
    progress("iperf3")
    try:
        shares = [flow.efficiency for flow in flows(lab)]
    except Unavailable as reason:
        complain(str(reason))
        shares = []
    return report.Place(lab.topology, median(shares) if shares else None)


@contextmanager
def started(request: Request, environ: Mapping[str, str], complain: Complain) -> Iterator[list[Session]]:
    """The systems' ranks, met and idle; those of systems that could not start are complained about and left out.

    They are gone at the end, however that comes about.
    """
    with ExitStack() as stack:
        stack.enter_context(_sigterm_interrupts())
        home = Path(tempfile.mkdtemp(prefix="paceline-bench-"))
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        lab = stack.enter_context(request.lab) if request.lab else None
        sessions = [Session(system, request.ranks, home, request.timeout) for system in request.systems]
        for session in sessions:
            stack.push(_stopper(session))
        stack.enter_context(_undisturbed_exit())
        yield _alive(sessions, environ, lab, complain)


def _alive(sessions: list[Session], environ: Mapping[str, str], lab: Lab | None, complain: Complain) -> list[Session]:
    """Starts all; the sessions whose process group formed. All start before the first is waited for."""
    steps: list[Callable[[Session], None]] = [lambda one: one.start(environ, lab), Session.meet, Session.begin]
    for step in steps:
        kept = []
        for session in sessions:
            try:
                step(session)
                kept.append(session)
            except (SessionFailed, OSError) as reason:
                complain(str(reason))
                session.stop(gently=False)
        sessions = kept
    return sessions


Exit = Callable[[type[BaseException] | None, BaseException | None, TracebackType | None], None]


def _stopper(session: Session) -> Exit:
    return lambda kind, error, trace: session.stop(gently=kind is None)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """SIGTERM tears down as Ctrl-C does; both signals' handlers are put back at the very end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _undisturbed_exit() -> Iterator[None]:
    """From its end on, a second Ctrl-C does not interrupt the tear-down."""
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
