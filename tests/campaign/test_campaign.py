"""One trial of each fault, and whether the judge finds what is wrong. `make campaign` runs many more trials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from jobs import RAW
from network import Network, network
from stage import Record, perform, prepare
from trials import FAULTS, Trial, drawn
from verdicts import judged


def _faults(network: bool) -> list[Any]:
    """Those that happen to ranks that import no framework. What takes long, because somebody waits, is for verify."""
    waits = {name for name, fault in FAULTS.items() if fault.expected in ("silent", "cut") or fault.place == "launcher"}
    return [
        pytest.param(name, marks=pytest.mark.verify if name in waits else ())
        for name, fault in FAULTS.items()
        if "raw" in fault.faces and (fault.place == "network") == network
    ]


PAUSE = 0.2
"""Seconds that what is undone lasts here, unless it is to last longer than the timeout."""


def chosen(fault: str) -> Trial:
    """The first trial of few ranks in whose steps it happens."""
    trials = (drawn(seed, fault) for seed in count(1))
    trial = next(each for each in trials if each.phase == "steps" and len(each.machines) < 4 and each.face == "raw")
    return trial if fault == "long pause" else replace(trial, pause=PAUSE)


def holds(trial: Trial, folder: Path, at: Network | None = None) -> None:
    record = perform(trial, folder, at)
    verdict = judged(trial, record)
    assert verdict.right, [trial, verdict, record]


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare(RAW)


@pytest.mark.parametrize("fault", _faults(network=False))
def test_a_trial_comes_out_right(fault: str, tmp_path: Path) -> None:
    holds(chosen(fault), tmp_path)


@pytest.fixture(scope="module")
def machines() -> Iterator[Network]:
    with network() as made:
        yield made


@pytest.mark.needs("a lab")
@pytest.mark.parametrize("fault", _faults(network=True))
def test_a_trial_between_machines_comes_out_right(fault: str, machines: Network, tmp_path: Path) -> None:
    holds(chosen(fault), tmp_path, machines)


def record(*survivors: dict[str, object], code: int = -9) -> Record:
    """Of rank 0, which was killed, and of others that said this."""
    words = [[{"what": "begins", "at": 0.0}, {"what": "fault", "at": 1.0}], *([word] for word in survivors)]
    return Record(words=words, codes=[code, *(1 for _ in survivors)], errors=[""] * len(words), fault_at=1.0)


NAMED = {"what": "raised", "at": 1.5, "kinds": ["PeerLost", "CommunicationError"], "message": "rank 0 died", "rank": 0}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"rank": 1}, "named rank 1"),
        ({"at": 12.0}, "after 11.00 s"),
        ({"kinds": ["KeyError"]}, "KeyError"),
        ({"what": "closed"}, "did not raise"),
        ({"what": "wrong"}, "rank 0 died"),
    ],
)
def test_the_judge_says_what_is_wrong(change: dict[str, object], words: str) -> None:
    trial = replace(drawn(1, "kill"), phase="steps", machines="00", victim=0, face="raw", timeout=60.0)
    verdict = judged(trial, record({**NAMED, **change}))
    assert verdict.right == (words == "")
    assert words in "\n".join(verdict.wrong)


def test_who_hangs_and_what_is_left_are_not_right() -> None:
    trial = replace(drawn(1, "kill"), phase="steps", machines="00", victim=0)
    assert judged(trial, replace(record(NAMED), stacks="process 1")).hung
    assert not judged(trial, replace(record(NAMED), left=["process 1"])).right


def test_a_seed_draws_the_same_trial_again() -> None:
    assert all(drawn(seed, fault) == drawn(seed, fault) for fault in FAULTS for seed in range(5))
    assert len({drawn(seed, "kill") for seed in range(20)}) == 20
