"""The answers as a picture: curves of the efficiency with bands over ranks, and bars that say where a step goes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import drawsvg

from paceline.formats.sizes import show_seconds
from paceline.formats.svg_style import FAINT, FONT, INK, LINE, PAPER, SERIES, ink_on, shortened
from paceline.simulate.answer import INTERVAL, Answer
from paceline.simulate.job import PARTS

_WIDTH, _LEFT, _RIGHT = 960, 310, 96
_CURVES, _TOP = 260, 64
_ROW, _BAR = 26, 18
_PARTS = dict(zip(PARTS, ("#cbd5e1", *SERIES), strict=True))
_LEAST_LABEL = 0.07
"""The share of a bar from which it has room for its number."""


def draw(answers: Sequence[Answer], title: str) -> drawsvg.Drawing:
    """Return the picture; its method `as_svg` gives the SVG. `answers` must not be empty."""
    curves = _curves_of(answers)
    several = any(len(curve) > 1 for curve in curves.values())
    bars = _TOP + (_CURVES + 80 if several else 20)
    height = bars + 30 + _ROW * len(answers) + 16
    drawing = drawsvg.Drawing(_WIDTH, height, font_family=FONT)
    drawing.append(drawsvg.Rectangle(0, 0, _WIDTH, height, fill=PAPER))
    drawing.append(drawsvg.Text(title, 16, 16, 28, fill=INK, font_weight="bold"))
    if several:
        _curves(drawing, curves, _TOP)
    _bars(drawing, answers, bars)
    return drawing


def _curves_of(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    """The answers of each policy and algorithm, if ranks are what differs between them."""
    algorithms = {each.algorithm for each in answers}
    found: dict[str, list[Answer]] = {}
    for each in answers:
        found.setdefault(f"{each.policy}, {each.algorithm}" if len(algorithms) > 1 else each.policy, []).append(each)
    single = all(len({each.ranks for each in curve}) == len(curve) for curve in found.values())
    return found if single else {}


def _curves(drawing: drawsvg.Drawing, curves: dict[str, list[Answer]], top: float) -> None:
    ranks = sorted({each.ranks for curve in curves.values() for each in curve})
    low, high = math.log2(ranks[0]), math.log2(ranks[-1])
    left, width = 64, _WIDTH - 64 - 170
    most = max(each.alone / each.low for curve in curves.values() for each in curve)
    most = min(1.0, math.ceil(10 * most) / 10)

    def at(count: int) -> float:
        return left + width * (math.log2(count) - low) / (high - low)

    def tall(efficiency: float) -> float:
        return top + _CURVES * (1 - min(efficiency, most) / most)

    drawing.append(
        drawsvg.Text(
            f"efficiency of the mean step, and the band of {INTERVAL} % of the steps", 12, 16, top - 14, fill=FAINT
        )
    )
    for tenth in range(round(10 * most) + 1):
        if tenth % (2 if most > 0.5 else 1) == 0:
            y = tall(tenth / 10)
            drawing.append(drawsvg.Line(left, y, left + width, y, stroke=LINE, stroke_width=0.5))
            drawing.append(drawsvg.Text(f"{10 * tenth} %", 11, left - 6, y + 4, text_anchor="end", fill=FAINT))
    step = math.ceil(len(ranks) / 12)
    for count in ranks[::step]:
        drawing.append(drawsvg.Text(str(count), 11, at(count), top + _CURVES + 18, text_anchor="middle", fill=FAINT))
    drawing.append(drawsvg.Text("ranks", 12, left + width / 2, top + _CURVES + 38, text_anchor="middle", fill=FAINT))
    labels: list[float] = []
    for number, (name, curve) in enumerate(sorted(curves.items(), key=lambda item: -item[1][-1].efficiency)):
        colour = SERIES[number % len(SERIES)]
        above = [(at(each.ranks), tall(each.alone / each.low)) for each in curve]
        below = [(at(each.ranks), tall(each.alone / each.high)) for each in curve]
        corners = [value for point in (*above, *reversed(below)) for value in point]
        drawing.append(drawsvg.Lines(*corners, close=True, fill=colour, fill_opacity=0.15))
        line = [value for each in curve for value in (at(each.ranks), tall(each.efficiency))]
        drawing.append(drawsvg.Lines(*line, stroke=colour, stroke_width=2.5, fill="none"))
        y = max([tall(curve[-1].efficiency), *(label + 16 for label in labels[-1:])])
        labels.append(y)
        drawing.append(drawsvg.Text(name, 12, left + width + 10, y + 4, fill=colour, font_weight="bold"))


def _bars(drawing: drawsvg.Drawing, answers: Sequence[Answer], top: float) -> None:
    shown = [part for part in PARTS if any(each.shares[part] >= 5e-4 for each in answers)]
    x = 16.0
    for part in shown:
        drawing.append(drawsvg.Rectangle(x, top - 11, 12, 12, fill=_PARTS[part]))
        name = part.replace("_", " ")
        drawing.append(drawsvg.Text(name, 12, x + 17, top, fill=INK))
        x += 40 + 7.2 * len(name)
    labels = _labels(answers)
    longest = max(each.step.seconds for each in answers)
    width = _WIDTH - _LEFT - _RIGHT
    for row, each in enumerate(answers):
        y = top + 20 + _ROW * row
        drawing.append(drawsvg.Text(shortened(labels[row], 44), 12, _LEFT - 10, y + 13, text_anchor="end", fill=INK))
        begin = float(_LEFT)
        for part in shown:
            share = each.shares[part]
            long = width * share * each.step.seconds / longest
            if long <= 0:
                continue
            drawing.append(drawsvg.Rectangle(begin, y, long, _BAR, fill=_PARTS[part]))
            if long / width >= _LEAST_LABEL:
                ink = ink_on(_PARTS[part])
                drawing.append(
                    drawsvg.Text(f"{share:.0%}", 11, begin + long / 2, y + 13, text_anchor="middle", fill=ink)
                )
            begin += long
        drawing.append(drawsvg.Text(show_seconds(each.step.seconds), 12, begin + 8, y + 13, fill=INK))


def _labels(answers: Sequence[Answer]) -> list[str]:
    """Return the words that tell the answers apart: all that is not the same in all of them, and the ranks anyway."""
    words = [
        (f"{each.ranks} ranks", each.network, each.policy, each.algorithm if each.algorithm != each.policy else "")
        for each in answers
    ]
    ranks, *others = zip(*words, strict=True)
    networks = others[0] if len({*others[0]}) > len({*ranks}) else ("",) * len(answers)
    first = networks if any(networks) else ranks
    told = [first, *(column for column in others[1:] if len({*column}) > 1)]
    return [", ".join(filter(None, row)) for row in zip(*told, strict=True)]
