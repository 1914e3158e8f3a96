"""Programs of Horovod's API, drawn at random: named requests in an order of each rank's own, process sets and joins."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st
from torch_programs import FLOATS, LAYOUTS, Step

POLICIES = ("board", "graph", "cycle", "nonblocking", "global_sleep")
AFTER_JOIN = ("allreduce", "allreduce_", "grouped_allreduce", "allgather")
"""What goes on while some ranks have joined."""
CALLS = (*AFTER_JOIN, "broadcast", "broadcast_", "reducescatter", "alltoall")
DTYPES = (*FLOATS, "uint8", "int8", "int32", "int64")


@dataclass(frozen=True)
class Round:
    """Requests, each a Step with the number of a process set, which every rank submits by an order of its own.

    orders: for each rank the seed of its order; of the order in which it waits for them, too.
    """

    requests: tuple[Step, ...]
    orders: tuple[int, ...]


OBJECTS = ("plain", "plain", "number", "tensor")
"""What ranks exchange as objects: data, and what cannot be sent, an integer of too many digits or a tensor without
memory."""


@dataclass(frozen=True)
class Exchange:
    """Objects of all ranks, or of the rank that is `root`, which alone has one of this kind. call: of Horovod's API."""

    call: str
    root: int
    kind: str


@dataclass(frozen=True)
class Program:
    """sets: the ranks of each process set, of which the first has all. rounds_of: how many each rank does, and joins.

    machines: a letter for each rank. exchanges: before the rounds. again: the job ends and begins once more.
    """

    policy: str
    machines: str
    sets: tuple[tuple[int, ...], ...]
    rounds: tuple[Round, ...]
    rounds_of: tuple[int, ...]
    exchanges: tuple[Exchange, ...] = ()
    again: bool = False

    @property
    def size(self) -> int:
        """The ranks of the job."""
        return len(self.machines)

    def there(self, number: int) -> tuple[int, ...]:
        """The ranks that do a round."""
        return tuple(rank for rank, rounds in enumerate(self.rounds_of) if number < rounds)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draw a program of two to four ranks."""
    machines = draw(st.sampled_from(("00", "00", "01", "000", "001", "0011")))
    size = len(machines)
    parts = st.sets(st.integers(0, size - 1), min_size=1, max_size=size - 1).map(lambda ranks: tuple(sorted(ranks)))
    sets = (tuple(range(size)), *draw(st.lists(parts, max_size=1)))
    count = draw(st.integers(1, 4))
    rounds_of = tuple(draw(st.integers(0, count)) for _ in range(size)) if draw(st.booleans()) else (count,) * size
    rounds = tuple(
        draw(_rounds(size, sets if all(number < own for own in rounds_of) else sets[:1], number, rounds_of))
        for number in range(max(rounds_of))
    )
    exchange = st.builds(
        Exchange,
        st.sampled_from(("allgather_object", "broadcast_object")),
        st.integers(0, size - 1),
        st.sampled_from(OBJECTS),
    )
    exchanges = tuple(draw(st.lists(exchange, max_size=2)))
    again = len(sets) > 1 and draw(st.integers(0, 2)) == 0
    return Program(draw(st.sampled_from(POLICIES)), machines, sets, rounds, rounds_of, exchanges, again)


@st.composite
def _rounds(
    draw: st.DrawFn, size: int, sets: tuple[tuple[int, ...], ...], number: int, rounds_of: tuple[int, ...]
) -> Round:
    whole = all(number < own for own in rounds_of)
    requests = [draw(_requests(sets, whole)) for _ in range(draw(st.integers(1, 6)))]
    orders = tuple(draw(st.integers(0, 255)) for _ in range(size))
    return Round(tuple(requests), orders)


@st.composite
def _requests(draw: st.DrawFn, sets: tuple[tuple[int, ...], ...], whole: bool) -> Step:
    call = draw(st.sampled_from(CALLS if whole else AFTER_JOIN))
    group = draw(st.integers(0, len(sets) - 1))
    places = len(sets[group])
    small, large = st.lists(st.integers(0, 4), max_size=3).map(tuple), st.tuples(st.sampled_from((500, 30_000)))
    shape = draw(st.one_of(small, large))
    step = Step(
        call,
        group,
        draw(st.sampled_from(DTYPES)),
        shape,
        draw(st.sampled_from(LAYOUTS)),
        draw(st.sampled_from(("SUM", "AVG"))),
        draw(st.integers(0, places - 1)),
        0,
        draw(st.integers(0, 2**16)),
    )
    if call == "allgather":
        return replace(step, splits=(tuple(draw(st.integers(0, 3)) for _ in range(places)),))
    if call == "alltoall":
        return replace(step, splits=tuple(tuple(draw(st.integers(0, 3)) for _ in range(places)) for _ in range(places)))
    return replace(step, shape=(places * 2, *shape)) if call == "reducescatter" else step
