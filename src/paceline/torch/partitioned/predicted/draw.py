"""A predicted step as a picture: what each partition does when, and when its gradients are exchanged."""

from __future__ import annotations

from textwrap import wrap

import drawsvg

from paceline.formats.sizes import show_bytes, show_seconds
from paceline.formats.svg_style import BOX, FAINT, FONT, INK, PAPER, SERIES, ink_on, shortened, text_width
from paceline.torch.partitioned.predicted.decide import Decision

_LEFT, _WIDTH, _RIGHT, _TOP = 150, 720, 24, 64
"""Pixels of the left margin, a step, the right margin, and what is above the rows."""
_ROW, _BAR, _LINE = 34, 26, 16
"""Pixels of a row, of a bar in it, and of a line of text."""
_NAMES = {"F": "forward", "B": "backward", "I": "gradients of inputs", "W": "gradients of weights"}
_COLOURS = dict(zip(_NAMES, SERIES, strict=False))
_EXCHANGE = SERIES[4]


def draw(decision: Decision, title: str) -> drawsvg.Drawing:
    """Return the picture of the best shape's step; `save_svg` writes it. title: the model and the network."""
    best = decision.best
    lines = wrap(f"{decision.reason}.", 130)
    top = _TOP + _LINE * (len(lines) - 1)
    width, height = _LEFT + _WIDTH + _RIGHT, top + _ROW * len(best.memory) + 70
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
        end = spans[-1].end
        if best.exchanged[partition] > end:
            long = scale * (best.exchanged[partition] - end)
            drawing.append(drawsvg.Rectangle(_LEFT + scale * end, y, long, _BAR, fill=_EXCHANGE))
    _legend(drawing, decision, top + _ROW * len(best.memory) + 18)
    return drawing


def _legend(drawing: drawsvg.Drawing, decision: Decision, y: float) -> None:
    best = decision.best
    kinds = {span.action.kind for spans in best.steps.spans for span in spans}
    entries = [(name, _COLOURS[kind]) for kind, name in _NAMES.items() if kind in kinds]
    if best.seconds > best.steps.seconds:
        entries.append(("exchange of gradients behind the last backward", _EXCHANGE))
    x = float(_LEFT)
    for name, colour in entries:
        drawing.append(drawsvg.Rectangle(x, y - 9, 10, 10, fill=colour))
        drawing.append(drawsvg.Text(name, 11, x + 15, y, fill=INK))
        x += 35 + text_width(name, 11)
    crossing = [stage.received + stage.returned for stage in best.stages]
    most = show_bytes(round(max(crossing)))
    note = f"A step is {show_seconds(best.seconds)} wide; numbers are microbatches; {best.steps.bubble:.1%} bubble; "
    note += f"a stage receives at most {most} of a microbatch."
    drawing.append(drawsvg.Text(note, 11, _LEFT, y + 22, fill=FAINT))
