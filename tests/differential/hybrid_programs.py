"""Models in partitions, drawn at random: what a forward does, in modules within modules, and how it is trained."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

WIDTH = 4
"""The features of every value between two statements, which has the shape (samples, WIDTH)."""

LEAVES = (
    "linear",
    "linear",
    "linear without bias",
    "tied linear",
    "frozen linear",
    "spectral norm",
    "weight norm",
    "batch norm",
    "cumulative batch norm",
    "layer norm",
    "dropout",
    "alpha dropout",
    "rrelu",
    "relu in place",
    "tanh",
    "prelu",
    "sequential",
    "attention",
    "lstm",
)
"""Modules of torch."""
HOOKS = ("forward", "forward_pre", "full_backward", "parameter", "accumulated")

PLAIN = (
    "call",
    "call",
    "call",
    "call",
    "add",
    "subtract",
    "multiply",
    "scale",
    "halves swapped",
    "clone",
    "detach",
    "zeros",
    "weight",
    "shift",
    "shape",
    "largest",
    "masked",
    "centered",
    "transposed",
    "expanded",
    "in bfloat16",
    "conjugate",
    "embedded",
)
"""Statements that a trace sees."""
IN_PLACE = (
    "add in place",
    "halve in place",
    "column set",
    "alias",
    "alias",
    "moving mean",
    "mean read",
    "counted samples",
)
"""What changes values and buffers in place, and views that share memory."""
RANDOM = ("dropped", "noise")
HIDDEN = (
    "call without gradients",
    "call in autocast",
    "call with checkpoint",
    "hooked value",
    "branch",
    "mode",
    "number of a value",
    "random numbers",
    "random branch",
    "counted calls",
    "listed calls",
    "rebound buffer",
    "listed weight",
    "backward",
    "own function",
    "another's weight",
)
"""What a trace does not see: it is done in a module that the model calls, and refused in its own forward."""
DICE = ("dice of Python", "dice of NumPy")
"""Refused anywhere."""
RETURNED = ("last", "last", "last", "pair", "dictionary", "named", "data class", "nested", "numbers", "weight", "twice")
SCHEDULES = ("1F1B", "GPipe", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
ONE_STAGE = SCHEDULES[:2]
"""Schedules that give each rank one stage."""


@dataclass(frozen=True)
class Statement:
    """A line of a forward. one, other: the values it takes, counted from the newest. part: the module it calls."""

    do: str
    one: int = 0
    other: int = 0
    part: int = 0


@dataclass(frozen=True)
class Module:
    """kind: one of LEAVES, or "own" for a class with a forward of these statements and modules.

    returned: what an own one returns.
    """

    kind: str
    hook: str | None = None
    parts: tuple[Module, ...] = ()
    statements: tuple[Statement, ...] = ()
    returned: str = "last"

    def own(self) -> list[Module]:
        """This and all own ones within."""
        within = [one for part in self.parts for one in part.own()]
        return [self, *within] if self.kind == "own" else within

    def does(self, *words: str) -> bool:
        """Whether any forward does one of these."""
        return any(statement.do in words for one in self.own() for statement in one.statements)


@dataclass(frozen=True)
class Training:
    """A model and its training in partitions.

    batches: samples of the batch of each step. steps_in: the modes of the model, when it is submitted and in each step.
    alone: the steps whose gradients are not exchanged yet. kept: the share of activations that is kept. cuts: a seed.
    """

    model: Module
    inputs: int
    loss: str
    partitions: int
    replicas: int
    schedule: str
    microbatches: int
    batches: tuple[int, ...]
    training: tuple[bool, ...]
    alone: tuple[bool, ...]
    activations: str
    kept: float
    optimizer: str
    autocast: bool
    cuts: int
    seed: int

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.partitions * self.replicas


@st.composite
def trainings(draw: st.DrawFn) -> Training:
    """Draw a training by two to four ranks."""
    partitions, replicas = draw(st.sampled_from(((2, 1), (2, 1), (2, 1), (1, 2), (2, 2), (3, 1))))
    schedule = draw(st.sampled_from((*ONE_STAGE, *SCHEDULES))) if partitions > 1 else "1F1B"
    if schedule in ONE_STAGE:
        microbatches = draw(st.integers(partitions, 4))
    else:
        microbatches = partitions * (4 if schedule == "DualPipeV" else 2)
    steps = draw(st.integers(1, 3))
    batch = st.integers(2 * microbatches, 2 * microbatches + 3)
    modes = st.lists(st.sampled_from((True, True, True, False)), min_size=steps + 1, max_size=steps + 1)
    return Training(
        model=draw(_roots()),
        inputs=draw(st.integers(1, 2)),
        loss=draw(st.sampled_from(("all", "all", "first", "classes"))),
        partitions=partitions,
        replicas=replicas,
        schedule=schedule,
        microbatches=microbatches,
        batches=tuple(draw(batch) for _ in range(steps + 1)),
        training=tuple(draw(modes)),
        alone=tuple(draw(st.sampled_from((False, False, True))) for _ in range(steps)),
        activations=draw(st.sampled_from(("keep", "recompute", "recompute", "file"))),
        kept=draw(st.sampled_from((0.0, 0.3))),
        optimizer=draw(st.sampled_from(("SGD", "Adam"))),
        autocast=draw(st.sampled_from((False, False, False, False, True))),
        cuts=draw(st.integers(0, 99)),
        seed=draw(st.integers(0, 2**16)),
    )


@st.composite
def _roots(draw: st.DrawFn) -> Module:
    """The model's own forward seldom hides something, which would be refused."""
    exposed = draw(st.sampled_from((False,) * 19 + (True,)))
    parts = draw(st.lists(_parts(2), min_size=2, max_size=5))
    statements = draw(st.lists(_statements(HIDDEN if exposed else ()), min_size=3, max_size=9))
    if draw(st.integers(0, 4)) == 0:
        place = draw(st.integers(0, len(statements)))
        statements[place:place] = draw(_views())
    # A trained module at either end, so that there is something to cut.
    calls = (Statement("call", part=0), *statements, Statement("call", part=len(parts)))
    return Module("own", None, (Module("linear"), *parts, Module("linear")), calls, draw(st.sampled_from(RETURNED)))


