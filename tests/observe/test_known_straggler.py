"""Who is late, by how much and by what, as the program itself knows it: every outlet says the same, and the truth."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs import RAW, TORCH
from straggler_truth import Case, errors, run, warm
from warm_python import WarmPython

FACES = ("raw", "named", "ddp", "buckets", "horovod")
DRAWN = 20


def drawn(seed: int) -> Case:
    """A case of this number, of 1 to 4 machines."""
    chance = random.Random(seed)
    face = FACES[seed % len(FACES)]
    causes = ["none", "computes", "computes", "link" if face in ("raw", "named") else "input"]
    cause = causes[chance.randrange(len(causes))]
    machines = chance.randint(2 if cause in ("link", "input") else 1, 4)
    places = list(range(machines)) if machines > 1 else [0, 0, 0]
    if 1 < machines < 4 and cause != "link":
        places = sorted([*places, 0])
    return Case(
        face=face,
        places=tuple(places),
        cause=cause,
        late=chance.randrange(len(places)) if cause != "input" else len(places) - 1,
        seconds=chance.choice((0.03, 0.08, 0.15)),
        ahead=tuple(chance.choice((0, 3600, -3600, 7)) for _ in range(machines)),
        count=1 << (18 if cause == "link" else 12),
        steps=80,
        seed=seed,
        top=cause != "link" and machines > 1,
    )


@pytest.fixture(scope="module")
def plain() -> Iterator[WarmPython]:
    with warm(RAW) as one:
        yield one


@pytest.fixture(scope="module")
def with_torch() -> Iterator[WarmPython]:
    with warm(TORCH) as one:
        yield one


@pytest.mark.parametrize("face", ["raw", "named"])
def test_who_is_late_on_machines_whose_clocks_are_an_hour_apart(face: str, tmp_path: Path, plain: WarmPython) -> None:
    case = Case(face=face, steps=24, seconds=0.04)
    run(case, tmp_path / "job", plain)
    assert errors(case, tmp_path / "job") == []


@pytest.mark.verify
@pytest.mark.needs("a lab")
@pytest.mark.parametrize("seed", range(DRAWN))
@pytest.mark.timeout(600)
def test_every_outlet_says_the_truth(seed: int, tmp_path: Path, with_torch: WarmPython) -> None:
    case = drawn(seed)
    run(case, tmp_path / "job", with_torch)
    assert errors(case, tmp_path / "job") == [], case
