"""Simulated groups whose calls take longer than they should: because links have changed, or for another reason.

drift: the pace alone. Calls have 10 % of noise; one in 30 is held up and takes up to four times as long. With calls of
500 ms the evidence decides, with calls of 50 ms the price of a measurement does.
busy: as drift, but now and then cores are busy for 200 calls, which take twice as long; no measurement explains that.
links: what is made of measurements of four machines, which are 3 % off; one link carries less than the others, or all
are as they were and calls are slow for another reason.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np

from decisions.subject import Subject
from paceline.adapt.drift import Drift
from paceline.adapt.replanner import Call, Replanner
from paceline.calibration import adapt as record
from paceline.topology import Topology, parse
from paceline.topology.discover import Placement
from paceline.topology.measured import Measured

CALLS = 40_000
CHANGES = 300
LONG, SHORT = 0.5, 0.05
"""Seconds of a call."""
CALL = Call("all_reduce", 64 << 20)
SPEED = 500.0
"""Mbit/s of a link as it was."""


def _took(chance: Random, pace: float) -> float:
    """How many times as long as expected a call takes."""
    held_up = chance.uniform(0.5, 3) if chance.random() < 1 / 30 else 0.0
    return pace * max(0.1, 1 + chance.gauss(0, 0.1) + held_up)


def drift(seconds: float) -> dict[str, float]:
    return {
        "false in 1000 calls": 1000 * _false(seconds) / CALLS,
        **{
            f"calls until {pace:g} times": fmean(_until(seconds, pace, seed) for seed in range(CHANGES))
            for pace in (1.25, 1.5, 2.0, 5.0)
        },
    }


def busy() -> dict[str, float]:
    return {
        f"measured in 1000 calls of {seconds:g} s": 1000
        * _measured(seconds, lambda call: 2.0 if call // 200 % 2 else 1.0)
        / CALLS
        for seconds in (LONG, SHORT)
    }


def _measured(seconds: float, pace: Callable[[int], float]) -> int:
    """How often links are measured while they are always as they were."""
    chance, seen, measured = Random(0), Drift(record.PRICE), 0
    for call in range(CALLS):
        if seen.changed(seconds, seconds * _took(chance, pace(call))) is not None:
            measured += 1
            seen.measured(others=False)
    return measured


def _false(seconds: float) -> int:
    """How often a group that has not measured yet would do so in vain."""
    chance, seen, measured = Random(0), Drift(record.PRICE), 0
    for _ in range(CALLS):
        if seen.changed(seconds, seconds * _took(chance, 1.0)) is not None:
            measured += 1
            seen = Drift(record.PRICE)
    return measured


def _until(seconds: float, pace: float, seed: int) -> int:
    """How many calls it takes until links are measured that have changed after 50 calls."""
    chance, seen = Random(seed), Drift(record.PRICE)
    for _ in range(50):
        seen.changed(seconds, seconds * _took(chance, 1.0))
    return next(call for call in count(1) if seen.changed(seconds, seconds * _took(chance, pace)) is not None)


def links() -> dict[str, float]:
    logging.getLogger("paceline.plan").setLevel(logging.ERROR)
    cases = range(100)
    return {
        "planned again for nothing": fmean(_plans_again(1.0, 2.0, seed) for seed in cases),
        **{
            f"for a link of {share:g}": fmean(_plans_again(share, 1 / share, seed) for seed in cases)
            for share in (0.95, 0.9, 0.8, 0.6)
        },
    }


def _plans_again(share: float, pace: float, seed: int) -> bool:
    """Whether plans are made again where one of four links carries this share of what it did."""
    chance, planned = Random(seed), list[Placement]()
    ranks, unknown = tuple(range(4)), np.full((4, 4), np.nan)

    def measure(*_: Any) -> tuple[Placement, Measured]:
        found = [SPEED * one * (1 + chance.uniform(-0.03, 0.03)) for one in (share, 1, 1, 1)]
        return Placement(_network(*found), ranks), Measured(unknown, unknown, unknown[0], unknown[0], spread=1.03)

    native: Any = SimpleNamespace(rank=0, set_plans=lambda plans: None)
    replanner = Replanner(native, Placement(_network(*[SPEED] * 4), ranks), measure, planned.append)
    replanner.plan_again(pace, native)
    return bool(planned)


def _network(*speeds: float) -> Topology:
    machines = [f"{{machine: m{number}, ranks: 1, uplink: {speed} Mbit/s}}" for number, speed in enumerate(speeds)]
    return parse(f"children: [{', '.join(machines)}]")


EVIDENCE = ("NOISE", "MOST_EVIDENCE", "PROOF", "PRICE", "SETTLING_CALLS", "MOST_PATIENCE")
SUBJECTS = {
    "drift": Subject(record, EVIDENCE, partial(drift, LONG)),
    "drift of short calls": Subject(record, EVIDENCE, partial(drift, SHORT)),
    "busy": Subject(record, EVIDENCE, busy),
    "links": Subject(record, ("OTHER_SPEED", "EXPLAINS"), links, differences=("OTHER_SPEED",)),
}
