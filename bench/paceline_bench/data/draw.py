"""The steps of several networks as stacked bars: what share each of the paper's six categories takes."""

from __future__ import annotations

from collections.abc import Sequence

import drawsvg

from paceline.formats.svg_style import FAINT, FONT, INK, PAPER, SERIES, ink_on, text_width
from paceline_bench.data.measure import CATEGORIES, Row

_BAR, _GAP, _BETWEEN = 16, 5, 18
"""Heights of a bar, of the space below it, and of that between networks, in pixels."""
_LEFT, _WIDTH, _RIGHT, _TOP = 210, 480, 130, 100
_SMALL = 11


def chart(rows: Sequence[Row]) -> drawsvg.Drawing:
    """Return the chart, a group of bars for each network; a master's step is as long as the chart is wide."""
    models = list(dict.fromkeys(row.model for row in rows))
    longest = max(1.0, *(row.step_ms / _master(row, rows) for row in rows))
    width, height = _LEFT + _WIDTH + _RIGHT, _TOP + len(rows) * (_BAR + _GAP) + len(models) * _BETWEEN
    drawing = drawsvg.Drawing(width, height, font_family=FONT)
    drawing.append(drawsvg.Rectangle(0, 0, width, height, fill=PAPER))
    drawing.append(drawsvg.Text("A training step", 16, 16, 26, fill=INK, font_weight="bold"))
    devices = f"{rows[0].devices} devices; bars are relative to the master's step" if rows else ""
    drawing.append(drawsvg.Text(devices, 12, 16, 45, fill=FAINT))
    _legend(drawing)
    top = _TOP
    for model in models:
        for number, row in enumerate(one for one in rows if one.model == model):
            if not number:
                drawing.append(drawsvg.Text(model, 12, 16, top + 12, fill=INK, font_weight="bold"))
            drawing.append(drawsvg.Text(row.approach, _SMALL, _LEFT - 8, top + 12, text_anchor="end", fill=INK))
            _bar(drawing, row, top, _WIDTH / longest / _master(row, rows))
            top += _BAR + _GAP
        top += _BETWEEN
    return drawing


def _master(row: Row, rows: Sequence[Row]) -> float:
    """The milliseconds of the master's step with the same network."""
    return next((one.step_ms for one in rows if (one.model, one.approach) == (row.model, "master")), row.step_ms) or 1.0


def _bar(drawing: drawsvg.Drawing, row: Row, top: float, scale: float) -> None:
    """Draw a step. scale: pixels of a millisecond."""
    left = float(_LEFT)
    parts = [getattr(row, name) for name in CATEGORIES]
    # The categories are the first device's, and the step is the slowest one's: the bar is as long as the step.
    stretch = row.step_ms / (sum(parts) or 1.0) * scale
    for part, colour in zip(parts, SERIES, strict=True):
        long = part * stretch
        drawing.append(drawsvg.Rectangle(left, top, long, _BAR, fill=colour))
        label = f"{part:.0f}"
        if long > text_width(label, _SMALL) + 4:
            middle = left + long / 2
            text = drawsvg.Text(label, _SMALL, middle, top + 12, text_anchor="middle", fill=ink_on(colour))
            drawing.append(text)
        left += long
    drawing.append(drawsvg.Text(f"{row.step_ms:.0f} ms", _SMALL, left + 6, top + 12, fill=INK))


def _legend(drawing: drawsvg.Drawing) -> None:
    left = 16.0
    for name, colour in zip(CATEGORIES.values(), SERIES, strict=True):
        drawing.append(drawsvg.Rectangle(left, 64, 12, 12, fill=colour))
        drawing.append(drawsvg.Text(name, 12, left + 17, 74, fill=INK))
        left += 17 + text_width(name, 12) + 22
