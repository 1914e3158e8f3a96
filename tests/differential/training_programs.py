"""Trainings drawn at random: parameters of odd shapes, an optimizer, and gradients with all that floats can be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor
from training_optimizers import OWN

FACES = ("buckets", "sharded", "ddp", "zero", "fsdp", "horovod")
"""Paceline's GradientBuckets, ShardedOptimizer and DistributedOptimizer of Horovod's API; over Paceline torch's
DistributedDataParallel, alone and with ZeroRedundancyOptimizer, and fully_shard."""
OURS = ("buckets", "sharded")
CODECS = ("int8", "int4", "bf16")
ENCODED = (33_001,)
"""The shape of one more parameter where gradients are encoded: small buckets are not."""
DDP_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"find_unused_parameters": True},
    {"static_graph": True},
    {"gradient_as_bucket_view": True},
    {"bucket_cap_mb": 1e-4},
    {"find_unused_parameters": True, "gradient_as_bucket_view": True, "bucket_cap_mb": 1e-4},
)
JOINLESS = {"find_unused_parameters", "static_graph"}
"""Those with which no Join is drawn."""
HOOKS = (None, None, None, "builtin", "builtin float16", "all_reduce", "float16")
"""How DDP exchanges a bucket; torch keeps the hook with bfloat16 for NCCL."""
SCHEDULES: dict[str, Any] = {
    "StepLR": {"step_size": 1, "gamma": 0.5},
    "ExponentialLR": {"gamma": 0.9},
    "CosineAnnealingLR": {"T_max": 3},
    "LinearLR": {"total_iters": 3},
    "OneCycleLR": {"max_lr": 0.1, "total_steps": 9, "cycle_momentum": False},
}
"""Schedules of learning rates."""
OPTIMIZERS: dict[str, tuple[dict[str, Any], ...]] = {
    "SGD": ({"lr": 0.1}, {"lr": 0.1, "momentum": 0.9}, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "Adam": ({"lr": 0.01}, {"lr": 0.01, "amsgrad": True}, {"lr": 0.01, "maximize": True}),
    "AdamW": ({"lr": 0.01, "weight_decay": 0.1},),
    "RMSprop": ({"lr": 0.01, "centered": True, "momentum": 0.5},),
    "Adagrad": ({"lr": 0.1},),
    "Adadelta": ({},),
    "Adamax": ({},),
    "NAdam": ({},),
    "RAdam": ({"lr": 0.01},),
    "Rprop": ({},),
    "ASGD": ({},),
    "GlobalNorm": ({"lr": 0.1},),
}
GRADIENTS = ("usual", "usual", "usual", "zeros", "denormal", "huge", "infinite", "nan", "none")
"""What a parameter's gradient is made of; none: this rank's pass does not reach it."""
NOT_FINITE = ("infinite", "nan")
EXACT = ("usual", "usual", "zeros", "none")
"""Gradients of which sums in another order differ by rounding alone."""
BOUNDED = ("usual", "usual", "large", "zeros", "infinite", "nan", "none")
"""Gradients whose encoding loses little beside the largest."""
AFTER = ("step", "step", "nothing", "nothing", "zeros")
"""What follows an exchange: a step and gradients of zero or None, nothing, so that the next pass adds to the mean, or
zeros without a step."""


@dataclass(frozen=True)
class Step:
    """A pass of every rank. kinds: by rank and parameter. accumulates: no exchange follows yet. after: see AFTER."""

    kinds: tuple[tuple[str, ...], ...]
    accumulates: bool
    seed: int
    after: str = "step"


@dataclass(frozen=True)
class Training:
    """skips: a step whose mean gradients are not finite is left out, as a scaler of losses does.

    ddp, hook, schedule: among DDP_OPTIONS, HOOKS and SCHEDULES. joins: in torch's Join. zeros: gradients become zeros
    after a step, not None. moves: they are given other memory before each pass. closure: the passes are made by a
    closure in the step. codec: of gradients, which cross from one machine to another; then a step is skipped.
    """

    face: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    optimizer: str
    options: int
    skips: bool
    steps: tuple[Step, ...]
    ddp: int = 0
    hook: str | None = None
    schedule: str | None = None
    joins: bool = False
    zeros: bool = False
    moves: bool = False
    closure: bool = False
    codec: str | None = None
    size: int = 2

    @property
    def optimizer_class(self) -> Any:
        """The class of its optimizer."""
        return OWN.get(self.optimizer) or getattr(torch.optim, self.optimizer)

    def made(self, parameters: Any) -> torch.optim.Optimizer:
        """Its optimizer, of torch alone."""
        return self.optimizer_class(parameters, **self.wishes)  # type: ignore[no-any-return]

    @property
    def ddp_options(self) -> dict[str, Any]:
        """The options of DistributedDataParallel."""
        return DDP_OPTIONS[self.ddp]

    def scheduled(self, optimizer: Any) -> Any:
        """The schedule of the optimizer's learning rate, or None."""
        if self.schedule is None:
            return None
        return getattr(torch.optim.lr_scheduler, self.schedule)(optimizer, **SCHEDULES[self.schedule])

    @property
    def wishes(self) -> dict[str, Any]:
        """The options of its optimizer."""
        return OPTIMIZERS[self.optimizer][self.options]