@st.composite
def _views(draw: st.DrawFn) -> list[Statement]:
    """A view of the newest value is changed in place, after something else was done and before the value is used."""
    return [
        Statement("alias", part=draw(st.integers(0, 4))),
        Statement("call", one=2, part=draw(st.integers(0, 4))),
        Statement("halve in place", one=1),
        Statement("add", one=3, other=1),
    ]


def _parts(depth: int) -> st.SearchStrategy[Module]:
    hook = st.sampled_from((None,) * 12 + HOOKS)
    leaves = st.builds(Module, st.sampled_from(LEAVES), hook)
    if not depth:
        return leaves
    inner = st.lists(_parts(depth - 1), min_size=1, max_size=3).map(tuple)
    hidden = st.one_of(_statements(()), _statements(HIDDEN), _statements(HIDDEN))
    lines = st.lists(hidden, min_size=1, max_size=4).map(tuple)
    returned = st.sampled_from(("last", "last", "pair", "dictionary"))
    return st.one_of(leaves, st.builds(Module, st.just("own"), hook, inner, lines, returned))


@st.composite
def _statements(draw: st.DrawFn, hidden: tuple[str, ...]) -> Statement:
    groups = [PLAIN, PLAIN, IN_PLACE, RANDOM]
    if hidden:
        groups += [hidden, hidden, hidden, hidden, hidden, hidden]
    words = draw(st.sampled_from(groups))
    if hidden and draw(st.integers(0, 49)) == 0:
        words = DICE
    return Statement(
        draw(st.sampled_from(words)), draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(st.integers(0, 4))
    )
