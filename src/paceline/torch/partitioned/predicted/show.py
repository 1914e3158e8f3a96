"""A decision in the terminal: the shapes side by side, and the stages of the best one."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from paceline.formats.sizes import show_bytes, show_seconds
from paceline.formats.svg_style import shortened
from paceline.torch.partitioned.layout import Layout
from paceline.torch.partitioned.predicted.decide import Decision
from paceline.torch.partitioned.predicted.predict import Prediction

_MOST_SHAPES = 12
"""Shapes that the table shows, the quickest ones."""
_LONGEST_NAME = 12
"""Characters of a call's name."""
_SIDES = {"partitions": "part.", "replicas": "repl."}


def shapes(decision: Decision) -> Table:
    """Return a table of the quickest shapes that fit, the chosen one marked."""
    table = Table(title="shapes, and what shares machines", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("part. × repl.", justify="right", no_wrap=True)
    for name in ("microbatches", "step", "bubble", "exchange", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    ordered = sorted(decision.predictions, key=lambda one: one.seconds)
    for one in ordered[:_MOST_SHAPES]:
        table.add_row(
            _divided(one.shape.layout),
            str(one.shape.microbatches),
            show_seconds(one.seconds),
            f"{one.steps.bubble:.1%}",
            show_seconds(one.until_exchanged - one.steps.seconds),
            show_bytes(max(one.memory)),
            "chosen" if one is decision.best else "",
        )
    if len(ordered) > _MOST_SHAPES:
        table.add_row(f"{len(ordered) - _MOST_SHAPES} more")
    return table


def _divided(layout: Layout) -> str:
    several = layout.partitions > 1 and layout.replicas > 1
    return f"{layout.partitions} × {layout.replicas}" + f" {_SIDES[layout.side_by_side]}" * several


def stages(best: Prediction, names: Sequence[str]) -> Table:
    """Return a table of the stages. names: of the model's calls. "comes in" are activations, and gradients from behind;
    "kept" is the share of activations that is kept in memory."""
    table = Table(title="stages, each for one microbatch", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("stage", justify="right", no_wrap=True)
    table.add_column("to the call", no_wrap=True)
    for name in ("forward", "backward", "comes in", "weights", "kept", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    for number, stage in enumerate(best.stages):
        table.add_row(
            str(number) if number == stage.partition else f"{number} on {stage.partition}",
            shortened(names[stage.end - 1], _LONGEST_NAME),
            show_seconds(stage.forward),
            show_seconds(stage.backward + stage.restored),
            show_bytes(round(stage.received + stage.returned)),
            show_bytes(round(stage.weights)),
            f"{stage.kept:.0%}",
            show_bytes(best.memory[stage.partition]),
        )
    return table
