"""Print what it costs to be wrong by two in each constant of the engine, and write it into their record on demand.

A copy of the engine is built in `build/engine_costs`, in which the constants are variables. Then ranks carry out the
same calls again and again with the engine as it is, and with one constant at half or twice its value, in turn. A row
says how many times as long as with the engine as it is the worst and the mean of the calls take, by the medians of all
rounds, and which the worst is. `noise` is the same for further turns of the engine as it is: what is not above it was
not found to cost anything.

Needs a quiet machine and root, because a part of the ranks is on machines of a lab.

    python studies/engine_sensitivity.py --build     # builds only, which takes minutes for the first time
    python studies/engine_sensitivity.py --record
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from paceline import topology
from paceline.formats.sizes import show_bytes
from paceline.lab.lab import Lab, switched
from paceline.lab.shaping import USUAL_QUEUE, Queue
from paceline.topology import Link, Topology

HERE = Path(__file__).resolve().parent.parent
RECORDS = [path for path in sorted((HERE / "engine" / "calibration").glob("*.hpp")) if path.name != "device.hpp"]
"""Those of the device need one."""
BUILD = HERE / "build" / "engine_costs"
CONSTANT = re.compile(r"^inline constexpr (\S+) (k\w+)", re.MULTILINE)
FOUND = r"(?:k\w+ )?(?:within noise|not clearly above the noise|[\d.]+ times as long at worst) \([^()]*\)"
WRITTEN = re.compile(rf"Off by 2: (?:not measured|{FOUND}(?:, {FOUND})*)")
KINDS = {"std::size_t": "m", "unsigned": "j", "int": "i", "double": "d", "std::uint64_t": "m"}
PORTS = range(23000, 29000)
REFERENCES = 6
"""Turns of the engine as it is in each round of an area: the first few are the reference, the rest the noise."""

_CLEAR = 3.0
"""Times the noise, which is itself of a few rounds, above which a loss is no accident."""
_LEAST = 0.01
"""The least loss that counts."""

Times = dict[str, float]
Variant = tuple[str, float]


@dataclass(frozen=True)
class Area:
    """Ranks that carry out `calls` while one of `constants` is wrong. network: None for one machine of `ranks`."""

    name: str
    ranks: int
    constants: Sequence[str]
    calls: Sequence[str]
    network: Topology | None = None
    queue: Queue = USUAL_QUEUE
    computing: int = 0
    busy: str = ""
    times: dict[Variant, list[Times]] = field(default_factory=dict)


WAITING = ("kYield", "kLongestYield", "kShortestYield", "kYieldInVain", "kLongestWait", "kLooksPerClock")
ABSENCES = ("kLongAbsence", "kYieldsThatHelp", "kFirstYieldPause", "kYieldPause")
PLACEMENT = ("kLooksPerPlacement", "kMovePause")
HANDOVER = ("kLeastStreamed", "kFarProbe", "kFarProbesInRow", "kNearProbesInRow", "kCopiesPerProbe")
CACHES = ("kPassesPerFirstCache", "kBlocksPerSecondCache", "kSecondCachesPerTurnover")
METHODS = (
    "kSmallestBlock",
    "kFetchedBytes",
    "kMaybeFetchedBytes",
    "kTries",
    "kClearly",
    "kUnusual",
    "kPatience",
    "kMostPatience",
)
PIECES = ("kSmallestPiece", "kLargestPiece", "kPiecesPerRegion")
EXCHANGES = ("kSlotsOfAll", "kCopiedAnyway")
NAMED = (
    *("kReducedAlone", "kPackedBySubmitter", "kPackedPerStep", "kLeastHeld", "kMostHeld", "kHeldPart", "kLargeCall"),
    "kGraphPatience",
)
WINDOWS = ("kQueueSeconds", "kSmallestWindow", "kLargestWindow", "kBufferPerWindow")
CLOCKS = ("kFirstClockPause", "kLongestClockPause", "kClockSpan")
SMOOTHING = (
    "kShortQueue",
    "kLossLookPause",
    "kLeastWatchedMessage",
    "kLift",
    "kLiftPause",
    "kLongestLiftPause",
    "kLiftTrial",
)

K, M = 1 << 10, 1 << 20


def sized(*words: str) -> tuple[str, ...]:
    """Return calls whose sizes are written with K and M."""
    units = {"K": K, "M": M}
    return tuple(re.sub(r"(\d+)([KM])", lambda m: str(int(m[1]) * units[m[2]]), word) for word in words)


def areas() -> list[Area]:
    """What is measured: for every constant, the calls in which it decides something."""
    files = HERE / "docs" / "topologies"
    uneven = topology.read(files / "2+3.yaml")
    return [
        Area(
            "2 ranks",
            2,
            (
                *WAITING,
                *HANDOVER,
                *CACHES,
                *METHODS,
                *PIECES,
                "kCopiedAnyway",
                "kStepBytes",
                "kLeastStreamedMessage",
                "kPassesPerSocketLook",
            ),
            sized(
                "all_reduce 8",
                "all_reduce 8K",
                "all_reduce 32K",
                "all_reduce 256K",
                "all_reduce 2M",
                "in_place 1M",
                "first all_reduce 1M",
                "async 64K",
                "all_gather 4K",
                "all_to_all 1M",
                "sendrecv 12M",
            ),
        ),
        Area(
            "4 ranks on 2 CPUs",
            4,
            (*WAITING, *ABSENCES, *PLACEMENT, *CACHES, *PIECES, *EXCHANGES, "kMostFetching"),
            sized(
                "all_reduce 8",
                "all_reduce 32K",
                "all_reduce 1M",
                "in_place 2M",
                "all_gather 4K",
                "all_to_all 256K",
                "all_to_all 4M",
            ),
        ),
        Area(
            "2 ranks beside 2 computing processes",
            2,
            (*ABSENCES, "kYield", "kLongestWait"),
            ("all_reduce 8",),
            computing=2,
        ),
        Area("named tensors of 2 ranks", 2, NAMED, sized("named 48K", "named 96K", "named 1M")),
        Area(
            "1+1 at 10 Gbit/s",
            2,
            ("kYield", "kStepBytes", "kCombinedBlock", "kPassesPerClock", "kLooksPerClock", "kLargeCall"),
            sized("all_reduce 8", "all_reduce 64K", "all_reduce 4M", "all_to_all 1M"),
            switched([1, 1], Link(1.25e9, 1.25e9, 25e-6)),
        ),
        Area(
            "1+1 at 10 Gbit/s, each beside a computing thread",
            2,
            ("kAskAfter",),
            sized("all_reduce 4M"),
            switched([1, 1], Link(1.25e9, 1.25e9, 25e-6)),
            busy="thread",
        ),
        Area(
            "2+3",
            5,
            ("kReducedAtOnce", "kEncodedFrom", "kShortestYield", "kLongestYield", "kQueueSeconds"),
            sized("all_reduce 4K", "all_reduce 4M", "reduce 4K", "reduce 6K", "encoded 48K", "encoded 96K"),
            uneven,
        ),
        Area(
            "3+3+4",
            10,
            (*WINDOWS, *PLACEMENT, "kLongestYield"),
            sized("all_reduce 4K", "all_reduce 4M"),
            replace(switched([3, 3, 4], Link(62.5e6, 62.5e6, 25e-6, 0.001)), name="3+3+4"),
        ),
        Area(
            "2+2+3, queues of 2 ms",
            7,
            (*WINDOWS, *CLOCKS, *SMOOTHING),
            sized("all_reduce 8K", "all_reduce 4M"),
            topology.read(files / "2+2+3.yaml"),
            replace(USUAL_QUEUE, seconds=0.002),
        ),
    ]


def kinds() -> dict[str, str]:
    """The constants of the record, each with the letter of its type."""
    return {name: KINDS.get(kind, "x") for path in RECORDS for kind, name in CONSTANT.findall(path.read_text())}


def build() -> Path:
    """Build a copy of the engine whose constants are variables that others may find in it, and return its path."""
    tree = BUILD / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(HERE / "engine", tree / "engine")
    shutil.copy2(HERE / "CMakeLists.txt", tree)
    for header in RECORDS:
        variables = tree / header.relative_to(HERE)
        variables.write_text(CONSTANT.sub(r'[[gnu::visibility("default")]] inline \1 \2', header.read_text()))
        shutil.copystat(header, variables)  # what has not changed is not compiled again
    options = [f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=Release", "--log-level=WARNING"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for words in (["-S", tree, "-B", BUILD / "cmake", "-G", "Ninja", *options], ["--build", BUILD / "cmake"]):
        subprocess.run(["cmake", *words], check=True, stdout=sys.stderr, env={**os.environ, "PATH": path})
    (engine,) = (BUILD / "cmake").glob("_engine*.so")
    return engine


class Ranks:
    """The ranks of an area, which take turns."""

    def __init__(self, area: Area, engine: Path, stack: ExitStack) -> None:
        self._area = area
        self._kinds = kinds()
        lab = None if area.network is None else stack.enter_context(Lab(area.network, queue=area.queue))
        machine = [0] * area.ranks if lab is None else [n for n, one in enumerate(lab.machines) for _ in one.ranks]
        self._processes = []
        for rank in range(area.ranks):
            place = {} if lab is None else lab.environment(machine[rank])
            environment = {
                **os.environ,
                **place,
                "RANK": str(rank),
                "WORLD_SIZE": str(area.ranks),
                "PACELINE_LOG": "error",
                "LOCAL_RANK": str(machine[:rank].count(machine[rank])),
                "LOCAL_WORLD_SIZE": str(machine.count(machine[rank])),
                "MASTER_ADDR": "127.0.0.1" if lab is None else lab.machines[0].address,
            }
            where = [] if lab is None else lab.exec(machine[rank])
            command = [*where, sys.executable, str(HERE / "studies" / "engine_sensitivity_rank.py"), str(engine)]
            pipe = subprocess.PIPE
            process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
            stack.callback(process.kill)
            self._processes.append(process)
        for _ in range(area.computing):
            computing = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(computing.kill)

    def turn(self, port: int, name: str = "", factor: float = 1.0) -> Times:
        """Carry out the calls, with this constant wrong by the factor, in a job of its own."""
        constants = {name: (self._kinds[name], factor)} if name else {}
        burst = 0.2 if self._area.computing else 0.01  # others' time slices are milliseconds long
        area = self._area
        told = {"port": port, "constants": constants, "calls": area.calls, "busy": area.busy, "burst": burst}
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps(told) + "\n")
            process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for process in self._processes if process.stdout is not None]
        if None in answers:
            raise SystemExit(f"{self._area.name}: a rank failed with {name or 'the engine as it is'} times {factor}")
        return dict(answers[0])


@contextmanager
def ranks_of(area: Area, engine: Path) -> Iterator[Ranks]:
    with ExitStack() as stack:
        yield Ranks(area, engine, stack)


def one_round(area: Area, engine: Path, ports: Iterator[int]) -> None:
    """Give every variant a turn, with turns of the engine as it is spread among them."""
    wrong: list[Variant] = [(name, factor) for name in area.constants for factor in (0.5, 2.0)]
    every = max(1, -(-len(wrong) // REFERENCES))
    with ranks_of(area, engine) as ranks:
        ranks.turn(next(ports))
        for begin in range(0, len(wrong), every):
            references = area.times.setdefault(("", begin // every), [])
            references.append(ranks.turn(next(ports)))
            for variant in wrong[begin : begin + every]:
                area.times.setdefault(variant, []).append(ranks.turn(next(ports), *variant))


class Row(NamedTuple):
    """How many times as long calls take with one constant at half or twice its value, and how much of that is noise."""

    loss: float
    noise: float
    where: str


def losses(area: Area, variant: Variant) -> list[tuple[float, str]]:
    """How many times as long as with the engine as it is each call takes, by the medians of all rounds."""
    right = [times for (name, _), turns in area.times.items() if not name and variant != (name, _) for times in turns]
    return [
        (median(t[call] for t in area.times[variant]) / median(t[call] for t in right), call) for call in area.calls
    ]


def shown(call: str) -> str:
    *kind, size = call.split()
    return f"{' '.join(kind)} {show_bytes(int(size))}".replace("first", "the first calls of")


def report(found: Sequence[Area]) -> dict[str, str]:
    """Print the rows, and return a sentence for each constant."""
    print(f"{'constant':22} {'factor':>6} {'worst':>7} {'noise':>7} {'mean':>7} {'best':>7}  worst at")
    worst: dict[str, list[Row]] = {}
    for area in found:
        references = [variant for variant in area.times if not variant[0]]
        noise = {
            call: max(abs(loss - 1) for one in references for loss, of in losses(area, one) if of == call)
            for call in area.calls
        }
        for variant in sorted(variant for variant in area.times if variant[0]):
            name, factor = variant
            clear = [(loss - 1 - noise[call], loss, call) for loss, call in losses(area, variant)]
            _, loss, call = max(clear)
            mean = fmean(loss for _, loss, _ in clear)
            where = f"{shown(call)}, {area.name}"
            best = min(loss for _, loss, _ in clear)
            print(f"{name:22} {factor:6g} {loss:7.3f} {noise[call]:7.3f} {mean:7.3f} {best:7.3f}  {where}")
            word = "half" if factor < 1 else "twice"
            worst.setdefault(name, []).append(Row(loss, noise[call], f"{word}, {where}"))
    return {name: sentence(rows, found, name) for name, rows in worst.items()}


def sentence(rows: Sequence[Row], found: Sequence[Area], name: str) -> str:
    clear = [row for row in rows if row.loss - 1 > _CLEAR * row.noise + _LEAST]
    if clear:
        worst = max(clear)
        return f"{worst.loss:.2f} times as long at worst ({worst.where})"
    unclear = any(row.loss - 1 > row.noise + _LEAST for row in rows)
    noise = "not clearly above the noise" if unclear else "within noise"
    return f"{noise} ({'; '.join(area.name for area in found if name in area.constants)})"


def record(sentences: dict[str, str]) -> None:
    """Put the sentences in place of "not measured", and of what an earlier run wrote there."""
    for path in RECORDS:
        path.write_text(_recorded(path.read_text().splitlines(), sentences))


def _recorded(lines: Sequence[str], sentences: dict[str, str]) -> str:
    written: list[str] = []
    comment: list[str] = []
    for number, line in enumerate(lines):
        if line.startswith("//"):
            comment.append(line)
            continue
        if comment and CONSTANT.match(line):
            names = [name for _, name in CONSTANT.findall(_first_paragraph(lines[number:]))]
            comment = _with_cost(comment, {name: sentences[name] for name in names if name in sentences})
        written += [*comment, line]
        comment = []
    return "\n".join([*written, *comment]) + "\n"


def _first_paragraph(lines: Sequence[str]) -> str:
    return "\n".join(itertools.takewhile(CONSTANT.match, lines))


def _with_cost(comment: list[str], costs: dict[str, str]) -> list[str]:
    begin = next((n for n, line in enumerate(comment) if "Off by 2:" in line), None)
    if begin is None or not costs:
        return comment
    words = " ".join(line.removeprefix("//").strip() for line in comment[begin:])
    cost = ", ".join(text if len(costs) == 1 else f"{name} {text}" for name, text in costs.items())
    words = WRITTEN.sub(lambda _: f"Off by 2: {cost}", words)
    return [*comment[:begin], *(f"// {line}" for line in textwrap.wrap(words, 117, break_on_hyphens=False))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="store_true", help="build the engine, and do nothing else")
    parser.add_argument("--minutes", type=float, default=14, help="begin no round that would end later")
    parser.add_argument("--areas", default="", help="measure only areas whose names contain this")
    parser.add_argument("--record", action="store_true", help="write what was found beside the constants")
    options = parser.parse_args()
    engine = build()
    if options.build:
        return
    found = [area for area in areas() if options.areas in area.name]
    ports, begin, rounds = iter(PORTS), time.monotonic(), 0
    while rounds == 0 or (time.monotonic() - begin) * (rounds + 1) / rounds < 60 * options.minutes:
        for area in found:
            one_round(area, engine, ports)
            print(f"round {rounds + 1}, {area.name}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
        rounds += 1
    missing = set(kinds()) - {name for area in areas() for name in area.constants}
    print(f"{rounds} rounds; not measured: {', '.join(sorted(missing)) or 'none'}")
    sentences = report(found)
    if options.record:
        record(sentences)


if __name__ == "__main__":
    main()
