"""Cutting a chain of calls into stages so that the slowest stage is fastest, by dynamic programming.

This is the partitioning of PipeDream (Narayanan et al., SOSP 2019, section 3.1) with one rank for each stage: for every
number of stages and every prefix of the calls, the best last cut follows from the best cuts of shorter prefixes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Channel:
    """The path between the ranks of two neighbouring stages: seconds of each byte, and of each message."""

    per_byte: float
    latency: float

    def seconds(self, nbytes: Floats) -> Floats:
        """The time that messages of so many bytes take; none for nothing."""
        return np.where(nbytes > 0, nbytes * self.per_byte + self.latency, 0.0)


class Weight(NamedTuple):
    """A parameter or buffer that calls need. trained: whether it gets a gradient."""

    identity: int
    nbytes: float
    trained: bool = True


class Times(NamedTuple):
    """Seconds of each call of a chain."""

    forward: Sequence[float]
    backward: Sequence[float]


@dataclass(frozen=True)
class Chain:
    """A model as a chain of n calls. There are n + 1 cuts: before call 0, …, after call n - 1.

    All of it is for one microbatch. forward, backward: seconds of each call. saved: bytes that each keeps for its
    backward. made: bytes of each call's result. up, down: bytes that cross each cut, forward and backward; infinite
    where there can't be a cut. weights: the tensors that each call needs; one that several calls of a stage need counts
    once. returned: forward and backward where memory that is freed goes back to the system; None if that is the same.
    """

    forward: Sequence[float]
    backward: Sequence[float]
    saved: Sequence[float]
    made: Sequence[float]
    up: Sequence[float]
    down: Sequence[float]
    weights: Sequence[Sequence[Weight]]
    returned: Times | None = None

    def returning(self) -> Chain:
        """The same chain where memory that is freed goes back to the system."""
        return self if self.returned is None else replace(self, **self.returned._asdict())


@dataclass(frozen=True)
class Limits:
    """The memory of a rank, in bytes. in_flight: of each stage, how often it keeps a microbatch's activations.

    copies: how often each weight is held: itself, its gradient, the optimizer's states. instead: seconds that each call
    costs more if its activations are not kept; nothing if all must be. fragments: how many times as much activations
    need where memory that is freed is kept; a stage for which there is no room for that gives it back.
    """

    memory: float = math.inf
    in_flight: Sequence[float] = field(default=())
    copies: float = 4.0
    instead: Sequence[float] = field(default=())
    fragments: float = 1.0


class CannotCut(ValueError):
    """There are not so many stages in the chain, or they do not fit into memory. most: as many there can be."""

    def __init__(self, reason: str, most: int) -> None:
        super().__init__(reason)
        self.most = most


def cut(chain: Chain, channels: Sequence[Channel], limits: Limits) -> list[int]:
    """The cuts between `len(channels) + 1` stages: each stage's last call plus one, the number of calls at the end.

    A stage takes the time of its calls and of what it receives: activations from the stage before it, gradients from
    the one behind. If activations need not be kept, it also takes the share of `instead` for which there is no room,
    and those count as nothing. Raises CannotCut.
    """
    stages = len(channels) + 1
    calls = len(chain.forward)
    places = np.flatnonzero(np.isfinite(chain.up))
    inner = places[(places > 0) & (places < calls)]
    if len(inner) + 1 < stages:
        raise CannotCut(f"it can be cut into {len(inner) + 1} stages at most", len(inner) + 1)
    cuts = np.array([0, *inner, calls])
    slower = chain.returning()
    work, more = np.add(chain.forward, chain.backward), np.add(slower.forward, slower.backward)
    instead = limits.instead or np.zeros(calls)
    work, more, saved, instead = (
        np.concatenate([[0.0], np.cumsum(each)])[cuts] for each in (work, more, chain.saved, instead)
    )
    arriving = [np.array(each)[cuts] for each in (chain.up, chain.down)]
    arriving[0][0] = 0.0  # the model's inputs come from nowhere
    best = np.full((stages + 1, len(cuts)), math.inf)
    best[0, 0] = -math.inf
    last = np.zeros((stages + 1, len(cuts)), dtype=np.int64)
    in_flight = limits.in_flight or [1] * stages
    for end, weights in _weights(chain.weights, cuts):
        time, returning, kept, again = (each[end] - each[:end] for each in (work, more, saved, instead))
        free = limits.memory - weights * limits.copies
        for stage in range(stages):
            wanted = kept * in_flight[stage]
            took = np.where(limits.fragments * wanted <= free, time, returning)
            if stage > 0:
                took = took + channels[stage - 1].seconds(arriving[0][:end])
            if stage < stages - 1:
                took = took + channels[stage].seconds(arriving[1][end])
            if limits.instead:
                missing = np.clip(wanted - free, 0.0, wanted) / np.maximum(wanted, 1e-9)
                fits, took = free >= 0.0, took + missing * again
            else:
                fits = wanted <= free
            slowest = np.where(fits, np.maximum(best[stage, :end], took), math.inf)
            last[stage + 1, end] = np.argmin(slowest)
            best[stage + 1, end] = slowest[last[stage + 1, end]]
    if not math.isfinite(best[stages, -1]):
        raise CannotCut(f"no cut into {stages} stages fits into memory", 0)
    found, end = [], len(cuts) - 1
    for stage in range(stages, 0, -1):
        found.append(int(cuts[end]))
        end = int(last[stage, end])
    return found[::-1]


def _weights(calls: Sequence[Sequence[Weight]], cuts: npt.NDArray[np.int64]) -> Iterator[tuple[int, Floats]]:
    """Yield (index of a cut, bytes of weights between each earlier cut and it), in order."""
    held = np.zeros(len(cuts))
    before: dict[int, int] = {}  # the stretch between cuts in which a tensor was last needed
    for end in range(1, len(cuts)):
        for call in range(cuts[end - 1], cuts[end]):
            for weight in calls[call]:
                held[before.get(weight.identity, -1) + 1 : end] += weight.nbytes
                before[weight.identity] = end - 1
        yield end, held[:end]
