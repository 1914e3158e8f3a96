"""A plan as a picture: what every rank sends and combines, level by level, and how busy that keeps the links.

Rows are ranks, and the width is the buffer. For every Reduce its range is marked in the rows of its holders and filled
in the owner's row, with arrows to it. Where there are many ranks, a row shows a whole machine, without arrows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import drawsvg

from paceline.formats.sizes import show_bytes, show_seconds
from paceline.formats.svg_style import (
    BOX,
    FAINT,
    FONT,
    INK,
    LINE,
    PAPER,
    SERIES,
    WARNING,
    shortened,
    shortened_host,
    text_width,
)
from paceline.plan.bound import Bound
from paceline.plan.cost import Cost, LevelCost, LinkCost
from paceline.plan.ir import Reduce
from paceline.plan.network import Network
from paceline.plan.outline import Outline, Step

MOST_RANKS = 24
"""Ranks that have a row each; with more ranks, the rows are machines."""
MOST_ROWS = 16
"""Machines that have a row each."""
MOST_LEVELS = 8
"""Steps of an outline that are drawn."""
_MOST_LINKS = 12
"""Links that are drawn, the busiest ones."""
_SAMPLES = 240
"""Points of the buffer at which a machine's row is sampled."""

_LEFT, _BUFFER, _RIGHT = 150, 640, 24
"""Pixels of the left margin, the buffer and the right margin."""
_ROW, _GAP = 20, 6
"""Pixels of a row, and between machines."""
_ARROWS = 9
"""Pixels that a range must be wide to have arrows."""


@dataclass(frozen=True, slots=True)
class _Row:
    """Ranks that share a row; `group` is their machine's number, whose first row has the machine's name as heading."""

    label: str
    ranks: range
    group: int
    heading: str = ""


def draw(lines: Outline, network: Network, cost: Cost, bound: Bound) -> drawsvg.Drawing:
    """Return the picture of the plan that `lines` outlines; its method `save_svg` writes it.

    cost, bound: the cost and the bound of the same plan on the same network.
    """
    return _Picture(lines, network, cost, bound).drawing


