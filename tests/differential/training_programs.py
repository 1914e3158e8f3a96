"""Trainings drawn at random: parameters of odd shapes, an optimizer, and gradients with all that floats can be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

FACES = ("buckets", "sharded", "ddp", "zero", "fsdp")
"""Paceline's GradientBuckets and ShardedOptimizer; over Paceline torch's DistributedDataParallel, alone and with
ZeroRedundancyOptimizer, and fully_shard."""
DDP_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"find_unused_parameters": True},
    {"static_graph": True},
    {"gradient_as_bucket_view": True},
    {"bucket_cap_mb": 1e-4},
    {"find_unused_parameters": True, "gradient_as_bucket_view": True, "bucket_cap_mb": 1e-4},
)
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
}
GRADIENTS = ("usual", "usual", "usual", "zeros", "denormal", "huge", "infinite", "nan", "none")
"""What a parameter's gradient is made of; none: this rank's pass does not reach it."""


@dataclass(frozen=True)
class Step:
    """A pass of every rank. kinds: by rank and parameter. accumulates: no exchange and no step follow yet."""

    kinds: tuple[tuple[str, ...], ...]
    accumulates: bool
    seed: int


@dataclass(frozen=True)
class Training:
    """skips: a step whose mean gradients are not finite is left out, as a scaler of losses does.

    ddp, hook, schedule: among DDP_OPTIONS, HOOKS and SCHEDULES.
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
    size: int = 2

    def made(self, parameters: Any) -> torch.optim.Optimizer:
        """Its optimizer, of torch alone."""
        kind: Any = getattr(torch.optim, self.optimizer)
        return kind(parameters, **self.wishes)  # type: ignore[no-any-return]

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
    face = draw(st.sampled_from(FACES))
    over_ddp = face in ("ddp", "zero")
    ddp = draw(st.integers(0, len(DDP_OPTIONS) - 1)) if over_ddp else 0
    # fully_shard takes no parameters without dimensions.
    shape = st.lists(st.integers(1, 9), min_size=1 if face == "fsdp" else 0, max_size=3).map(tuple)
    shapes = tuple(draw(st.lists(shape, min_size=1, max_size=5)))
    # Rprop does what torch's tensors of several ranks can't.
    optimizer = draw(st.sampled_from(sorted(set(OPTIMIZERS) - {"Rprop"} if face == "fsdp" else OPTIMIZERS)))
    options = draw(st.integers(0, len(OPTIMIZERS[optimizer]) - 1))
    may_miss = DDP_OPTIONS[ddp].get("find_unused_parameters", False) if over_ddp else face != "fsdp"
    steps = tuple(draw(st.lists(_steps(len(shapes), may_miss), min_size=1, max_size=5)))
    if "static_graph" in DDP_OPTIONS[ddp]:  # torch learns the graph in the first pass, which is to be exchanged
        steps = (replace(steps[0], accumulates=False), *steps[1:])
    dtype = draw(st.sampled_from(("float32", "float64")))
    hook = draw(st.sampled_from(HOOKS)) if over_ddp else None
    schedule = draw(st.one_of(st.none(), st.sampled_from(sorted(SCHEDULES))))
    return Training(face, dtype, shapes, optimizer, options, draw(st.booleans()), steps, ddp, hook, schedule)


@st.composite
def _steps(draw: st.DrawFn, parameters: int, may_miss: bool) -> Step:
    drawn = GRADIENTS if may_miss else GRADIENTS[:-1]
    kind = st.lists(st.sampled_from(drawn), min_size=parameters, max_size=parameters)
    # On each rank a pass reaches some parameter.
    reaching = kind.filter(lambda kinds: any(one != "none" for one in kinds)).map(tuple)
    return Step((draw(reaching), draw(reaching)), draw(st.booleans()), draw(st.integers(0, 2**16)))


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
    if kind == "huge":
        return drawn * torch.finfo(dtype).max ** 0.45
    if kind in ("infinite", "nan"):
        drawn.view(-1)[step.seed % drawn.numel()] = float("inf") if kind == "infinite" else float("nan")
    return drawn
