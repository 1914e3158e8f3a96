"""The answers as tables of up to 80 characters a line: what a step takes, and where it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from paceline.formats.numbers import number
from paceline.formats.sizes import show_seconds
from paceline.simulate.answer import INTERVAL, Answer
from paceline.simulate.job import PARTS
from paceline.simulate.scenario import Advice

_WIDTH = 80
"""Characters of a line of a terminal."""
_SHOWN = 0.0005
"""The least share of a step that rounds to 0.1 %."""
_WORDS = ("network", "policy", "algorithm")
_NARROW = {"last rank": "last\nrank", "batches/s": "batches\n/ s"}
"""The titles of columns whose values are shorter, on two lines."""


def tables(answers: Sequence[Answer]) -> Group:
    """Return two tables with a row for each answer: the step and its throughput, and the parts of the step.

    What all rows share stands above the tables, and a part that no row has is left out. Where rows differ in the
    network, or in the algorithm that was asked for, there are two tables for each of these.
    """
    apart = ["network"] if len({each.network for each in answers}) > len({each.ranks for each in answers}) else []
    if len({(each.network, each.ranks, each.policy) for each in answers}) < len(answers):
        apart.append("algorithm")
    sections: dict[tuple[str, ...], list[Answer]] = {}
    for each in answers:
        sections.setdefault(tuple(str(getattr(each, word)) for word in apart), []).append(each)
    return Group(*(part for some in sections.values() for part in _section(some, apart)))


def advice_table(found: Sequence[Advice]) -> Table:
    """Return a row for each change, the one that gains most first."""
    result = Table(box=None, pad_edge=False)
    for column in ("gain", "step", "change"):
        result.add_column(column, justify="left" if column == "change" else "right")
    for each in found:
        result.add_row(f"{each.gain:+.1%}", show_seconds(each.answer.step.seconds), each.change)
    return result


def _section(answers: Sequence[Answer], apart: Sequence[str]) -> Iterator[RenderableType]:
    differ = [word for word in _WORDS[1:] if len({getattr(each, word) for each in answers}) > 1]
    alike = [word for word in _WORDS if word not in differ and (word in apart or word != "network")]
    if alike:
        yield Text(", ".join(f"{word} {getattr(answers[0], word)}" for word in alike), "bold")
    parts = [part for part in PARTS if any(each.shares[part] >= _SHOWN for each in answers)]
    yield _fitting(lambda narrow: _steps(answers, differ, narrow))
    yield Text("of the step:")
    yield _fitting(lambda narrow: _shares(answers, [word for word in differ if word == "policy"], parts, narrow))


def _steps(answers: Sequence[Answer], words: Sequence[str], narrow: bool) -> Table:
    found = _table(["ranks", *words, "step", f"{INTERVAL} %", "batches/s", "efficiency"], narrow)
    for each in answers:
        found.add_row(
            str(each.ranks),
            *(str(getattr(each, word)) for word in words),
            show_seconds(each.step.seconds),
            _interval(each),
            number(each.throughput),
            f"{each.efficiency:.1%}",
        )
    return found


def _shares(answers: Sequence[Answer], words: Sequence[str], parts: Sequence[str], narrow: bool) -> Table:
    found = _table(["ranks", *words, *(part.replace("_", " ") for part in parts)], narrow)
    for each in answers:
        found.add_row(
            str(each.ranks),
            *(str(getattr(each, word)) for word in words),
            *(f"{each.shares[part]:.1%}" for part in parts),
        )
    return found


def _table(columns: Sequence[str], narrow: bool) -> Table:
    found = Table(box=None, pad_edge=False, padding=(0, 1 if narrow else 2, 0, 0))
    for column in columns:
        title = _NARROW.get(column, column) if narrow else column
        found.add_column(title, justify="left" if column in _WORDS else "right", vertical="bottom", no_wrap=True)
    return found


def _fitting(made: Callable[[bool], Table]) -> Table:
    """The table as it is, or with columns as narrow as they can be where its lines are too long."""
    usual = made(False)
    return usual if Console(width=10 * _WIDTH).measure(usual).maximum <= _WIDTH else made(True)


def _interval(each: Answer) -> str:
    """A text such as "413 to 434 ms"."""
    low, high = show_seconds(each.low), show_seconds(each.high)
    (least, unit), (most, other) = (text.rsplit(" ", 1) for text in (low, high))
    return f"{least} to {most} {unit}" if unit == other else f"{low} to {high}"
