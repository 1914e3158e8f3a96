"""Runs a job on one network, predicts it on others, and runs it there."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from paceline.lab.lab import Lab
from paceline.observe.report import read
from paceline.simulate.calibrate import calibrate
from paceline.simulate.job import buffers
from paceline.simulate.links import with_speed
from paceline.simulate.models import Gradient
from paceline.simulate.network import between_machines
from paceline.simulate.scenario import Scenario
from paceline.simulate.workload import Workload
from paceline.topology import Link, Node, Topology, dump
from paceline.topology.defaults import LOCAL
from paceline_bench.ranks.paced import FORWARD
from paceline_bench.run import BenchRequest, started
from paceline_bench.session import SessionFailed
from paceline_bench.systems import System
from paceline_bench.table import column, wrong

FUSION_BYTES = 4 << 20
"""Bytes of a fusion buffer at most."""
SECONDS = 0.15
"""Seconds of computation of a step: a sleep."""
LATE = 0.006
"""Seconds by which a rank is late in the mean; the delays are exponential."""
WARM_UP = 4
"""Steps that are not counted."""
RUNS, STEPS = 10, 20
"""Runs that are simulated of each case, and steps of each run."""
_RATE, _LATENCY = 62.5e6, 25e-6
"""Bytes per second and seconds of a machine's link: 500 Mbit/s."""
_ELEMENTS = 1 << 18
"""float32 in a gradient of the usual model: 1 MiB."""
DEEP = (_ELEMENTS,) * 12
"""Elements of the usual model's gradients, in the order in which they are ready."""
WIDE = (64 * 1024, 6 * _ELEMENTS, 2 * _ELEMENTS, 64 * 1024, 64 * 1024, 1024)
"""Elements of another model's: most of them in one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A job to predict and to run. batch: its computation, where 1 is the usual one."""

    name: str
    topology: Topology
    elements: tuple[int, ...] = DEEP
    policy: str = "board"
    batch: float = 1.0

    @property
    def between(self) -> bool:
        """True if the case is on several machines, which a lab makes."""
        return between_machines(self.topology)

    @property
    def gradients(self) -> tuple[Gradient, ...]:
        """The gradients, and when they are ready."""
        count = len(self.elements)
        return tuple(
            Gradient(f"gradient {place}", elements, FORWARD + (1 - FORWARD) * (place + 1) / count)
            for place, elements in enumerate(self.elements)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A case: the median step that was predicted, its 90 % interval, and the median step that was measured.

    error: of the prediction, as a fraction of what was measured.
    """

    case: str = field(metadata=column("case"))
    predicted_ms: float = field(metadata=column("predicted(ms)", "{:.1f}"))
    low_ms: float = field(metadata=column("low", "{:.1f}"))
    high_ms: float = field(metadata=column("high", "{:.1f}"))
    measured_ms: float = field(metadata=column("measured(ms)", "{:.1f}"))
    error: float = field(metadata=column("error", "{:+.1%}"))
    wrong: int = field(metadata=column("#wrong", wrong))

    @property
    def inside(self) -> bool:
        """True if the measured step lies in the interval."""
        return self.low_ms <= self.measured_ms <= self.high_ms


def _ranks(count: int) -> tuple[Node, ...]:
    return tuple(Node("rank", f"rank {rank}", LOCAL) for rank in range(count))


def _network(*ranks: int) -> Topology:
    link = Link(_RATE, _RATE, _LATENCY)
    machines = [Node("machine", f"machine-{number}", link, _ranks(count)) for number, count in enumerate(ranks)]
    return Topology("lab", Node("switch", "lab", None, tuple(machines)))


def _machine(ranks: int) -> Topology:
    return Topology(f"{ranks} ranks of one machine", Node("machine", "here", None, _ranks(ranks)))


USUAL = Case(name="2+2 at 500 Mbit/s", topology=_network(2, 2))
CASES = (
    Case(name="more ranks: 2+2+2", topology=_network(2, 2, 2)),
    Case(name="more ranks on a machine: 3+3", topology=_network(3, 3)),
    Case(name="uneven ranks: 3+1", topology=_network(3, 1)),
    Case(name="one link of 250 Mbit/s", topology=with_speed(USUAL.topology, "machine-1", _RATE / 2)),
    Case(name="doubled rates: 1 Gbit/s", topology=with_speed(USUAL.topology, "uplink", 2 * _RATE)),
    Case(name="policy cycle", topology=USUAL.topology, policy="cycle"),
    Case(name="policy graph", topology=USUAL.topology, policy="graph"),
    Case(name="another model", topology=USUAL.topology, elements=WIDE),
    Case(name="a batch of twice the size", topology=USUAL.topology, batch=2.0),
    Case(name="2 ranks of one machine", topology=_machine(2)),
    Case(name="4 ranks of one machine", topology=_machine(4)),
)
"""The cases that are predicted from a run of USUAL."""


def workload(case: Case, run: Workload) -> Workload:
    """Return what a case does, as its run of USUAL has shown it."""
    return replace(run, gradients=case.gradients, policy=case.policy)


def measure(
    cases: tuple[Case, ...],
    steps: int,
    rounds: int,
    environ: Mapping[str, str],
    timeout: float,
    complain: Callable[[str], None],
    progress: Callable[[str], None],
) -> Iterator[Row]:
    """Calibrate on USUAL, predict the cases, run each of them once in every round, and yield a row for each.

    Raises SessionFailed if a job fails, and `lab.namespaces.Unavailable` where there can be no lab.
    """
    with tempfile.TemporaryDirectory(prefix="paceline-simulate-") as folder:
        place = Path(folder) / "run.json"
        progress(f"calibrating on {USUAL.name}")
        _run(USUAL, 2 * steps, {**environ, "PACELINE_REPORT": str(place)}, timeout, complain)
        run = calibrate(read(place), "the report of the run that calibrates").workload
    times: dict[str, list[float]] = {case.name: [] for case in cases}
    wrong: dict[str, int] = dict.fromkeys(times, 0)
    for number in range(rounds):
        for case in cases:
            progress(f"round {number + 1} of {rounds}: {case.name}")
            found, bad = _run(case, steps, environ, timeout, complain)
            times[case.name] += found
            wrong[case.name] += bad
    for case in cases:
        topology = Lab(case.topology).topology if case.between else case.topology  # with the bursts that it lets pass
        told = Scenario(workload=workload(case, run), topology=topology, batch=case.batch).answer(STEPS, RUNS)
        took = median(times[case.name])
        yield Row(
            case=case.name,
            predicted_ms=round(told.median * 1e3, 3),
            low_ms=round(told.low * 1e3, 3),
            high_ms=round(told.high * 1e3, 3),
            measured_ms=round(took * 1e3, 3),
            error=round(told.median / took - 1, 4),
            wrong=wrong[case.name],
        )


def _run(
    case: Case, steps: int, environ: Mapping[str, str], timeout: float, complain: Callable[[str], None]
) -> tuple[list[float], int]:
    """Run a case, and return the seconds of its steps and the number of wrong sums."""
    order = buffers(case.gradients, FUSION_BYTES)
    options = {
        "policy": case.policy,
        "elements": json.dumps(case.elements),
        "seconds": str(case.batch * SECONDS),
        "late": str(case.batch * LATE),
        "fusion_bytes": str(FUSION_BYTES),
        "order": json.dumps(order),
    }
    system = System("paceline", "engine", ".paced:Paced", options)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", prefix="paceline-simulate-") as file:
        file.write(dump(case.topology))
        file.flush()
        lab = Lab(case.topology, Path(file.name)) if case.between else None
        request = BenchRequest([system], case.topology.world, lab=lab, timeout=timeout)
        with started(request, environ, complain) as sessions:
            if not sessions:
                raise SessionFailed(f"the ranks of {case.name} did not start")
            replies = sessions[0].ask(do="train", steps=WARM_UP + steps)
    ends = [max(each) for each in zip(*(reply["ends"] for reply in replies), strict=True)]
    return [after - before for before, after in pairwise(ends[WARM_UP - 1 :])], sum(r["wrong"] for r in replies)
