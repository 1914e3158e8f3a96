"""Tables of rows: what a column is called and how a cell looks stands at the field of the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from rich.table import Table


@dataclass(frozen=True)
class Column:
    """A column of a table.

    show: the format of a cell, or a function that returns it; it gets the values of the fields `name` and `also`, or
    the row if there is no name. unit: numbers are divided by it before. none: stands where one of the values is None.
    left: whether the column is aligned to the left.
    """

    heading: str
    show: str | Callable[..., str] = "{}"
    also: tuple[str, ...] = ()
    unit: float = 1
    none: str = ""
    name: str = ""
    left: bool = False

    def text(self, row: object) -> str:
        """Return the cell of a row."""
        return self.of(*(getattr(row, name) for name in (self.name, *self.also)) if self.name else (row,))

    def of(self, *values: Any) -> str:
        """Return the cell for these values."""
        if None in values:
            return self.none
        if self.unit != 1:
            values = tuple(value / self.unit for value in values)
        return self.show.format(*values) if isinstance(self.show, str) else self.show(*values)


def column(
    heading: str, show: str | Callable[..., str] = "{}", *also: str, unit: float = 1, none: str = ""
) -> dict[str, Column]:
    """Return the metadata of a row's field that a table shows; see `Column`."""
    return {"column": Column(heading, show, also, unit, none)}


def columns(kind: type, *names: str | Column) -> list[Column]:
    """Return the columns of a row's fields, aligned to the left if they hold words.

    names: those that are shown, and columns that no field has; by default all fields that are columns, in their order.
    """
    known = {
        field.name: replace(field.metadata["column"], name=field.name, left=str(field.type).startswith("str"))
        for field in fields(kind)
        if "column" in field.metadata
    }
    return [known[name] if isinstance(name, str) else name for name in names or known]


def table(
    shown: Sequence[Column],
    rows: Sequence[Any],
    section: Callable[[Any], object] = lambda row: None,
    bold: Callable[[Any], bool] = lambda row: False,
) -> Table:
    """Return a table with a row for each of `rows`.

    section: returns what the rows of a section have in common. bold: whether a row stands out.
    """
    result = empty(shown)
    for number, row in enumerate(rows):
        result.add_row(
            *(one.text(row) for one in shown),
            style="bold" if bold(row) else "",
            end_section=number + 1 < len(rows) and section(rows[number + 1]) != section(row),
        )
    return result


def empty(shown: Sequence[Column]) -> Table:
    """Return a table without rows."""
    result = Table(box=None, header_style="bold", pad_edge=False)
    for one in shown:
        result.add_column(one.heading, justify="left" if one.left else "right", no_wrap=True)
    return result


def wrong(count: int) -> str:
    """Return the number of wrong results as text, in red unless it is 0."""
    return f"[red]{count}[/red]" if count else "0"
