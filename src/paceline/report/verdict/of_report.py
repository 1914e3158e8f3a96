"""The verdict on a finished job, from its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean

from paceline.observe.report import Report
from paceline.report.verdict import predict
from paceline.report.verdict.links import communication
from paceline.report.verdict.parts import (
    Parts,
    RankStep,
    computed_by_rank,
    exchanged_by_rank,
    parts,
    rank_steps,
    window,
)
from paceline.report.verdict.slow import COMPUTES, EXCHANGES, INPUT, Slow, slow
from paceline.report.verdict.verdict import LAST_RANK, MEASURED, TRANSFER, Evidence, Gain, Latest, Verdict, judge
from paceline.settings.names import NONE
from paceline.simulate.calibrate import calibrate
from paceline.simulate.network import between_machines
from paceline.simulate.recording import Recording, ends_of, exchanged, recording

_MOSTLY = 1.5
"""A rank is named if so many times an even share of the waiting for the last rank is for it."""
_MOSTLY_SLOW = 0.5
"""Ranks that take longer are what the others wait for if the difference is this part of the wait, at least."""
_BLOCKING = "The program waits for each of its calls at once, which the simulator does not follow."


def verdict(report: Report, where: str) -> Verdict:
    """Return what limits the job of a report. where: the report's file, for the sentences.

    A report that does not show the steps of all ranks gets a verdict that says so, without a bound.
    """
    try:
        run = recording(report, where)
    except ValueError as error:
        return Verdict("", f"no verdict: {error}")
    return judge(evidence(report, run, where))


def steps_of(report: Report, run: Recording) -> tuple[tuple[tuple[RankStep, ...], ...], Parts, bool]:
    """Return the steps of every rank, the parts of the mean one, and whether each call is waited for at once."""
    steps = rank_steps(run)
    data = fmean((rank.rates.data_ms or 0.0) / 1e3 for rank in report.ranks)
    return steps, *parts(steps, [(rank.rates.exposed_ms or 0.0) / 1e3 for rank in report.ranks], data)


def evidence(report: Report, run: Recording, where: str) -> Evidence:
    """Return what a verdict on this report is made of. run: its recording."""
    steps, found, blocking = steps_of(report, run)
    several = between_machines(run.topology)
    codec = next((each.codec for each in run.profiles if each.codec != NONE), NONE)
    data = [(rank.rates.data_ms or 0.0) / 1e3 for rank in report.ranks]
    times = exchanged(ends_of(run), run.spans)
    count = len(times)
    sizes = _sizes(times)
    model = communication(run.topology, sizes, codec) if several else None
    ranks = [(rank.figures.rank, rank.figures.host) for rank in report.ranks]
    latest = _latest(report, run, steps, blocking)
    slower = _slower(
        {
            COMPUTES: computed_by_rank(steps, data, blocking),
            INPUT: data,
            EXCHANGES: exchanged_by_rank(steps, blocking),
        },
        ranks,
        latest,
        found,
    )
    if slower is not None and len(slower.ranks) > 1:
        latest = None  # of several slow ranks, which one comes last says little
    gains: list[Gain] = []
    why = _BLOCKING
    ideal = model.seconds if model is not None else None
    if not blocking:
        try:
            measured = calibrate(report, where)
        except ValueError as error:
            why = f"The simulator cannot say what would help: {error}."
        else:
            gains, why = predict.gains(measured, codec)
            if model is None:
                network = measured.workload.on(run.topology).transfer
                ideal = sum(often * network.seconds(nbytes) for nbytes, often in sizes.items())
    if several and not gains and codec == NONE:
        gains = [predict.coded(run.topology, sizes, found.step, found.transfer, TRANSFER)]
    if latest is not None:
        gains.append(_punctual(latest, found))
    elif slower is not None:
        gains.append(_as_quick(slower, found))
    return Evidence(
        ranks=report.size,
        machines=sum(len(ranks) > 0 for _, ranks in run.topology.machines()),
        steps=count,
        parts={part: seconds for part, seconds in asdict(found).items() if seconds > 0},
        nbytes=sum(often * nbytes for nbytes, often in sizes.items()),
        ideal=ideal,
        actual=sum(took for step in times for took, _ in step) / count,
        links=model.links if model is not None else (),
        latest=latest,
        slow=slower,
        gains=tuple(gains),
        no_gains=why,
        untold=next((rank.last for rank in report.ranks if rank.last is not None), None),
        window=window(steps),
    )


def _sizes(steps: Sequence[Sequence[tuple[float, int]]]) -> dict[int, float]:
    """Return the mean number of exchanges of each number of bytes in a step."""
    counts = Counter(nbytes for step in steps for _, nbytes in step)
    return {nbytes: count / len(steps) for nbytes, count in counts.items()}


def _latest(report: Report, run: Recording, steps: Sequence[Sequence[RankStep]], blocking: bool) -> Latest | None:
    """The rank by which the others were held up longest; None if the ranks take turns, or are not told apart.

    A program that waits for each call at once is held up in each; another is when its last tensor is submitted late.
    """
    if blocking:
        moments = [[one[key].begin for one in run.calls] for row in run.rows[1:] for key in row]
    else:
        moments = [[one.ready for one in row] for row in zip(*steps, strict=True)]
    late: dict[int, float] = {}
    for came in moments:
        (second, _), (last, rank) = sorted((moment, rank) for rank, moment in enumerate(came))[-2:]
        late[rank] = late.get(rank, 0.0) + last - second
    rank, seconds = max(late.items(), key=lambda item: item[1])
    if not seconds or seconds < _MOSTLY / len(steps) * sum(late.values()):
        return None
    shown = report.ranks[rank]
    if shown.last is None or shown.last.late_ms is None:
        return None
    held_up = seconds / (len(run.rows) - 1)
    return Latest(shown.figures.rank, shown.figures.host, shown.last.share, shown.last.late_ms / 1e3, held_up)


def _slower(
    taken: Mapping[str, Sequence[float]], ranks: Sequence[tuple[int, str]], latest: Latest | None, found: Parts
) -> Slow | None:
    """Return the ranks for which the others wait, by what most of their lateness is for; None if nothing explains it.

    taken: for each reason the seconds of a step of each rank.
    """
    several = (slow(seconds, ranks, by) for by, seconds in taken.items())
    causes = [one for one in several if one is not None and _explains(one, latest, found)]
    return max(causes, key=lambda one: one.seconds - one.others, default=None)


def _punctual(latest: Latest, found: Parts) -> Gain:
    """Return the most that it would give if the last rank came with the one before, each step ending as much earlier.

    It may give less, because exchanges that went on while the others waited would then take time of their own.
    """
    saved = min(latest.held_up, found.step - found.transfer)
    return Gain(f"rank {latest.rank} coming with the others", found.step / (found.step - saved), MEASURED, LAST_RANK)


def _explains(slower: Slow, latest: Latest | None, found: Parts) -> bool:
    """Return whether it is for these ranks that the others wait, and not for one that comes late otherwise."""
    known = latest is None or latest.rank in slower.ranks
    return known and slower.seconds - slower.others >= _MOSTLY_SLOW * found.last_rank


def _as_quick(slower: Slow, found: Parts) -> Gain:
    """Return the most that it would give if several slow ranks computed like the others."""
    saved = min(slower.seconds - slower.others, found.step - found.transfer)
    return Gain(slower.remedy, found.step / (found.step - saved), MEASURED, LAST_RANK)
