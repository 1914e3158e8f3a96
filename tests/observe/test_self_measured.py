"""Figures agree with jobs that measure themselves: on their steps, and on how much communication holds them up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from statistics import median

import pytest
from jobs import RAW, TORCH, run
from on_lab import run_on, warm_on
from warm_python import WarmPython

from paceline.lab.lab import Lab
from paceline.observe.report import Report, read
from paceline.simulate.calibrate import calibrate
from paceline.simulate.scenario import Scenario
from paceline.simulate.workload import IN_ORDER
from paceline.topology import parse

PROGRAM = Path(__file__).with_name("self_measured.py")
JOBS = ("ddp,fsdp2,buckets", "horovod", "raw")
STEPS = 17
GRADIENT_BYTES = 4 << 20
"""Bytes of a step's gradients through torch's faces."""
FORGIVEN = 0.05
"""The error of a share of exposed communication."""
RAW_CALLS = 4 * STEPS + 6 + 4
"""What the raw program calls: gradients, metrics, barriers."""
TOPOLOGY = """
children:
  - {machine: alpha, ranks: 1, uplink: 300 Mbit/s}
  - {machine: beta, ranks: 1, uplink: 300 Mbit/s}
"""


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[Lab, list[WarmPython]]]:
    """Two machines whose link is slower than their ranks are told, and what forks ranks there."""
    with Lab(parse(TOPOLOGY)) as lab, warm_on(lab, TORCH) as warm:
        yield lab, warm


@pytest.mark.timeout(300)
@pytest.mark.parametrize("faces", JOBS)
def test_on_one_machine(faces: str, tmp_path: Path) -> None:
    output, report = tmp_path / "output", tmp_path / "report.json"
    output.mkdir()
    env = {"PACELINE_REPORT": str(report), "OMP_NUM_THREADS": "1"}
    imports = RAW if faces == "raw" else TORCH
    run(2, PROGRAM, faces, str(STEPS), output=output, deadline=250, env=env, imports=imports)
    check(output, report, elsewhere=0)


@pytest.mark.verify
@pytest.mark.needs("a lab")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("faces", JOBS)
def test_on_two_machines(faces: str, machines: tuple[Lab, list[WarmPython]], tmp_path: Path) -> None:
    output, report = tmp_path / "output", tmp_path / "report.json"
    env = {"PACELINE_REPORT": str(report), "OMP_NUM_THREADS": "1"}
    run_on(*machines, (0, 1), PROGRAM, faces, str(STEPS), output=output, deadline=250, **env)
    shares = check(output, report, elsewhere=1)
    assert min(shares) > 2 * FORGIVEN, "figures that do not see this link would pass"


def check(output: Path, report: Path, elsewhere: int) -> list[float]:
    """Compares what each rank said, and the report with it; returns the shares of exposed communication."""
    said = [(output / f"rank-{rank}.out").read_text() for rank in range(2)]
    found = read(report)
    assert [rank.figures.rank for rank in found.ranks] == list(range(len(said)))
    shares = []
    for rank, lines in zip(found.ranks, said, strict=True):
        trained = 0
        for line in lines.splitlines():
            face, *numbers = line.split()
            steps, least, most, counted, exposed = map(float, numbers)
            assert abs(counted - steps) <= 0.01 * steps, face
            assert least - FORGIVEN <= exposed <= most + FORGIVEN, face
            trained += STEPS
            shares.append(exposed)
        assert abs(rank.rates.steps - trained) <= 0.01 * trained
        assert rank.figures.elsewhere == elsewhere
        assert face != "raw" or rank.figures.operations == RAW_CALLS
    check_calibration(found, face)
    return shares


def check_calibration(found: Report, last: str) -> None:
    """What the simulator learns of the last face's steps, and of those of DDP where they come before FSDP2's."""
    if last == "raw":
        return
    reports = {last: found, **({"ddp": before(found, "reduce_scatter")} if last == "buckets" else {})}
    for face, report in reports.items():
        measured = calibrate(report, face)
        workload = measured.workload
        assert workload.policy == ("board" if face == "horovod" else IN_ORDER)
        assert workload.nbytes == pytest.approx(GRADIENT_BYTES, rel=1e-4), face  # a bucket may carry a word more
        told = Scenario(workload=workload, topology=measured.topology).answer(5, 5)
        assert told.median < 2 * median(measured.steps) < 4 * told.median, face


def before(report: Report, collective: str) -> Report:
    """The report of a job that ended before the first of these collectives."""
    ranks = []
    for rank in report.ranks:
        profile = rank.figures.profile
        assert profile is not None
        calls = tuple(takewhile(lambda call: call.collective != collective, profile.exchanges))
        ranks.append(replace(rank, figures=replace(rank.figures, profile=replace(profile, exchanges=calls))))
    return replace(report, ranks=tuple(ranks))
