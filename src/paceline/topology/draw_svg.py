"""Draw a topology as a picture: the root on the left, machines on the right with their ranks, every link labelled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_high

import drawsvg

from paceline.formats.svg_style import (
    ACCENT,
    BOX,
    FAINT,
    FONT,
    INK,
    LINE,
    PAPER,
    WARNING,
    shortened,
    shortened_host,
    text_width,
)
from paceline.topology import labels
from paceline.topology.fold import Part, cut, fold
from paceline.topology.tree import Link, Topology
from paceline.topology.units import show_speed, show_time

MOST_RANKS = 64
"""Ranks up to which a cluster is drawn completely; only as much of a larger one is drawn as fits."""
MOST_NODES = 24
"""Machines and switches up to which each is drawn; where there are more, equal neighbours are drawn as one."""

_TITLE, _TEXT, _SMALL = 13, 12, 11
"""Font sizes in pixels."""
_PAD = 8
"""Pixels around the content of a box."""
_SQUARE, _GAP = 24, 4
"""Pixels of a rank's square, and between squares."""
_PER_ROW = 16
"""Ranks in a row of squares."""
_BETWEEN = 14
"""Pixels between boxes."""
_LONGEST_NAME = 32
"""Characters of a machine's name."""
_SLOWER = 0.95
"""A fraction: a link below this share of the median of its neighbours is marked."""


@dataclass(frozen=True, slots=True)
class _Box:
    """A part with the size of its own box, `width` × `height` pixels, and the height of all below it, `span` pixels."""

    part: Part
    lines: tuple[str, ...]
    width: float
    height: float
    span: float
    children: tuple[_Box, ...]


def draw(topology: Topology) -> drawsvg.Drawing:
    """Return the picture; its method `save_svg` writes it."""
    shown = fold(topology, MOST_NODES)
    return _Picture(topology, shown if topology.world <= MOST_RANKS else cut(shown, MOST_NODES)).drawing


class _Picture:
    def __init__(self, topology: Topology, root: Part) -> None:
        uplinks = [part.uplink for part in root.walk() if part.uplink is not None and part.kind != "rank"]
        slowness = [math.log(_speed(link)) for link in uplinks]
        self._slowest, self._fastest = min(slowness, default=0.0), max(slowness, default=0.0)
        self._marked = False
        box = _measured(root)
        columns = _columns(box)
        head = labels.summary(topology)
        width = max(
            _PAD * 4 + sum(columns), _PAD * 4 + text_width(head, _TEXT), _PAD * 4 + text_width(topology.name, 16)
        )
        height = box.span + 74
        self.drawing = drawsvg.Drawing(width, height, font_family=FONT)
        self.drawing.append(drawsvg.Rectangle(0, 0, width, height, fill=PAPER))
        self._text(shortened(topology.name, 60), 16, 2 * _PAD, 24, INK, bold=True)
        self._text(head, _TEXT, 2 * _PAD, 42, FAINT)
        self._box(box, 2 * _PAD, 52, columns)
        if self._marked:
            note = "orange: slower than the median of such links below the same switch"
            self._text(note, _SMALL, 2 * _PAD, height - 7, WARNING)

    def _box(self, box: _Box, x: float, y: float, columns: Sequence[float]) -> None:
        top = y + (box.span - box.height) / 2
        for behind in (6, 3) if len(box.part.nodes) > 1 else ():
            self._rectangle(x + behind, top + behind, box.width, box.height)
        self._rectangle(x, top, box.width, box.height)
        for number, line in enumerate(box.lines):
            size, colour = (_TITLE, INK) if number == 0 else (_SMALL, FAINT)
            self._text(line, size, x + _PAD, top + 18 + 15 * number, colour, bold=number == 0)
        if box.part.kind != "switch":
            self._inside(box.part, x + _PAD, top + 11 + 15 * len(box.lines))
        if box.children:
            self._below(box, x, y, columns)

    def _below(self, box: _Box, x: float, y: float, columns: Sequence[float]) -> None:
        begin, middle = x + box.width, y + box.span / 2
        trunk, end = x + columns[0] - _reach(box), x + columns[0]
        self._line(f"M {begin} {middle} H {trunk}", LINE, 2.5)
        centres = []
        for child in box.children:
            at = y + child.span / 2
            centres.append(at)
            slow = _slow(child.part, box.children)
            self._marked = self._marked or slow
            self._line(f"M {trunk} {at} H {end}", WARNING if slow else LINE, self._thickness(child.part.uplink))
            above, beneath = _labels(child.part)
            self._text(above, _TEXT, trunk + 8, at - 7, WARNING if slow else INK)
            self._text(beneath, _SMALL, trunk + 8, at + 15, FAINT)
            self._box(child, end, y, columns[1:])
            y += child.span
        self._line(f"M {trunk} {min(middle, *centres)} V {max(middle, *centres)}", LINE, 2.5)

    def _line(self, path: str, colour: str, thickness: float) -> None:
        drawn = drawsvg.Path(d=path, stroke=colour, stroke_width=thickness, fill="none")
        self.drawing.append(drawn)

    def _inside(self, part: Part, x: float, y: float) -> None:
        for child in part.children if not part.ranks_alone() else ():
            self._text(_socket_line(child), _SMALL, x, y + 10, FAINT)
            self._squares(child.ranks, x, y + 16)
            y += 16 + _squares_height(len(child.ranks)) + _GAP
        if part.ranks_alone() and _as_squares(part):
            self._squares(part.ranks, x, y)

    def _squares(self, ranks: range, x: float, y: float) -> None:
        for number, rank in enumerate(ranks):
            row, column = divmod(number, _PER_ROW)
            width = _square_width(ranks)
            left, top = x + column * (width + _GAP), y + row * (_SQUARE + _GAP)
            self.drawing.append(drawsvg.Rectangle(left, top, width, _SQUARE, rx=4, fill=ACCENT))
            label = drawsvg.Text(str(rank), _SMALL, left + width / 2, top + 16, text_anchor="middle", fill=PAPER)
            self.drawing.append(label)

    def _rectangle(self, x: float, y: float, width: float, height: float) -> None:
        self.drawing.append(drawsvg.Rectangle(x, y, width, height, rx=6, fill=BOX, stroke=LINE))

    def _text(self, text: str, size: float, x: float, y: float, colour: str, bold: bool = False) -> None:
        weight = "bold" if bold else "normal"
        self.drawing.append(drawsvg.Text(text, size, x, y, fill=colour, font_weight=weight))

    def _thickness(self, link: Link | None) -> float:
        if link is None or self._fastest == self._slowest:
            return 2.5
        return 1.5 + 3.5 * (math.log(_speed(link)) - self._slowest) / (self._fastest - self._slowest)


