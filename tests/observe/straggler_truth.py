"""Jobs with a known straggler: what the program itself knows of it, and what each of Paceline's outlets says."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

from warm_python import WarmPython

from paceline.lab.lab import Lab
from paceline.observe import report as reports
from paceline.observe.stragglers import Last
from paceline.observe.trace import dump
from paceline.observe.trace.aligned import aligned
from paceline.report.page.content import report_page
from paceline.report.verdict.of_report import verdict
from paceline.report.verdict.verdict import TRANSFER, Verdict
from paceline.topology import parse

HERE = Path(__file__).parent
PROGRAM = HERE / "known_straggler.py"
UNSURE_NS = 1_000_000
"""Between its look at the clock and its call a rank may lose its core for so long, on a busy machine."""
SHARE, SECONDS, RATIO = 0.05, 0.005, 0.05
"""How far a share may be from the truth, and a time: by so many seconds, or by that part of it."""


@dataclass(frozen=True)
class Case:
    """places: the machine of each rank. cause: "none", "computes", "input" or "link": what the rank `late` is late by,
    by so many seconds. ahead: seconds by which each machine's clock is. count: floats that are exchanged in a step.
    top: whether `paceline top` looks at it, and Prometheus."""

    face: str = "raw"
    places: tuple[int, ...] = (0, 1, 2)
    cause: str = "computes"
    late: int = 2
    seconds: float = 0.08
    ahead: tuple[int, ...] = (0, 3600, -3600)
    steps: int = 60
    count: int = 4096
    seed: int = 0
    top: bool = False


@dataclass(frozen=True)
class Truth:
    """By rank: the share of the steps in which it was the last, at least and at most, as any that came within
    UNSURE_NS of the last may have been it; and the seconds by which it was later than the rank before
    it. The median seconds of a step in which it computed, and the mean in which it waited for its input."""

    share: tuple[tuple[float, float], ...]
    late: tuple[float | None, ...]
    computed: tuple[float, ...]
    input: tuple[float, ...]


@contextmanager
def warm(imports: Sequence[str]) -> Iterator[WarmPython]:
    """A process that forks ranks, each of whose clocks is ahead by what its CLOCK_AHEAD says."""
    with TemporaryDirectory() as folder, closing(WarmPython(imports, preloading(Path(folder)))) as one:
        yield one


def preloading(folder: Path) -> list[str]:
    """The words that start a process whose clock is ahead. folder: where the library for that is compiled to."""
    path = folder / "clock_ahead.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(path), str(HERE / "clock_ahead.c"), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return ["env", f"LD_PRELOAD={path}"]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def environments(case: Case, folder: Path, address: str = "127.0.0.1") -> list[dict[str, str]]:
    """Of each rank, where all of them run on this machine under the names of others."""
    port = str(free_port())
    found = []
    for rank, machine in enumerate(case.places):
        env = {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(case.places)),
            "LOCAL_RANK": str(case.places[:rank].count(machine)),
            "LOCAL_WORLD_SIZE": str(case.places.count(machine)),
            "MASTER_ADDR": address,
            "MASTER_PORT": port,
            "PACELINE_MACHINE": f"machine-{machine}",
            "PACELINE_SECRET": "known to all ranks of the test",
            "PACELINE_REPORT": str(folder / "report.json"),
            "PACELINE_TRACE": str(folder / "trace"),
            "CLOCK_AHEAD": str(case.ahead[machine % len(case.ahead)]),
        }
        if case.top and rank == 0:
            env |= {"PACELINE_METRICS": str(free_port()), "PACELINE_METRICS_TOKEN": "of-the-test-alone"}
        found.append(env)
    return found


def run(case: Case, folder: Path, warm: WarmPython) -> None:
    """Run the job; where a link is what is slow, on the machines of a lab, in processes of its own."""
    folder.mkdir(parents=True)
    words = [str(PROGRAM), json.dumps(asdict(case)), str(folder)]
    if case.cause == "link":
        _in_lab(case, folder, words)
        return
    ranks = []
    try:
        for rank, env in enumerate(environments(case, folder)):
            files = folder / f"rank-{rank}.out", folder / f"rank-{rank}.err"
            ranks.append(warm.start(words, {**os.environ, **env}, *files))
        ended = all(rank.wait(120) == 0 for rank in ranks)  # the first that fails ends the job
    finally:
        for one in ranks:
            one.kill()
    assert ended, said(folder)


def _in_lab(case: Case, folder: Path, words: Sequence[str]) -> None:
    with ExitStack() as stack:
        lab = stack.enter_context(Lab(parse(_slow_link(case))))
        preload = preloading(folder)
        ranks = []
        for rank, env in enumerate(environments(case, folder, lab.machines[0].address)):
            machine = case.places[rank]
            del env["PACELINE_MACHINE"]
            log = stack.enter_context((folder / f"rank-{rank}.err").open("w"))
            command = [*lab.exec(machine), *preload, sys.executable, *words]
            ranks.append(subprocess.Popen(command, env={**os.environ, **lab.environment(machine), **env}, stderr=log))
        try:
            ended = all(rank.wait(120) == 0 for rank in ranks)  # the first that fails ends the job
        finally:
            for one in ranks:
                one.kill()
    assert ended, said(folder)


def said(folder: Path) -> str:
    return "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("rank-*.err")))


def _slow_link(case: Case) -> str:
    machines = range(max(case.places) + 1)
    speed = {case.places[case.late]: "100 Mbit/s"}
    children = "\n".join(
        f"  - {{machine: machine{one}, ranks: {case.places.count(one)}, uplink: {speed.get(one, '1 Gbit/s')}}}"
        for one in machines
    )
    return f"children:\n{children}\n"


def truth(folder: Path, ranks: int, window: tuple[int, int] | None = None) -> Truth:
    """What the ranks have noted. window: the first rank's CLOCK_REALTIME in ns between which steps count.

    All count if none is in the window, as in the outlets.
    """
    seen = [json.loads((folder / f"truth-{rank}.json").read_text()) for rank in range(ranks)]
    rows = list(zip(*(one["ready"] for one in seen), strict=True))
    if window is not None:
        shift = seen[0]["wall_ns"]
        within = [row for row in rows if window[0] <= max(row) + shift and max(row) + shift <= window[1]]
        rows = within or rows
    late: list[list[float]] = [[] for _ in seen]
    surely, perhaps = [0] * ranks, [0] * ranks
    for row in rows:
        order = sorted((moment, rank) for rank, moment in enumerate(row))
        late[order[-1][1]].append((order[-1][0] - order[-2][0]) / 1e9)
        several = [rank for moment, rank in order if moment >= order[-1][0] - UNSURE_NS]
        for rank in several:
            perhaps[rank] += 1
            surely[rank] += len(several) == 1
    return Truth(
        tuple((least / len(rows), most / len(rows)) for least, most in zip(surely, perhaps, strict=True)),
        tuple(fmean(ones) if ones else None for ones in late),
        tuple(median(one["computed"]) / 1e9 for one in seen),
        tuple(fmean(one["input"] or [0]) / 1e9 for one in seen),
    )


def near(found: float, true: float) -> bool:
    return abs(found - true) <= max(SECONDS, RATIO * true)


def compare(what: str, found: Mapping[int, Last], true: Truth, least: int = 5) -> list[str]:
    """Return what an outlet says of who was last and is not true. least: the steps in which a rank must have been the
    last so that its mean is compared."""
    wrong = []
    for rank, (least_share, most_share) in enumerate(true.share):
        last = found[rank]
        share = last.share
        if not least_share - SHARE <= share <= most_share + SHARE:
            truly = f"truly {least_share:.1%} to {most_share:.1%}"
            wrong.append(f"{what}: rank {rank} last in {share:.1%}, {truly} ({last.untold:.1%} untold)")
        often, late = last.share * last.count, true.late[rank]
        if often >= least and late is not None and last.late_ms is not None and not near(last.late_ms / 1e3, late):
            wrong.append(f"{what}: rank {rank} late by {last.late_ms:.1f} ms, truly {1e3 * late:.1f}")
    return wrong


def errors(case: Case, folder: Path) -> list[str]:
    """Return everything in which an outlet differs from the truth, or from another outlet."""
    ranks = len(case.places)
    true = truth(folder, ranks)
    report = reports.read(folder / "report.json")
    told = {rank.figures.rank: rank.last or Last(0, 0) for rank in report.ranks}
    found = verdict(report, "report.json")
    wrong = compare("report", told, true)
    wrong += _page(report_page(report, "report.json"), found, told)
    wrong += _traced(folder / "trace", true)
    wrong += _cause(case, found, true)
    if case.top:
        wrong += _live(case, folder, true)
    return wrong


def _page(text: str, found: Verdict, told: Mapping[int, Last]) -> list[str]:
    """What the page says that neither the verdict nor the report says."""
    wrong = (
        [] if found.headline in text or found.headline.replace("'", "&#x27;") in text else ["page: another headline"]
    )
    for rank, sentence in re.findall(r"Rank (\d+) on \S+ (arrives last in \d+ %[^.]*)", text):
        last = told[int(rank)]
        if f"{100 * last.share:.0f} %" not in sentence:
            wrong.append(f"page: {sentence}, but its table has {last.share:.1%}")
    return wrong


def _traced(folder: Path, true: Truth) -> list[str]:
    """What the files of the trace, put on one clock, say of who called last in collectives of all ranks."""
    dumps = aligned(dump.read(folder))
    calls: dict[tuple[int, int, str], list[int]] = {}
    named = any(one.requests for one in dumps)
    for one in dumps:
        for request in one.requests:
            if request.bytes > 1000:
                calls.setdefault(request.key, []).append(request.submitted_ns)
        for event in () if named else one.events:
            if event.collective == "all_reduce" and event.bytes > 1000:
                calls.setdefault((event.channel, event.sequence, ""), []).append(event.enqueue_ns)
    late: list[list[float]] = [[] for _ in dumps]
    rows = [moments for moments in calls.values() if len(moments) == len(dumps)]
    for row in rows:
        order = sorted((moment, rank) for rank, moment in enumerate(row))
        late[order[-1][1]].append((order[-1][0] - order[-2][0]) / 1e6)
    told = {
        rank: Last(len(ones) / len(rows), len(rows), fmean(ones) if ones else None) for rank, ones in enumerate(late)
    }
    return compare("trace", told, true)


def _cause(case: Case, found: Verdict, true: Truth) -> list[str]:
    """What the verdict says of the cause that is not so."""
    slow = found.evidence.slow if found.evidence is not None else None
    if case.cause == "link":
        named = f"machine{case.places[case.late]}"
        return [] if found.bound == TRANSFER and named in found.headline else [f"verdict: {found.headline}"]
    if case.cause == "none":
        return [f"verdict: {found.headline}"] if "straggler" in found.headline else []
    if slow is None or slow.ranks != (case.late,) or slow.by != case.cause or slow.sentence not in found.headline:
        return [f"verdict: {found.headline}"]
    if "bf16" in found.headline:
        return [f"verdict offers what helps nothing: {found.headline}"]
    of = true.computed if case.cause == "computes" else true.input
    others = median(seconds for rank, seconds in enumerate(of) if rank != case.late)
    if not near(slow.seconds, of[case.late]) or not near(slow.others, others):
        return [f"verdict: {found.headline}; truly {of[case.late]:.4f} s and {others:.4f} s"]
    return []


def _live(case: Case, folder: Path, true: Truth) -> list[str]:
    picture = json.loads((folder / "top.json").read_text())
    rows = {row["figures"]["rank"]: row for row in picture["rows"]}
    if sorted(rows) != list(range(len(case.places))):
        return [f"top: it has ranks {sorted(rows)} alone"]
    end = rows[0]["figures"]["time_ns"]
    window = end - round(1e9 * rows[0]["rates"]["seconds"]), end
    told = {rank: Last(**row["last"]) for rank, row in rows.items() if row["last"]}
    wrong = compare("top", told, truth(folder, len(case.places), window))
    if case.cause == "computes" and not re.search(
        rf"^Rank {case.late} on \S+ computes .* a step, ", picture["headline"]
    ):
        wrong.append(f"top: {picture['headline']!r}")
    counted = re.findall(r'paceline_arrived_last_total{rank="(\d+)"} (\S+)', (folder / "metrics.txt").read_text())
    of = sum(float(often) for _, often in counted)
    shares: Sequence[float] = [float(often) / of for _, often in counted] if of else []
    pairs = list(zip(shares, true.share, strict=False))
    if len(pairs) < len(true.share) or any(not a - SHARE <= share <= b + SHARE for share, (a, b) in pairs):
        wrong.append(f"metrics: {counted}, truly {true.share}")
    return wrong
