"""The figures of a rank: plain cumulative numbers, so that two readings make a rate."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from paceline.observe.profile import Profile
from paceline.observe.trace.clocks import Clocks, Meeting

FORMAT = "paceline figures 1"
MAX_BYTES = 4 * 2**20
"""Bytes of the largest encoded figures that are read."""


@dataclass(frozen=True)
class Waiting:
    """An operation that is not over: what it is, how many seconds it has waited, and which ranks are missing."""

    what: str
    seconds: float
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """A group of this rank: its name, its number of ranks, and the operations and bytes of it that were seen."""

    name: str
    size: int
    operations: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Figures:
    """The figures of one rank. Sums count from `since_ns`; that and `time_ns` are CLOCK_REALTIME in nanoseconds.

    operations: how many collectives and messages of the program have begun. unseen: how many of these went by between
    two looks; `bytes` lacks theirs. exposed_ns: the time in which some caller waited for an operation. steps, step_ns:
    the steps so far and their median time, see `paceline.observe.steps`. elsewhere: how many ranks of the job are on
    other machines. requests: how many named requests are over. passed: how many of these went by. coordinators,
    policies: the counters and the policy of each coordinator, by channel. arrivals: the last named requests if there
    were any, else the last collectives in which all ranks wait for each other. clocks: what this rank knows of the
    clocks of other machines. groups: the groups of this rank, by channel.
    batches: how many batches Paceline's loaders gave the program. loading_ns: the time that it took to make them.
    batch_wait_ns: the time that the program waited for them.
    profile: what the rank did lately, call by call; only in a report.
    final: whether these are the last figures of a rank that was ending.
    """

    rank: int
    size: int
    host: str
    pid: int
    since_ns: int
    time_ns: int
    operations: int = 0
    unseen: int = 0
    bytes: int = 0
    exposed_ns: int = 0
    steps: float = 0
    step_ns: int = 0
    requests: int = 0
    passed: int = 0
    batches: int = 0
    loading_ns: int = 0
    batch_wait_ns: int = 0
    coordinators: dict[int, dict[str, int]] = field(default_factory=dict)
    policies: dict[int, str] = field(default_factory=dict)
    elsewhere: int = 0
    waits: tuple[Waiting, ...] = ()
    arrivals: tuple[Meeting, ...] = ()
    clocks: Clocks = field(default_factory=Clocks)
    groups: dict[int, Group] = field(default_factory=dict)
    profile: Profile | None = None
    final: bool = False
    format: str = FORMAT

    def __post_init__(self) -> None:
        object.__setattr__(self, "clocks", self.clocks.of(self.host))

    @property
    def counters(self) -> dict[str, int]:
        """The counters of all coordinators together: sums, and for longest times the maximum."""
        found: dict[str, int] = {}
        for one in self.coordinators.values():
            for name, value in one.items():
                before = found.get(name, 0)
                found[name] = max(before, value) if name.startswith("longest") else before + value
        return found

    @property
    def seconds(self) -> float:
        """The seconds that the figures cover."""
        return max(self.time_ns - self.since_ns, 1) / 1e9


def encode(figures: Figures) -> bytes:
    """Return the figures as JSON, which `decode` reads."""
    return json.dumps(vars(figures), default=vars, separators=(",", ":")).encode()


def decode(data: bytes) -> Figures:
    """Return the figures that `encode` wrote. Raises ValueError if the data are something else, or too long."""
    from pydantic import TypeAdapter, ValidationError  # importing it costs 100 ms, and a rank only encodes

    if len(data) > MAX_BYTES:
        raise ValueError(f"not figures: {len(data)} bytes are more than they can have")
    try:
        found = TypeAdapter(Figures).validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"not figures: {where} {first['msg']}") from None
    if found.format != FORMAT:
        raise ValueError(f"not figures: its format is {found.format!r:.60}, not {FORMAT!r}")
    return found