class _Picture:
    def __init__(self, lines: Outline, network: Network, cost: Cost, bound: Bound) -> None:
        self.rows = list(_rows(network))
        self.row_of = [0] * network.world
        for number, row in enumerate(self.rows):
            self.row_of[row.ranks.start : row.ranks.stop] = [number] * len(row.ranks)
        self.folded = any(len(row.ranks) > 1 for row in self.rows)
        self.tops = [0.0]
        for row, below in pairwise(self.rows):
            self.tops.append(self.tops[-1] + _ROW + (_GAP if row.group != below.group else 0))
        panel = self.tops[-1] + _ROW + 48
        shown = lines.steps[:MOST_LEVELS]
        busiest = sorted((link for link in cost.links if link.kind != "rank"), key=lambda link: -link.seconds)
        busiest = (busiest or sorted(cost.links, key=lambda link: -link.seconds))[:_MOST_LINKS]
        more = len(lines.steps) - len(shown)
        height = 84 + panel * len(shown) + (20 if more else 0) + 64 + 24 * len(busiest)
        width = _LEFT + _BUFFER + _RIGHT
        self.drawing = drawsvg.Drawing(width, height, font_family=FONT)
        self.drawing.append(drawsvg.Rectangle(0, 0, width, height, fill=PAPER))
        self._header(cost, network, bound)
        y = 84.0
        number = 0
        for step, level in zip(shown, cost.levels, strict=False):
            self._panel(step, level, number, y)
            number += step.times
            y += panel
        if more:
            self._text(f"… and {more} more levels", 12, _LEFT, y, FAINT)
            y += 20
        self._links(busiest, len(cost.links), cost, bound, y + 12)

    def _header(self, cost: Cost, network: Network, bound: Bound) -> None:
        topology = shortened(network.topology.name, 40)
        self._text(
            f"{cost.algorithm} on {topology}: {show_bytes(cost.nbytes)}, {network.world} ranks", 16, 16, 26, INK, True
        )
        ratio = f", T* {show_seconds(bound.seconds)}, ratio {cost.seconds / bound.seconds:.2f}" if bound.seconds else ""
        self._text(f"predicted {show_seconds(cost.seconds)}{ratio}", 12, 16, 46, INK)
        row = "A row is a machine, the width is the buffer." if self.folded else "The width is the buffer."
        note = "Pale: sends its copy; full: combines the copies. Then the same backwards, as all-gather."
        self._text(f"{row} {note}", 11, 16, 64, FAINT)

    def _panel(self, step: Step, level: LevelCost, number: int, y: float) -> None:
        last = number + step.times - 1
        which = f"levels {number}–{last}, each like this" if step.times > 1 else f"level {number}"
        seconds = show_seconds(level.reduce_scatter + level.latency)
        self._text(f"{which}", 13, 16, y + 14, INK, True)
        self._text(f"{level.messages} messages, {seconds}", 11, 28 + text_width(which, 13, True), y + 14, FAINT)
        y += 24
        for row, top in zip(self.rows, self.tops, strict=True):
            self._text(row.label, 11, _LEFT - 8, y + top + 14, INK, end=True)
            if row.heading:
                self._text(row.heading, 11, 16, y + top + 14, INK, True)
                colour = SERIES[row.group % len(SERIES)]
                self.drawing.append(drawsvg.Rectangle(5, y + top + 6, 8, 8, rx=2, fill=colour))
            self._box(0, 1, y + top, BOX, 1.0)
        if self.folded:
            self._samples(step, y)
        else:
            self._cells(step, y)

    def _cells(self, step: Step, y: float) -> None:
        for call in step.level:
            lo, hi = float(call.range.lo), float(call.range.hi)
            for holder in call.holders:
                if holder != call.owner:
                    self._box(lo, hi, y + self.tops[self.row_of[holder]], self._colour(call), 0.28)
            self._box(lo, hi, y + self.tops[self.row_of[call.owner]], self._colour(call), 1.0)
        for call in step.level:
            self._arrows(call, y)

    def _arrows(self, call: Reduce, y: float) -> None:
        if (call.range.hi - call.range.lo) * _BUFFER < _ARROWS:
            return
        x = _LEFT + _BUFFER * float(call.range.lo + call.range.hi) / 2
        own = self.tops[self.row_of[call.owner]]
        tops = [self.tops[self.row_of[holder]] for holder in call.holders if holder != call.owner]
        for far, edge, point in ((min(tops, default=own), own, -5), (max(tops, default=own), own + _ROW - 4, 5)):
            if far == own or (far > own) != (point > 0):
                continue
            path = drawsvg.Path(stroke=INK, stroke_width=1.2, fill="none").M(x, y + far + 8).L(x, y + edge + point)
            self.drawing.append(path)
            head = drawsvg.Lines(
                x - 3.5, y + edge + point, x + 3.5, y + edge + point, x, y + edge, close=True, fill=INK
            )
            self.drawing.append(head)
        for top in tops:
            self.drawing.append(drawsvg.Circle(x, y + top + 8, 2.2, fill=INK))

    def _samples(self, step: Step, y: float) -> None:
        held: set[tuple[int, int]] = set()
        owned: dict[tuple[int, int], Reduce] = {}
        for call in step.level:
            first, last = (math.ceil(float(end) * _SAMPLES - 0.5) for end in (call.range.lo, call.range.hi))
            if first < last:
                rows = {self.row_of[holder] for holder in call.holders}
                held.update((row, sample) for row in rows for sample in range(first, last))
                owned.update(((self.row_of[call.owner], sample), call) for sample in range(first, last))
        for number, row in enumerate(self.rows):
            top = y + self.tops[number]
            colour = SERIES[row.group % len(SERIES)]
            for first, last in _runs(sample for sample in range(_SAMPLES) if (number, sample) in held):
                self._box(first / _SAMPLES, last / _SAMPLES, top, colour, 0.28)
            for first, last in _runs(sample for sample in range(_SAMPLES) if (number, sample) in owned):
                self._box(first / _SAMPLES, last / _SAMPLES, top, colour, 1.0)

    def _colour(self, call: Reduce) -> str:
        return SERIES[self.rows[self.row_of[call.owner]].group % len(SERIES)]

    def _links(self, links: Sequence[LinkCost], total: int, cost: Cost, bound: Bound, y: float) -> None:
        self._text("links", 13, 16, y + 14, INK, True)
        self._text(f"the busiest of {total}, both halves, bytes each way", 11, 64, y + 14, FAINT)
        y += 28
        longest = max([bound.seconds, *(link.seconds for link in links)]) or 1.0
        room = _BUFFER - 150
        for row, link in enumerate(links):
            top = y + 24 * row
            long = room * link.seconds / longest
            self._text(shortened_host(link.name, 18), 11, _LEFT - 8, top + 13, INK, end=True)
            self.drawing.append(drawsvg.Rectangle(_LEFT, top, long, 16, rx=3, fill=FAINT))
            self._text(
                f"{show_bytes(round(link.bytes))}, {show_seconds(link.seconds)}", 11, _LEFT + long + 8, top + 13, INK
            )
        if bound.seconds:
            at = _LEFT + room * bound.seconds / longest
            bottom = y + 24 * len(links)
            self.drawing.append(
                drawsvg.Line(at, y - 4, at, bottom, stroke=WARNING, stroke_width=1.5, stroke_dasharray="5 3")
            )
            self._text("T*", 11, at - 4, bottom + 11, WARNING)

    def _box(self, lo: float, hi: float, y: float, colour: str, opacity: float) -> None:
        inset = 0.5 if (hi - lo) * _BUFFER > 4 else 0.0
        self.drawing.append(
            drawsvg.Rectangle(
                _LEFT + lo * _BUFFER + inset,
                y,
                (hi - lo) * _BUFFER - 2 * inset,
                _ROW - 4,
                fill=colour,
                fill_opacity=opacity,
                stroke=LINE if colour == BOX else "none",
                stroke_width=0.5,
            )
        )

    def _text(
        self, text: str, size: float, x: float, y: float, colour: str, bold: bool = False, end: bool = False
    ) -> None:
        weight, anchor = "bold" if bold else "normal", "end" if end else "start"
        self.drawing.append(drawsvg.Text(text, size, x, y, fill=colour, font_weight=weight, text_anchor=anchor))


def _rows(network: Network) -> Iterator[_Row]:
    machines = [(node.name, ranks) for node, ranks in network.topology.machines() if ranks]
    if network.world <= MOST_RANKS:
        for group, (name, ranks) in enumerate(machines):
            for rank in ranks:
                yield _Row(
                    f"rank {rank}", range(rank, rank + 1), group, shortened_host(name, 10) if rank == ranks[0] else ""
                )
        return
    alone = machines if len(machines) <= MOST_ROWS else machines[: MOST_ROWS - 1]
    for group, (name, ranks) in enumerate(alone):
        yield _Row(shortened_host(name, 18), ranks, group)
    if len(alone) < len(machines):
        rest = range(alone[-1][1].stop, network.world)
        yield _Row(f"{len(machines) - len(alone)} more machines", rest, len(alone))


def _runs(samples: Iterator[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring numbers as [first, last + 1)."""
    first = last = -1
    for sample in samples:
        if sample != last:
            if last > first >= 0:
                yield first, last
            first = sample
        last = sample + 1
    if last > first >= 0:
        yield first, last
