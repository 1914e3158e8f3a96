"""Bars for the predicted times of several algorithms on one network, with T* drawn through them."""

from __future__ import annotations

from collections.abc import Sequence

import drawsvg

from paceline.formats.sizes import show_bytes, show_seconds
from paceline.formats.svg_style import ACCENT, FAINT, FONT, INK, PAPER, WARNING, shortened, text_width
from paceline.plan.bound import Bound
from paceline.plan.cost import Cost

_ROW, _BAR, _LEFT, _WIDTH, _TOP = 28, 18, 150, 460, 78


def chart(costs: Sequence[Cost], bound: Bound, title: str) -> drawsvg.Drawing:
    """Return the chart, with the quickest algorithm at the top; its method `save_svg` writes it."""
    ordered = sorted(costs, key=lambda cost: cost.seconds)
    slowest = max((cost.seconds for cost in costs), default=0.0) or 1.0
    width, height = _LEFT + _WIDTH + 170, _TOP + _ROW * len(ordered) + 16
    drawing = drawsvg.Drawing(width, height, font_family=FONT)
    drawing.append(drawsvg.Rectangle(0, 0, width, height, fill=PAPER))
    drawing.append(drawsvg.Text(shortened(title, 60), 16, 16, 26, fill=INK, font_weight="bold"))
    nbytes = show_bytes(ordered[0].nbytes) if ordered else ""
    drawing.append(drawsvg.Text(f"all-reduce of {nbytes}, predicted", 12, 16, 45, fill=FAINT))
    for row, cost in enumerate(ordered):
        top = _TOP + _ROW * row
        long = _WIDTH * cost.seconds / slowest
        drawing.append(drawsvg.Text(cost.algorithm, 13, _LEFT - 10, top + 14, text_anchor="end", fill=INK))
        drawing.append(drawsvg.Rectangle(_LEFT, top, long, _BAR, rx=3, fill=ACCENT))
        ratio = f", {cost.seconds / bound.seconds:.2f} × T*" if bound.seconds else ""
        label = f"{show_seconds(cost.seconds)}{ratio}"
        drawing.append(drawsvg.Text(label, 12, _LEFT + long + 8, top + 14, fill=INK))
    at = _LEFT + _WIDTH * bound.seconds / slowest
    bottom = _TOP + _ROW * len(ordered) - _ROW + _BAR + 4
    drawing.append(drawsvg.Line(at, _TOP - 6, at, bottom, stroke=WARNING, stroke_width=2, stroke_dasharray="5 3"))
    name = f"T* {show_seconds(bound.seconds)}"
    middle = min(max(at, text_width(name, 12) / 2), width - text_width(name, 12) / 2)
    drawing.append(drawsvg.Text(name, 12, middle, _TOP - 11, text_anchor="middle", fill=WARNING))
    return drawing
