"""Shows the picture of a running job as tables and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from paceline.formats.numbers import DASH, elsewhere, number, percent, size
from paceline.formats.sizes import show_duration
from paceline.monitor.top.headline import headline, is_late
from paceline.monitor.top.look import Picture, Row
from paceline.report.show import coordination

_WAITS_SHOWN = 4
"""Ranks that are named where one waits for many."""
_LONG = 1.0
"""Seconds from which a wait is shown."""


def render(picture: Picture) -> RenderableType:
    """Return the tables of the ranks and, if there is any, of coordination, and the operations that wait."""
    parts: list[RenderableType] = [_head(picture)]
    if news := headline(picture.rows):
        parts.append(Text(news, "bold yellow"))
    parts.append(_ranks(picture))
    if known := next((row.last for row in picture.rows if row.last is not None and row.last.untold), None):
        parts.append(Text(f"arrived last: {known.told}"))
    if any(row.figures.coordinators for row in picture.rows):
        parts.append(coordination(((row.figures, row.rates) for row in picture.rows), hosts=False))
    parts += _waits(picture)
    parts += [Text(f"{why}; not shown", "bold red") for _, why in sorted(picture.silent.items())]
    return Group(*parts)


def to_json(picture: Picture) -> str:
    """Return the same content as one JSON object on one line."""
    content: dict[str, Any] = asdict(picture)
    for row in content["rows"]:
        del row["figures"]["arrivals"]
    content["headline"] = headline(picture.rows)
    return json.dumps(content, separators=(",", ":"))


def _head(picture: Picture) -> Text:
    parts = [f"{picture.size} ranks"]
    if picture.elsewhere:
        parts.append(f"{elsewhere(picture.elsewhere, picture.size)}")
    if picture.gone:
        parts.append(f"{picture.gone} of this machine {'has' if picture.gone == 1 else 'have'} ended")
    return Text("; ".join([*parts, f"the last {show_duration(picture.rows[0].rates.seconds)}"]), "bold")


def _ranks(picture: Picture) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0, pad_edge=False)
    loads = any(row.figures.batches for row in picture.rows)
    titles = ["rank", "host", "pid", "steps/s", "step\nms", "bytes/s", "exposed"]
    for column in (*titles, *(("data\nms", "hidden") if loads else ()), "arrived\nlast", "waits\nfor"):
        table.add_column(column, justify="left" if column in ("host", "waits\nfor") else "right")
    for row in picture.rows:
        figures, rates = row.figures, row.rates
        table.add_row(
            str(figures.rank),
            Text(figures.host),
            str(figures.pid),
            number(rates.steps_per_second) if rates.steps else DASH,
            number(rates.step_ms),
            size(rates.bytes_per_second),
            percent(rates.exposed),
            *((number(rates.data_ms), percent(rates.hidden)) if loads else ()),
            _share(row, len(picture.rows)),
            Text(_waits_for(row)),
        )
    return table


def _share(row: Row, ranks: int) -> Text:
    if row.last is None:
        return Text(DASH)
    return Text(percent(row.last.share), "bold yellow" if is_late(row, ranks) else "")


def _waits_for(row: Row) -> str:
    missing = [who for wait in row.figures.waits for who in wait.missing]
    named = sorted({" ".join(who.split(" ")[:2]) for who in missing})
    return ", ".join(named[:_WAITS_SHOWN]) + (f" and {len(named) - _WAITS_SHOWN} more" if named[_WAITS_SHOWN:] else "")


def _waits(picture: Picture) -> list[Text]:
    """Return a line for each operation that has waited for long."""
    found: dict[str, tuple[float, tuple[str, ...]]] = {}
    for row in picture.rows:
        for wait in row.figures.waits:
            if wait.seconds >= _LONG and wait.seconds > found.get(wait.what, (0.0, ()))[0]:
                found[wait.what] = wait.seconds, wait.missing
    return [
        Text(
            f"{what} has waited {show_duration(seconds)}{_for(who)}",
            "yellow",
        )
        for what, (seconds, who) in sorted(found.items(), key=lambda item: -item[1][0])
    ]


def _for(who: Sequence[str]) -> str:
    return f" for {' and '.join(who[:_WAITS_SHOWN])}" if who else ""
