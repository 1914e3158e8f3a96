"""The sections of the page on a run: the verdict, ranks × time, who came last, tensors, links, the window, cores."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from statistics import median

from paceline.formats.numbers import DASH, number, percent, size
from paceline.formats.page import bar, figure, keys, page, paragraph, section, table
from paceline.formats.sizes import show_seconds
from paceline.observe.profile import Profile
from paceline.observe.report import Report
from paceline.report.page.data import PARTS, Drawn, drawn
from paceline.report.verdict.of_report import steps_of, verdict
from paceline.report.verdict.parts import spans_of
from paceline.report.verdict.verdict import COMPUTATION, DATA, LAST_RANK, NEGOTIATION, TRANSFER, Evidence, Verdict
from paceline.simulate.recording import Recording, recording
from paceline.topology.units import show_speed

_PARTS = {
    COMPUTATION: "computes",
    DATA: "waits for a batch",
    LAST_RANK: "waits for the last rank",
    NEGOTIATION: "waits until the ranks agree",
    TRANSFER: "waits for bytes",
}
_NO_SCRIPT = '<noscript><p class="faint">This part is drawn by a script, which is switched off here.</p></noscript>'


def report_page(report: Report, where: str) -> str:
    """Return the page as HTML. where: the report's file, for the title and for sentences."""
    try:
        run = recording(report, where)
    except ValueError:
        run = None
    found, shown = verdict(report, where), drawn(report, run)
    own = files("paceline.report.page")
    return page(
        f"{where}: {report.title}",
        _sections(report, run, found, shown),
        shown.data,
        style=(own / "report.css").read_text(encoding="utf-8"),
        script=(own / "report.js").read_text(encoding="utf-8"),
    )


def _sections(report: Report, run: Recording | None, found: Verdict, shown: Drawn) -> Iterator[str]:
    yield _verdict(report, found)
    if run is not None:
        yield _time(run, report, shown)
    if found.gains:
        yield _gains(found)
    if any(rank.last for rank in report.ranks):
        yield _last(report)
    if run is not None:
        yield _tensors(shown)
    if found.evidence is not None and found.evidence.links:
        yield _links(found.evidence)
    if found.evidence is not None and found.evidence.window is not None:
        yield _window(found.evidence.window)
    if report.ranks:
        yield _cores(report)


def _verdict(report: Report, found: Verdict) -> str:
    content = [paragraph(found.headline, "headline"), paragraph(" ".join(found.details))]
    content += [paragraph(remark, "warning") for remark in report.remarks]
    if found.evidence is not None:
        content.append(_bar(found.evidence))
    return section("verdict", "Verdict", *content)


def _gains(found: Verdict) -> str:
    rows = [(gain.change, gain.times, gain.by, gain.price or DASH) for gain in found.gains]
    columns = ("change", "throughput", "by the", "costs")
    shown = table("Changes, the best first", columns, rows, words=("change", "by the", "costs"))
    return section("gains", "What would help", shown)


def _bar(evidence: Evidence) -> str:
    """A bar of the mean step, and in numbers."""
    parts = [part for part in _PARTS if evidence.parts.get(part, 0.0) > 0]
    shares = {part: percent(evidence.share(part)) for part in parts}
    return figure(
        f"Where a step of {show_seconds(evidence.step)} goes on the mean rank ({evidence.steps:.0f} steps)",
        bar((part, f"{_PARTS[part]}: {shares[part]}", evidence.share(part)) for part in parts),
        keys((part, f"{_PARTS[part]}: {show_seconds(evidence.parts[part])}, {shares[part]}") for part in parts),
    )


