"""Draw an order: the executed graph from left to right by depth, its collectives coloured by fusion buffer.

A collective has its id in its box and a horizontal place of its own, so that a buffer is a run of neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import drawsvg

from paceline.formats.sizes import show_bytes
from paceline.formats.svg_style import BOX, FAINT, FONT, INK, LINE, PAPER, SERIES, ink_on, shortened, text_width
from paceline.order.fuse import Scheme
from paceline.order.graph import Graph
from paceline.order.number import Order, executed

MOST_NAMED = 48
"""Nodes up to which each is a box with its name; in larger graphs, computing nodes are dots, and names are vertical."""
MOST_BUFFERS = 24
"""Buffers that the legend lists."""
_LEFT, _TOP, _HEAD = 24, 104, 20
"""Pixels of the left margin, of the title, and of a buffer's heading."""
_LEAST_WIDTH = 720
"""Pixels of the narrowest picture."""
_NAME, _LONGEST_NAME = 9, 34
"""The font size of vertical names in pixels, and their most characters."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Pixels of a column without a collective, of each collective's place, of a lane and of a box, and of the font."""

    column: int
    place: int
    lane: int
    box: int
    font: int


_SMALL = _Sizes(column=92, place=92, lane=52, box=24, font=12)
_LARGE = _Sizes(column=9, place=18, lane=22, box=17, font=8)


@dataclass(slots=True)
class _Layout:
    """The places of the executed nodes: `x` is the middle of each in pixels, `lane` its row."""

    x: dict[int, float] = field(default_factory=dict)
    lane: dict[int, int] = field(default_factory=dict)
    width: float = 0.0
    lanes: int = 0


def draw(graph: Graph, ordered: Order, found: Scheme, title: str) -> drawsvg.Drawing:
    """Return the picture; its method `save_svg` writes it."""
    return _Picture(graph, ordered, found, title).drawing


