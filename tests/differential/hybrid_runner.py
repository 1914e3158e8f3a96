"""One rank's part of a training in partitions, and the whole of it in one process."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.nn.functional as F
from hybrid_modules import made
from hybrid_programs import WIDTH, Training
from torch import Tensor, nn

from paceline.torch.partitioned.structure import leaves


@dataclass
class Step:
    """What a rank has after a step: the replica's loss, and the gradients of its parameters."""

    loss: float
    gradients: dict[str, Tensor | None]


@dataclass
class Trained:
    """What comes of a training. refused: why it did not begin, and the error's class; then there is nothing else.

    state: of the whole model. output: what it returns for one more batch.
    """

    refused: tuple[str, str] | None = None
    cuts: tuple[str, ...] = ()
    replica: int = 0
    steps: tuple[Step, ...] = ()
    state: dict[str, Any] | None = None
    output: tuple[str, list[Any]] | None = None


def dtype_of(training: Training) -> torch.dtype:
    """Rounding is told from errors in float64; autocast leaves that as it is."""
    return torch.float32 if training.autocast else torch.float64


def batch(training: Training, step: int, replica: int) -> tuple[tuple[Tensor, ...], Tensor]:
    """The inputs and the target of a step; step 0 is the example."""
    generator = torch.Generator().manual_seed((training.seed * 8 + step) * 8 + replica)
    shape = (training.inputs + 1, training.batches[step], WIDTH)
    *inputs, target = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype_of(training)).unbind()
    return tuple(one.clone() for one in inputs), target.argmax(1) if training.loss == "classes" else target


def loss(kind: str, output: Any, target: Tensor) -> Tensor:
    """The mean over the samples."""
    parts = [one for one in leaves(output) if isinstance(one, Tensor)]
    if kind == "classes":
        return F.cross_entropy(parts[0], target)
    if kind == "first":
        return F.mse_loss(parts[0], target)
    return torch.stack([(one - target.mean()).square().mean() for one in parts]).sum()


def context(training: Training) -> Any:
    """What the training is done in."""
    return torch.autocast("cpu", torch.bfloat16) if training.autocast else contextlib.nullcontext()


def optimizer(training: Training, parameters: Any) -> torch.optim.Optimizer:
    """Over parameters, of which a rank may have none."""
    own = list(parameters) or [nn.Parameter(torch.empty(0))]
    return (
        torch.optim.Adam(own, lr=0.01) if training.optimizer == "Adam" else torch.optim.SGD(own, lr=0.05, momentum=0.9)
    )


def run(rank: int, size: int, training: Training) -> Trained:
    """Divide the model and train this rank's partition."""
    import paceline.torch

    model = made(training.model, training.seed + rank, dtype_of(training)).train(training.training[0])
    example, _ = batch(training, 0, 0)
    refused, hybrid = None, None
    try:
        with context(training), _drawn(training):
            hybrid = paceline.torch.hybrid(
                model,
                example,
                partial(loss, training.loss),
                partitions=training.partitions,
                replicas=training.replicas,
                microbatches=training.microbatches,
                schedule=training.schedule,
                activations=training.activations,  # type: ignore[arg-type]
            )
    except Exception as error:
        refused = type(error).__name__, str(error)
    divided = torch.tensor(refused is None)
    dist.all_reduce(divided, dist.ReduceOp.MIN)
    if hybrid is None or not divided:
        return Trained(refused or ("", "another rank has refused it"))
    own, steps = optimizer(training, hybrid.parameters()), []
    for number, alone in enumerate(training.alone, 1):
        hybrid.train(training.training[number])
        inputs, target = batch(training, number, hybrid.replica)
        torch.manual_seed(1000 * number + hybrid.replica)
        with context(training), hybrid.no_sync() if alone else contextlib.nullcontext():
            value = hybrid.step(inputs, target)
        steps.append(Step(value, _gradients(hybrid.named_parameters())))
        if not alone:
            own.step()
            hybrid.zero_grad()
    state = hybrid.state_dict()
    torch.manual_seed(training.seed)
    with context(training):
        found = hybrid(*batch(training, 0, hybrid.replica)[0])
    output = _told(found)
    hybrid.close()
    return Trained(None, tuple(hybrid.cuts), hybrid.replica, tuple(steps), state, output)