def _time(run: Recording, report: Report, shown: Drawn) -> str:
    steps, _, blocking = steps_of(report, run)
    rows = []
    for rank, row in zip(report.ranks, steps, strict=True):
        seconds = dict.fromkeys(PARTS, 0.0)
        for one in row:
            for part, begin, end in spans_of(one, blocking):
                seconds[part] += (end - begin) / len(row)
        figures = rank.figures
        exposed = rank.rates.exposed_ms
        rows.append((
            figures.rank, figures.host, *map(show_seconds, seconds.values()),
            DASH if exposed is None else show_seconds(exposed / 1e3),
        ))  # fmt: skip
    text = "Each row is a rank, on one clock for all machines."
    if not blocking:
        text += " Until it has submitted its last tensor a rank computes, while earlier tensors are exchanged."
    if shown.ranks_left_out:
        text += f" {shown.ranks_left_out} ranks, which were ready earlier than these, are not drawn."
    columns = (
        "rank", "host", "computes", "waits for the last rank", "waits until the ranks agree",
        "waits for bytes", "exposed",
    )  # fmt: skip
    return section(
        "time",
        "Ranks over time",
        paragraph(text, "faint"),
        _NO_SCRIPT,
        '<div id="timeline"></div>',
        table("A step of each rank, in the mean", columns, rows, words=("host",)),
    )


def _last(report: Report) -> str:
    known = next(rank.last for rank in report.ranks if rank.last)
    rows = [
        (
            rank.figures.rank,
            rank.figures.host,
            percent(rank.last.share),
            number(rank.last.late_ms),
            ", ".join(f"{name[:80]} ({times})" for name, times in list(rank.last.tensors.items())[:3]) or DASH,
        )
        for rank in report.ranks
        if rank.last
    ]
    columns = ("rank", "host", "last in", "late by (ms)", "most often for")
    caption = f"Arrived last ({known.told})"
    return section("last", "Who came last", table(caption, columns, rows, words=("host", "most often for")))


def _tensors(shown: Drawn) -> str:
    text = (
        "How long the ranks waited for the last one to submit a tensor, and how long it took from there. Open a "
        "tensor to see how late each rank submitted it."
    )
    if shown.tensors_left_out:
        text += f" {shown.tensors_left_out} tensors that took less are left out."
    return section("tensors", "Tensors", paragraph(text, "faint"), _NO_SCRIPT, '<div id="tensor-table"></div>')


def _links(evidence: Evidence) -> str:
    rows = []
    for link in evidence.links:
        reached = show_speed(link.nbytes / evidence.actual) if evidence.actual and link.nbytes else DASH
        rows.append((
            link.name, show_speed(link.up), show_speed(link.down), size(link.nbytes), show_seconds(link.seconds),
            percent(link.seconds / evidence.step), reached,
        ))  # fmt: skip
    columns = ("link of", "up", "down", "bytes each way", "busy", "of the step", "carried")
    text = (
        "Speeds are those that the job took its links for: from its topology file, or as it measured them when it "
        "began. The cost model says how many bytes of a step cross each link, and how long that keeps it busy. "
        "“Carried” is these bytes over the time that exchanges really took."
    )
    return section(
        "links",
        "Links between machines",
        paragraph(text, "faint"),
        table("Links in a step, the busiest first", columns, rows, words=("link of",)),
    )


def _window(share: float) -> str:
    text = (
        f"{percent(share)} of a step passes before its first tensor can be transferred. In this window, the "
        "load-imbalance susceptible window of Pumma et al. (CCGRID 2020), nothing hides what delays a rank: an input "
        "pipeline that competes for its cores, or a thread that spins."
    )
    return section("window", "The load-imbalance susceptible window", paragraph(text))


def _cores(report: Report) -> str:
    rows = []
    for rank in report.ranks:
        profile = rank.figures.profile or Profile()
        rates = rank.rates
        late = show_seconds(median(profile.late_ns) / 1e9) if profile.late_ns else DASH
        rows.append((
            rank.figures.rank, rank.figures.host, f"{profile.cpus:g}" if profile.cpus else DASH, late,
            f"{size(profile.copy_rate)}/s" if profile.copy_rate else DASH, number(rates.spin_ms),
            number(rates.oversleep_us), number(rates.background_cpu_ms),
        ))  # fmt: skip
    columns = (
        "rank", "host", "CPUs", "wakes up late by", "copies", "spins (ms a step)", "oversleeps (us a step)",
        "coordination (CPU ms a step)",
    )  # fmt: skip
    return section(
        "cores", "Cores", table("What each rank has, and what coordination takes", columns, rows, words=("host",))
    )
