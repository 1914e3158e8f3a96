"""A rank's figures, as it hands them out: plain numbers, cumulative, so that two of them make a rate."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from paceline.trace.clocks import Meeting

FORMAT = "paceline figures 1"
MAX_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Waiting:
    """An operation that is not over: what it is, for how many seconds, and who is missing."""

    what: str
    seconds: float
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """A group of this rank's, and what went through it as far as it was seen."""

    name: str
    size: int
    operations: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Figures:
    """Of one rank. Everything but the steps' median counts from `since_ns`, a CLOCK_REALTIME like `time_ns`.

    operations: the program's collectives and messages, as far as they have begun. unseen: of them, those that went by
    between two looks; `bytes` has only the others. exposed_ns: in which some caller waited for one. steps: see
    `paceline.observe.steps`. elsewhere: how many ranks of the job are on other machines than this one.
    requests: finished ones with a name; passed: of them, those that went by. coordinators, policies: the counters and
    the policy of each coordinator, by channel.
    batches: those that Paceline's loaders gave the program. loading_ns: the time that it took to make them.
    batch_wait_ns: the time that the program waited for them.
    last: the names that this rank was most often the last to hand in, and how often; last_count: how often in all.
    arrivals: the last collectives that wait for everybody. groups: by channel.
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
    last_count: int = 0
    last: dict[str, int] = field(default_factory=dict)
    coordinators: dict[int, dict[str, int]] = field(default_factory=dict)
    policies: dict[int, str] = field(default_factory=dict)
    elsewhere: int = 0
    waits: tuple[Waiting, ...] = ()
    arrivals: tuple[Meeting, ...] = ()
    groups: dict[int, Group] = field(default_factory=dict)
    format: str = FORMAT

    @property
    def counters(self) -> dict[str, int]:
        """Of all coordinators together: sums, and the longest of what is longest."""
        found: dict[str, int] = {}
        for one in self.coordinators.values():
            for name, value in one.items():
                before = found.get(name, 0)
                found[name] = max(before, value) if name.startswith("longest") else before + value
        return found

    @property
    def seconds(self) -> float:
        """The time that the figures are of."""
        return max(self.time_ns - self.since_ns, 1) / 1e9


def encode(figures: Figures) -> bytes:
    """As `decode` reads it."""
    return json.dumps(vars(figures), default=vars, separators=(",", ":")).encode()


def decode(data: bytes) -> Figures:
    """What `encode` made. Raises ValueError if it is something else."""
    from pydantic import TypeAdapter, ValidationError  # costs 100 ms, and a rank only encodes

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