def serial(training: Training) -> list[Trained]:
    """What each replica has, from as many copies of the whole model."""
    from paceline.torch.partitioned.random_state import seeds

    dtype = dtype_of(training)
    models = [made(training.model, training.seed, dtype) for _ in range(training.replicas)]
    optimizers = [optimizer(training, model.parameters()) for model in models]
    steps: list[list[Step]] = [[] for _ in models]
    for number, alone in enumerate(training.alone, 1):
        losses = []
        for replica, model in enumerate(models):
            model.train(training.training[number])
            inputs, target = batch(training, number, replica)
            torch.manual_seed(1000 * number + replica)
            total = 0.0
            for part, seed in enumerate(seeds(training.microbatches).tolist()):
                torch.manual_seed(seed)
                some = [one.tensor_split(training.microbatches)[part] for one in (*inputs, target)]
                with context(training):
                    value = loss(training.loss, model(*some[:-1]), some[-1]) * (len(some[-1]) / len(target))
                value.backward()
                total += value.item()
            losses.append(total)
        if not alone:
            _average(models)
        for mine, model, value in zip(steps, models, losses, strict=True):
            mine.append(Step(value, _gradients(model.named_parameters())))
        if not alone:
            for one in optimizers:
                one.step()
                one.zero_grad()
    state = {name: one.clone() for name, one in models[0].state_dict().items()}
    found = []
    for replica, model in enumerate(models):
        torch.manual_seed(training.seed)
        torch.manual_seed(int(seeds(1)))
        with context(training), torch.no_grad():
            output = _told(model(*batch(training, 0, replica)[0]))
        found.append(Trained(None, (), replica, tuple(steps[replica]), state, output))
    return found


def _average(models: Sequence[nn.Module]) -> None:
    for each in zip(*(model.parameters() for model in models), strict=True):
        gradients = [one.grad for one in each if one.grad is not None]
        if gradients:
            mean = sum(gradients[1:], gradients[0]) / len(models)
            for one in each:
                one.grad = mean.clone()


def _gradients(parameters: Iterator[tuple[str, nn.Parameter]]) -> dict[str, Tensor | None]:
    return {name: None if one.grad is None else one.grad.clone() for name, one in parameters}


def _told(output: Any) -> tuple[str, list[Any]]:
    return type(output).__name__, [one.detach().clone() if isinstance(one, Tensor) else one for one in leaves(output)]


@contextlib.contextmanager
def _drawn(training: Training) -> Iterator[None]:
    """Cuts and segments do not depend on how long calls take here, and so small activations go into the file."""
    from paceline.torch.partitioned import activation_file, build, profile
    from paceline.torch.partitioned.predicted import memory, predict
    from paceline.torch.partitioned.predicted.orders import in_flight
    from paceline.torch.partitioned.segments import Segment, divide
    from paceline.torch.partitioned.update import NOTHING

    best = predict.cut

    def cut(chain: Any, channels: Sequence[Any], limits: Any) -> list[int]:
        possible = [place for place in range(1, len(chain.forward)) if math.isfinite(chain.up[place])]
        if len(possible) < len(channels):
            return best(chain, channels, limits)
        return [*sorted(random.Random(training.cuts).sample(possible, len(channels))), len(chain.forward)]

    def segments(chain: Any, own: Mapping[int, tuple[int, int]], order: Any, room: float, budget: Any) -> Any:
        found = {}
        for stage, (begin, end) in own.items():
            if training.activations == "keep":
                found[stage] = (Segment(begin, end, "keep"),)
                continue
            times = in_flight(order, stage)
            room = training.kept * times * sum(chain.saved[begin:end])
            found[stage] = divide(chain, begin, end, times, room, budget.beyond)
        return found

    with (
        patch.object(build, "measured_update", lambda *_: NOTHING),
        patch.object(profile, "_ROUNDS", 1),
        patch.object(predict, "cut", cut),
        patch.object(memory, "_segments", segments),
        patch.multiple(activation_file, _LEAST=1, _TRIAL=1 << 20, _in_memory=lambda _: False),
    ):
        yield