@st.composite
def trainings(draw: st.DrawFn) -> Training:
    """Draw a training of two ranks, whose sums are the same in either order."""
    face = draw(st.sampled_from((*OURS, *FACES)))
    over_ddp = face in ("ddp", "zero")
    style = draw(st.sampled_from(("plain", "kept", "encoded" if face in OURS else "plain")))
    codec = draw(st.sampled_from(CODECS)) if style == "encoded" else None
    keeps = style == "kept" and face not in ("fsdp", "horovod")
    ddp = draw(st.integers(0, len(DDP_OPTIONS) - 1)) if over_ddp else 0
    # fully_shard takes no parameters without dimensions.
    shape = st.lists(st.integers(1, 9), min_size=1 if face == "fsdp" else 0, max_size=3).map(tuple)
    shapes = tuple(draw(st.lists(shape, min_size=1, max_size=5))) + ((ENCODED,) if codec else ())
    optimizer = "SGD" if codec or keeps else draw(_optimizers(face))
    options = 0 if codec else draw(st.integers(0, len(OPTIMIZERS[optimizer]) - 1))
    may_miss = DDP_OPTIONS[ddp].get("find_unused_parameters", False) if over_ddp else face not in ("fsdp", "horovod")
    kinds = BOUNDED if codec else EXACT if keeps else GRADIENTS
    kinds = tuple(kind for kind in kinds if may_miss or kind != "none")
    joins = face == "ddp" and not JOINLESS & set(DDP_OPTIONS[ddp]) and draw(st.booleans())
    alone = face != "horovod" and not joins
    steps = tuple(draw(st.lists(_steps(len(shapes), kinds, alone, keeps), min_size=1, max_size=5)))
    if "static_graph" in DDP_OPTIONS[ddp]:  # torch learns the graph in the first pass, which is to be exchanged
        steps = (replace(steps[0], accumulates=False), *steps[1:])
    closure = face == "horovod" and draw(st.booleans())
    return Training(
        face=face,
        dtype="float32" if codec else draw(st.sampled_from(("float32", "float64"))),
        shapes=shapes,
        optimizer=optimizer,
        options=options,
        skips=bool(codec) or (not closure and draw(st.booleans())),
        steps=steps,
        ddp=ddp,
        hook=draw(st.sampled_from(HOOKS)) if over_ddp and not (keeps or joins) else None,
        schedule=draw(st.one_of(st.none(), st.sampled_from(sorted(SCHEDULES)))) if not codec else None,
        joins=joins,
        zeros=face != "fsdp" and draw(st.booleans()),
        moves=face in OURS and draw(st.booleans()),
        closure=closure,
        codec=codec,
    )


def _optimizers(face: str) -> st.SearchStrategy[str]:
    known = set(OPTIMIZERS)
    if face == "fsdp":
        known -= {"Rprop", *OWN}  # Rprop does what torch's tensors of several ranks can't
    if face == "zero":
        known -= set(OWN)  # torch gives each rank an optimizer of some of the parameters
    refused = [*OWN] * 8 if face == "sharded" else []  # which takes no time
    return st.sampled_from(sorted(known) + refused)


@st.composite
def _steps(draw: st.DrawFn, parameters: int, kinds: tuple[str, ...], alone: bool, keeps: bool) -> Step:
    if draw(st.integers(0, 2)):  # most steps are taken, so that it shows what one that is skipped has left
        kinds = tuple(kind for kind in kinds if kind not in NOT_FINITE)
    kind = st.lists(st.sampled_from(kinds), min_size=parameters, max_size=parameters)
    # On each rank a pass reaches some parameter.
    reaching = kind.filter(lambda kinds: any(one != "none" for one in kinds)).map(tuple)
    accumulates, after = alone and draw(st.booleans()), draw(st.sampled_from(AFTER)) if keeps else "step"
    return Step((draw(reaching), draw(reaching)), accumulates, draw(st.integers(0, 2**16)), after)


def start(training: Training) -> list[Tensor]:
    """The parameters at the start."""
    generator = torch.Generator().manual_seed(7)
    dtype = getattr(torch, training.dtype)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in training.shapes]


def gradient(training: Training, step: Step, rank: int, number: int) -> Tensor | None:
    """The gradient of a parameter in a rank's pass; None where the pass does not reach it."""
    kind, dtype = step.kinds[rank][number], getattr(torch, training.dtype)
    if kind == "none":
        return None
    generator = torch.Generator().manual_seed((step.seed * 8 + rank) * 8 + number)
    drawn = torch.randn(training.shapes[number], generator=generator, dtype=torch.float64).to(dtype)
    if kind == "zeros":
        return torch.zeros_like(drawn)
    if kind == "denormal":
        return drawn * torch.finfo(dtype).tiny / 64
    if kind == "large":
        return drawn * 1e4
    if kind == "huge":
        return drawn * torch.finfo(dtype).max ** 0.45
    if kind in NOT_FINITE:
        drawn.view(-1)[step.seed % drawn.numel()] = float("inf") if kind == "infinite" else float("nan")
    return drawn
