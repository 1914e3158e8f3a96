"""Programs of torch.distributed, drawn at random: sequences of collectives and messages over drawn groups."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
MOVED = ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2")
"""What is only moved."""
DTYPES = (*FLOATS, *INTEGERS, "bool", "complex64", "complex128", *MOVED)
LAYOUTS = (
    "plain",
    "offset",
    "strided",
    "transposed",
    "parameter",
    "channels_last",
    "subclass",
    "conjugate",
    "negative",
)
"""How a tensor lies in memory. All but the first have other memory around or between their elements; the last two are
views whose elements have another sign in memory."""
REDUCTIONS = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "functional_all_reduce")
MOVEMENTS = ("broadcast", "all_gather", "all_gather_into_tensor", "gather", "scatter", "all_to_all")
OTHERS = ("all_to_all_single", "send", "batch_isend_irecv", "barrier", "all_gather_object", "broadcast_object_list")
OBJECTS = OTHERS[-2:]
"""Calls that pickle what they are given, which torch can't do with MOVED."""
CALLS = (*REDUCTIONS, *MOVEMENTS, *OTHERS)
EVENTS = ("begin_again", "use_destroyed", "threads", "fork", "spawn", "mismatch", "dispatch")
"""What happens to all ranks of the world between calls."""
CHEAP = ("mismatch", "dispatch", "dispatch")
"""Events that take no longer than calls, and are drawn more often."""
OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")


@dataclass(frozen=True)
class Step:
    """A call of all ranks of a group. root: a place in the group, and of a message its sender.

    wait: None for a call that blocks; otherwise after how many more steps its Work is waited for. splits: what each
    place sends to each other one in `all_to_all_single`, in rows. seed: of the elements.
    """

    call: str
    group: int
    dtype: str
    shape: tuple[int, ...]
    layout: str
    op: str
    root: int
    wait: int | None
    seed: int
    splits: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Program:
    """groups: the ranks of each, of which the first is the world."""

    groups: tuple[tuple[int, ...], ...]
    steps: tuple[Step, ...]

    @property
    def size(self) -> int:
        """The ranks of the world."""
        return len(self.groups[0])


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draw a program of two to four ranks."""
    size = draw(st.sampled_from((2, 2, 3, 4)))
    parts = st.sets(st.integers(0, size - 1), min_size=1).map(lambda ranks: tuple(sorted(ranks)))
    groups = (tuple(range(size)), *draw(st.lists(parts, max_size=2)))
    count = draw(st.integers(1, 6))
    return Program(groups, tuple(draw(_steps(groups)) for _ in range(count)))


@st.composite
def _steps(draw: st.DrawFn, groups: tuple[tuple[int, ...], ...]) -> Step:
    call = draw(st.sampled_from((*CALLS, *CALLS, *CALLS, *EVENTS, *CHEAP)))
    group = draw(st.integers(0, len(groups) - 1)) if call not in EVENTS else 0
    places = len(groups[group])
    splits: tuple[tuple[int, ...], ...] = ()
    if call == "all_to_all_single":
        rows = st.lists(st.integers(0, 3), min_size=places, max_size=places).map(tuple)
        splits = tuple(draw(rows) for _ in range(places)) if draw(st.booleans()) else ((1,) * places,) * places
    few, many = st.integers(0, 5), st.sampled_from((1000, 9000, 40_000))
    shape = draw(st.one_of(st.lists(few, max_size=4).map(tuple), st.tuples(many), st.tuples(st.just(3), many)))
    return Step(
        call,
        group,
        draw(st.sampled_from(DTYPES[: -len(MOVED)] if call in OBJECTS else DTYPES)),
        shape,
        draw(st.sampled_from(LAYOUTS)),
        draw(st.sampled_from(OPS)),
        draw(st.integers(0, places - 1)),
        draw(st.one_of(st.none(), st.integers(0, 3))),
        draw(st.integers(0, 2**16)),
        splits,
    )


def values(step: Step, place: int, part: int = 0, rows: int | None = None) -> Tensor:
    """The elements that a place of the group submits: small integers, so that every sum of a few is exact."""
    dtype = getattr(torch, step.dtype)
    draw = torch.Generator().manual_seed((step.seed * 64 + place) * 64 + part)
    shape = step.shape if rows is None else (rows, *step.shape)
    low = 0 if step.dtype.startswith("uint") or step.dtype == "bool" else -3
    drawn = torch.randint(low, 2 if step.dtype == "bool" else 4, shape, generator=draw)
    return drawn.to(dtype) if not dtype.is_complex else torch.complex(drawn.double(), drawn.double() - 1).to(dtype)
