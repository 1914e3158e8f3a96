"""The part of `paceline plan` that divides a model among the ranks of a network, which needs torch."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drawsvg
from rich.console import Console
from rich.text import Text

from paceline.topology import Topology
from paceline.topology.discover import Placement

if TYPE_CHECKING:
    from paceline.torch.partitioned.predicted.decide import Decision


@dataclass(frozen=True)
class ModelPlan:
    """The plan that was found: `picture` draws it, `rows` are for programs."""

    picture: Callable[[], drawsvg.Drawing]
    rows: list[dict[str, Any]]


def plan_model(name: str, topology: Topology, available: float, schedule: str, console: Console) -> ModelPlan:
    """Measure a model here, print how it would best be divided on this network, and return it.

    name: MODULE:FUNCTION, the only code that is imported; the function returns a model and an example of a batch of all
    replicas. available: bytes of each rank. Raises ValueError in one sentence.
    """
    if importlib.util.find_spec("torch") is None:
        raise ValueError("--model needs torch, which is not installed")
    from paceline.torch.compat import PIPELINES, torch_version

    if torch_version() < PIPELINES:
        raise ValueError(f"--model needs torch {'.'.join(map(str, PIPELINES))} or a newer one")
    from paceline.torch.partitioned.budget import Budget
    from paceline.torch.partitioned.chain import chain
    from paceline.torch.partitioned.cut import CannotCut, Chain
    from paceline.torch.partitioned.predicted import show
    from paceline.torch.partitioned.predicted.decide import decide
    from paceline.torch.partitioned.predicted.draw import draw
    from paceline.torch.partitioned.predicted.shape import Wanted
    from paceline.torch.partitioned.profile import profile
    from paceline.torch.partitioned.proof import proved
    from paceline.torch.partitioned.update import measured_update
    from paceline.torch.partitioned.values import batch_size, tensors_of

    model, example = _made(name)
    inputs = tensors_of(example)
    batch = batch_size(inputs)
    placement = Placement(topology, tuple(range(topology.world)))
    shapes = Wanted(None, None, None, schedule, batch, together=True).shapes(placement)
    graph = proved(model, inputs, set())

    @cache
    def chains(samples: int) -> Chain:
        return chain(graph, profile(graph, inputs, samples, available))

    budget = Budget(available, update=measured_update(available))
    try:
        decision = decide(shapes, chains, placement, budget)
    except CannotCut as error:
        raise ValueError(f"{type(model).__name__} can't be divided among {topology.world} ranks: {error}") from None
    title = f"{type(model).__name__} on {topology.name}, {topology.world} ranks, batch {batch}"
    console.print(Text(title, "bold"), soft_wrap=True)
    console.print(decision.reason, soft_wrap=True)
    console.print(show.shapes(decision))
    console.print(show.stages(decision.best, graph.names))
    return ModelPlan(lambda: draw(decision, title, graph.names), _rows(decision))


def _made(name: str) -> tuple[Any, Any]:
    module, _, function = name.partition(":")
    if not module or not function:
        raise ValueError(f"--model is MODULE:FUNCTION, found {name!r:.80}")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # as for `python -m`
    try:
        made = getattr(importlib.import_module(module), function)()
    except Exception as error:
        raise ValueError(f"--model {name}: {type(error).__name__}: {error}") from error
    if not isinstance(made, tuple) or len(made) != 2:
        raise ValueError(f"{name} returns {type(made).__name__}, and has to return a model and an example of its input")
    return made


def _rows(decision: Decision) -> list[dict[str, Any]]:
    """One row for each shape that fits; seconds, bytes of each partition's rank, and of each stage bytes and the share
    of its activations that is kept."""
    return [
        {
            "partitions": one.shape.layout.partitions,
            "replicas": one.shape.layout.replicas,
            "side_by_side": one.shape.layout.side_by_side,
            "microbatches": one.shape.microbatches,
            "schedule": one.shape.schedule.name,
            "seconds": one.seconds,
            "bubble": one.steps.bubble,
            "bytes": list(one.memory),
            "kept": [stage.kept for stage in one.stages],
            "received_bytes": [round(stage.received) for stage in one.stages],
            "returned_bytes": [round(stage.returned) for stage in one.stages],
            "update_seconds": list(one.updates),
            "chosen": one is decision.best,
        }
        for one in decision.predictions
    ]