class _Picture:
    def __init__(self, graph: Graph, ordered: Order, found: Scheme, title: str) -> None:
        self.graph, self.ordered, self.found = graph, ordered, found
        nodes, edges = executed(graph, ordered)
        self.named = nodes <= MOST_NAMED
        self.sizes = _SMALL if self.named else _LARGE
        self.layout = _placed(graph, ordered, self.sizes)
        self.buffer_of = [number for number, names in enumerate(found.buffers) for _ in names]
        shown = min(len(found.buffers), MOST_BUFFERS)
        self.bottom = _TOP + _HEAD + self.layout.lanes * self.sizes.lane
        longest = max((len(graph.collectives[node].name) for node in ordered.nodes), default=0)
        self.below = 4.0 if self.named else 16 + text_width("x" * min(longest, _LONGEST_NAME), _NAME)
        height = self.bottom + self.below + 24 + 20 * (shown + (len(found.buffers) > shown)) + 16
        width = max(_LEAST_WIDTH, 2 * _LEFT + self.layout.width)
        self.drawing = drawsvg.Drawing(width, height, font_family=FONT)
        self.drawing.append(drawsvg.Rectangle(0, 0, width, height, fill=PAPER))
        self._text(shortened(title, 60), 16, 16, 28, INK, bold=True)
        what = f"{nodes} nodes, {edges} edges; {len(ordered.nodes)} collectives in {len(found.buffers)} buffers"
        self._text(what, 12, 16, 50, INK)
        self._text("Left to right: depth. Numbers: the order of issue. Colours: what goes together.", 11, 16, 70, FAINT)
        self._bands()
        self._edges()
        for node, depth in enumerate(ordered.depths):
            if depth and node not in graph.collectives:
                self._computing(node)
        for number, node in enumerate(ordered.nodes):
            self._collective(number, node)
        self._legend(self.bottom + self.below + 24, shown)

    def _bands(self) -> None:
        """Draw a band with the buffer's number behind the members of each buffer."""
        half = self.sizes.place / 2
        for number, members in self._members():
            colour = _colour(number)
            left, right = self.layout.x[members[0]] - half + 1, self.layout.x[members[-1]] + half - 1
            bottom = self.bottom + self.below
            self.drawing.append(
                drawsvg.Rectangle(left, _TOP, right - left, bottom - _TOP, rx=4, fill=colour, fill_opacity=0.12)
            )
            self.drawing.append(drawsvg.Rectangle(left, _TOP, right - left, _HEAD - 4, rx=4, fill=colour))
            texts = (f"buffer {number}: {show_bytes(self.found.nbytes[number])}", f"buffer {number}", f"{number}")
            fitting = (text for text in texts if text_width(text, 11, True) < right - left - 4)
            self._text(next(fitting, ""), 11, (left + right) / 2, _TOP + 12, ink_on(colour), bold=True, anchor="middle")

    def _members(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        begin = 0
        for number, names in enumerate(self.found.buffers):
            yield number, self.ordered.nodes[begin : begin + len(names)]
            begin += len(names)

    def _edges(self) -> None:
        for child, parents in enumerate(self.graph.parents):
            for parent in parents if self.ordered.depths[child] else ():
                x0, y0, x1, y1 = self.layout.x[parent], self._y(parent), self.layout.x[child], self._y(child)
                bend = (x1 - x0) / 2
                path = drawsvg.Path(stroke=LINE, stroke_width=1, fill="none").M(x0, y0)
                self.drawing.append(path.C(x0 + bend, y0, x1 - bend, y1, x1, y1))

    def _computing(self, node: int) -> None:
        x, y = self.layout.x[node], self._y(node)
        if not self.named:
            self.drawing.append(drawsvg.Circle(x, y, 2, fill=FAINT))
            return
        name = shortened(self.graph.nodes[node].name, 11)
        width = max(24.0, text_width(name, 10) + 8)
        self.drawing.append(drawsvg.Rectangle(x - width / 2, y - 10, width, 20, rx=10, fill=BOX, stroke=LINE))
        self._text(name, 10, x, y + 3.5, FAINT, anchor="middle")

    def _collective(self, number: int, node: int) -> None:
        x, y, box = self.layout.x[node], self._y(node), self.sizes.box
        colour = _colour(self.buffer_of[number])
        name = self.graph.collectives[node].name
        if self.named:
            self._text(shortened(name, 14), 10, x, y + box / 2 + 12, INK, anchor="middle")
        else:
            line = drawsvg.Line(x, y, x, self.bottom + 4, stroke=colour, stroke_width=0.7, stroke_dasharray="1 2")
            self.drawing.append(line)
            self._text(shortened(name, _LONGEST_NAME), _NAME, x - 3, self.bottom + 8, INK, upright=True)
        self.drawing.append(drawsvg.Rectangle(x - box / 2, y - box / 2, box, box, rx=4, fill=colour))
        size = self.sizes.font - (number > 99)
        self._text(str(number), size, x, y + size * 0.35, ink_on(colour), bold=True, anchor="middle")

    def _legend(self, y: float, shown: int) -> None:
        lines = []
        for number, names in enumerate(self.found.buffers[:shown]):
            what = shortened(names[0], 40) if len(names) == 1 else f"{len(names)} collectives"
            lines.append(f"buffer {number}: {what}, {show_bytes(self.found.nbytes[number])}")
        after = 34 + max((text_width(line, 11) for line in lines), default=0)
        for number, line in enumerate(lines):
            self.drawing.append(drawsvg.Rectangle(16, y - 10, 12, 12, rx=3, fill=_colour(number)))
            self._text(line, 11, 34, y, INK)
            self._text(f"ends: {shortened(self.found.reasons[number], 90)}", 11, after, y, FAINT)
            y += 20
        if shown < len(self.found.buffers):
            self._text(f"… and {len(self.found.buffers) - shown} more buffers", 11, 34, y, FAINT)

    def _y(self, node: int) -> float:
        return _TOP + _HEAD + (self.layout.lane[node] + 0.5) * self.sizes.lane

    def _text(
        self,
        text: str,
        size: float,
        x: float,
        y: float,
        colour: str,
        *,
        bold: bool = False,
        anchor: str = "start",
        upright: bool = False,
    ) -> None:
        weight = "bold" if bold else "normal"
        turned = {"transform": f"rotate(90 {x} {y})"} if upright else {}
        self.drawing.append(
            drawsvg.Text(text, size, x, y, fill=colour, font_weight=weight, text_anchor=anchor, **turned)
        )


def _placed(graph: Graph, ordered: Order, sizes: _Sizes) -> _Layout:
    """Place nodes in columns by depth, as wide as their collectives need, and in their parent's lane if it is free."""
    layout = _Layout()
    columns: list[list[int]] = [[] for _ in range(max(ordered.depths, default=0))]
    for node, depth in enumerate(ordered.depths):
        if depth:
            columns[depth - 1].append(node)
    left = float(_LEFT)
    for column in columns:
        items = [node for node in column if node in graph.collectives]
        rest = [node for node in column if node not in graph.collectives]
        taken: set[int] = set()
        for node in rest + items:
            wanted = min((layout.lane[parent] for parent in graph.parents[node]), default=0)
            while wanted in taken:
                wanted += 1
            taken.add(wanted)
            layout.lane[node] = wanted
            layout.lanes = max(layout.lanes, wanted + 1)
        computing = sizes.column if rest or not items else 0
        for node in rest:
            layout.x[node] = left + sizes.column / 2
        for place, node in enumerate(items):
            layout.x[node] = left + computing + (place + 0.5) * sizes.place
        left += computing + sizes.place * len(items)
    layout.width = left - _LEFT
    return layout


def _colour(number: int) -> str:
    return SERIES[number % len(SERIES)]
