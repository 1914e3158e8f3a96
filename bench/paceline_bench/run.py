"""One run: it starts every system, measures size by size, and leaves no process or file behind."""

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

from paceline.lab.lab import Lab
from paceline.lab.namespaces import Unavailable
from paceline.lab.speed import flows
from paceline_bench import report, sizes
from paceline_bench.interleave import Complain, Effort, Interleaved, Work
from paceline_bench.limit import Limit
from paceline_bench.report import Row
from paceline_bench.session import Session, SessionFailed
from paceline_bench.systems import System


@dataclass(frozen=True)
class BenchRequest:
    """A request for measurements.

    lab: the machines that the ranks are on, None for this one; it is entered for the run. timeout: seconds that the
    start of a system, or any single order to it, may take. limit: whether to measure what memory allows as well, for
    float32 and collectives that `Limit` knows.
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
    """The result of a run. Every failure and refusal was reported.

    rows: in the order of sizes, then of systems. failed: a system failed. refused: a system does not support what was
    asked.
    """

    rows: list[Row]
    failed: bool
    refused: bool


def run(
    request: BenchRequest, environ: Mapping[str, str], complain: Complain, progress: Callable[[str], None]
) -> Outcome:
    """Measure. Every process it started has ended when it returns or raises, also for KeyboardInterrupt and SIGTERM.

    environ: the environment that the ranks inherit. complain: receives a sentence for each failure of a system; the
    others continue. progress: receives a text that says what is being measured.

    Raises `lab.namespaces.Unavailable` if the lab cannot be made.
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
    """Return the machines, with the share of their rates that their links carry: the median over the machines."""
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
def started(request: BenchRequest, environ: Mapping[str, str], complain: Complain) -> Iterator[list[Session]]:
    """Yield the systems' sessions, whose ranks are connected and idle; systems that cannot start are reported and left
    out.

    All ranks have ended when the context is left.
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
    """Start all sessions before waiting for the first, and return those whose process group formed."""
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
    """Let SIGTERM interrupt as Ctrl-C does; both signals' handlers are restored at the very end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _undisturbed_exit() -> Iterator[None]:
    """Ignore further signals once the context is left, so that they do not interrupt the tear-down."""
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