def _measured(part: Part) -> _Box:
    name = labels.title(part) if len(part.nodes) > 1 else part.name
    lines = [shortened_host(name, _LONGEST_NAME)]
    if part.kind == "switch" or not _as_squares(part):
        each = f", {len(part.ranks) // len(part.nodes)} each" if len(part.nodes) > 1 and part.alike else ""
        lines.append(f"{labels.ranks(part.ranks)}{each}")
    width = max(text_width(lines[0], _TITLE, bold=True), *(text_width(line, _SMALL) for line in lines))
    height = 2 * _PAD + 15.0 * len(lines)
    children: tuple[_Box, ...] = ()
    if part.kind == "switch":
        children = tuple(_measured(child) for child in part.children)
    elif part.ranks_alone() and _as_squares(part):
        width = max(width, _squares_width(part.ranks))
        height += _squares_height(len(part.ranks)) + 3
    elif not part.ranks_alone():
        for child in part.children:
            width = max(width, _squares_width(child.ranks), text_width(_socket_line(child), _SMALL))
            height += 16 + _squares_height(len(child.ranks)) + _GAP
    width += 2 * _PAD
    below = sum(child.span for child in children)
    return _Box(part, tuple(lines), width, height, max(height + _BETWEEN, below), children)


def _columns(box: _Box) -> list[float]:
    """The pixels between the left edges of boxes of successive levels; for the last level, the width of its boxes."""
    columns: list[float] = []
    level = [box]
    while level:
        reach = max(_reach(box) for box in level)
        columns.append(max(box.width for box in level) + (26 + reach if reach else 10))
        level = [child for box in level for child in box.children]
    return columns


def _slow(part: Part, beside: Sequence[_Box]) -> bool:
    """Return whether the link is slow among those of nodes of the same kind below the same switch."""
    speeds = [_speed(box.part.uplink) for box in beside if box.part.kind == part.kind and box.part.uplink is not None]
    return part.uplink is not None and _speed(part.uplink) < _SLOWER * median_high(speeds)


def _speed(link: Link) -> float:
    return min(link.up, link.down)


def _reach(box: _Box) -> float:
    """The pixels that the labels of the links below take."""
    written = [
        (label, size)
        for child in box.children
        for label, size in zip(_labels(child.part), (_TEXT, _SMALL), strict=True)
    ]
    return max((text_width(label, size) + 16 for label, size in written), default=0.0)


def _labels(part: Part) -> tuple[str, str]:
    """The texts above and beneath the line of the part's link. The parent is to the left."""
    link = part.uplink
    if link is None:
        return labels.link(part), ""
    each = " each" if len(part.nodes) > 1 else ""
    if link.up == link.down:
        return show_speed(link.up) + each, show_time(link.latency)
    return f"← {show_speed(link.up)}{each}", f"→ {show_speed(link.down)}{each}, {show_time(link.latency)}"


def _socket_line(part: Part) -> str:
    name = "" if part.kind == "rank" else f"{shortened_host(labels.title(part), _LONGEST_NAME)}: "
    return name + labels.link(part)


def _as_squares(part: Part) -> bool:
    return len(part.nodes) == 1 and len(part.ranks) <= MOST_RANKS


def _square_width(ranks: range) -> float:
    return max(_SQUARE, text_width(str(ranks[-1]), _SMALL) + 6)


def _squares_width(ranks: range) -> float:
    return min(len(ranks), _PER_ROW) * (_square_width(ranks) + _GAP) - _GAP


def _squares_height(count: int) -> float:
    return math.ceil(count / _PER_ROW) * (_SQUARE + _GAP) - _GAP
