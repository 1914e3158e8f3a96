"""A predicted step as a picture: what each partition does when, to the optimizer, and what crosses cuts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from textwrap import wrap

import drawsvg

from paceline.formats.sizes import show_bytes, show_seconds
from paceline.formats.svg_style import BOX, FAINT, FONT, INK, PAPER, SERIES, ink_on, shortened, text_width
from paceline.torch.partitioned.predicted.decide import Decision
from paceline.torch.partitioned.predicted.predict import Prediction

_LEFT, _WIDTH, _RIGHT, _TOP = 150, 720, 24, 64
"""Pixels of the left margin, a step, the right margin, and what is above the rows."""
_ROW, _BAR, _LINE = 34, 26, 16
"""Pixels of a row, of a bar in it, and of a line of text."""
_NAMES = {"F": "forward", "B": "backward", "I": "gradients of inputs", "W": "gradients of weights"}
_COLOURS = dict(zip(_NAMES, SERIES, strict=False))
_EXCHANGE, _UPDATE = SERIES[4:6]
_LONGEST_NAME = 40
"""Characters of a call's name."""


def draw(decision: Decision, title: str, names: Sequence[str]) -> drawsvg.Drawing:
    """Return the picture of the best shape's step; `save_svg` writes it.

    title: the model and the network. names: of the model's calls.
    """
    best = decision.best
    lines = wrap(f"{decision.reason}.", 130)
    top = _TOP + _LINE * (len(lines) - 1)
    cuts = list(_cuts(best, names))
    below = top + _ROW * len(best.memory) + 18
    width, height = _LEFT + _WIDTH + _RIGHT, below + 52 + _LINE * (len(cuts) + bool(cuts))
    drawing = drawsvg.Drawing(width, height, font_family=FONT)
    drawing.append(drawsvg.Rectangle(0, 0, width, height, fill=PAPER))
    drawing.append(drawsvg.Text(shortened(title, 80), 16, 16, 26, fill=INK, font_weight="bold"))
    for number, line in enumerate(lines):
        drawing.append(drawsvg.Text(line, 11, 16, 46 + _LINE * number, fill=FAINT))
    scale = _WIDTH / best.seconds if best.seconds else 0.0
    for partition, spans in enumerate(best.steps.spans):
        y = top + _ROW * partition
        drawing.append(drawsvg.Text(f"partition {partition}", 12, 16, y + 12, fill=INK))
        drawing.append(drawsvg.Text(show_bytes(best.memory[partition]), 10, 16, y + 25, fill=FAINT))
        drawing.append(drawsvg.Rectangle(_LEFT, y, _WIDTH, _BAR, fill=BOX))
        for span in spans:
            x, long = _LEFT + scale * span.begin, scale * (span.end - span.begin)
            colour = _COLOURS[span.action.kind]
            drawing.append(drawsvg.Rectangle(x, y, long, _BAR, fill=colour, stroke=PAPER, stroke_width=0.5))
            label = str(span.action.microbatch)
            if text_width(label, 10) < long:
                middle = x + long / 2
                ink = ink_on(colour)
                drawing.append(drawsvg.Text(label, 10, middle, y + 17, text_anchor="middle", fill=ink))
        end, ready = spans[-1].end, best.exchanged[partition]
        for begin, long, colour in ((end, ready - end, _EXCHANGE), (ready, best.updates[partition], _UPDATE)):
            if long > 0:
                drawing.append(drawsvg.Rectangle(_LEFT + scale * begin, y, scale * long, _BAR, fill=colour))
    _legend(drawing, decision, below)
    if cuts:
        y = below + 46
        drawing.append(drawsvg.Text("Cuts, and what crosses them in every microbatch:", 11, _LEFT, y, fill=INK))
        for number, line in enumerate(cuts, 1):
            drawing.append(drawsvg.Text(line, 11, _LEFT, y + _LINE * number, fill=FAINT))
    return drawing


def _legend(drawing: drawsvg.Drawing, decision: Decision, y: float) -> None:
    best = decision.best
    kinds = {span.action.kind for spans in best.steps.spans for span in spans}
    entries = [(name, _COLOURS[kind]) for kind, name in _NAMES.items() if kind in kinds]
    if best.until_exchanged > best.steps.seconds:
        entries.append(("exchange of gradients", _EXCHANGE))
    if any(best.updates):
        entries.append(("optimizer", _UPDATE))
    x = float(_LEFT)
    for name, colour in entries:
        drawing.append(drawsvg.Rectangle(x, y - 9, 10, 10, fill=colour))
        drawing.append(drawsvg.Text(name, 11, x + 15, y, fill=INK))
        x += 35 + text_width(name, 11)
    note = f"A step is {show_seconds(best.seconds)} wide; numbers are microbatches; {best.steps.bubble:.1%} bubble."
    drawing.append(drawsvg.Text(note, 11, _LEFT, y + 22, fill=FAINT))


def _cuts(best: Prediction, names: Sequence[str]) -> Iterator[str]:
    """A line for each cut."""
    for number, (before, behind) in enumerate(pairwise(best.stages)):
        stages = f"stage {number} to {number + 1}, behind {shortened(names[before.end - 1], _LONGEST_NAME)}"
        way = (
            f"partition {before.partition} to {behind.partition}"
            if before.partition != behind.partition
            else f"within partition {before.partition}"
        )
        ahead, back = show_bytes(round(behind.received)), show_bytes(round(before.returned))
        yield f"{stages} ({way}): {ahead} of activations, {back} of gradients"
