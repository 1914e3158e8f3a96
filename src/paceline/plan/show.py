"""A plan and its cost in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from paceline.formats.sizes import show_bytes, show_seconds
from paceline.formats.svg_style import shortened_host
from paceline.plan.bound import Bound
from paceline.plan.cost import Cost, LevelCost, LinkCost

MOST_LINKS = 24
"""Links of machines and switches that the table shows; it leaves out the least busy ones beyond that."""
_MOST_LEVELS = 16
"""Levels that the table shows one by one."""
_BAR = 10
"""Characters of the longest bar."""
_LONGEST_NAME = 12
"""Characters of a link's name."""


def levels(cost: Cost) -> Table:
    """Return a table with a row for each level of the reduce-scatter, beside its mirror image in the all-gather."""
    table = Table("level", title="level by level, on the whole buffer", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("messages", "reduce-scatter", "all-gather", "latency"):
        table.add_column(name, justify="right")
    first = 0
    for level in cost.levels[:_MOST_LEVELS]:
        last = first + level.times - 1
        each = " each" if last > first else ""
        table.add_row(
            f"{first}–{last}" if last > first else str(first),
            f"{level.messages}{each}",
            f"{show_seconds(level.reduce_scatter)}{each}",
            f"{show_seconds(level.all_gather)}{each}",
            f"{show_seconds(2 * level.latency)}{each}",
        )
        first = last + 1
    if len(cost.levels) > _MOST_LEVELS:
        rest = cost.levels[_MOST_LEVELS:]
        table.add_row(f"{len(rest)} more", *_sums(rest))
    return table


def _sums(rest: Sequence[LevelCost]) -> tuple[str, ...]:
    return (
        str(sum(level.messages * level.times for level in rest)),
        *(
            show_seconds(sum(level.times * seconds for level, seconds in zip(rest, column, strict=True)))
            for column in (
                [level.reduce_scatter for level in rest],
                [level.all_gather for level in rest],
                [2 * level.latency for level in rest],
            )
        ),
    )


def links(cost: Cost) -> Table:
    """Return a table of the bytes on every link, the busiest first. It has only the busiest of the ranks' own links."""
    table = Table(title="bytes on every link", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("link", overflow="fold")
    for name in ("each way", "busy", "of the time"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=_BAR)
    shared = sorted((link for link in cost.links if link.kind != "rank"), key=lambda link: -link.seconds)
    own = [link for link in cost.links if link.kind == "rank"]
    for link in shared[:MOST_LINKS]:
        _row(table, link.name, link, cost.seconds)
    rest = shared[MOST_LINKS:]
    if rest:
        _row(table, f"{len(rest)} more, at most", rest[0], cost.seconds)
    if own:
        busiest = max(own, key=lambda link: link.seconds)
        _row(table, f"{busiest.name}, the busiest of {len(own)}", busiest, cost.seconds)
    return table


def _row(table: Table, name: str, link: LinkCost, seconds: float) -> None:
    share = link.seconds / seconds if seconds else 0.0
    table.add_row(name, show_bytes(round(link.bytes)), show_seconds(link.seconds), f"{share:.0%}", _bar(share))


def comparison(costs: Sequence[Cost], bound: Bound) -> Table:
    """Return a table of all algorithms' predicted times, the quickest first, with a bar each."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("algorithm", no_wrap=True)
    for name in ("predicted", "of T*", "barriers"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("busiest link", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=_BAR)
    slowest = max((cost.seconds for cost in costs), default=0.0)
    for cost in sorted(costs, key=lambda cost: cost.seconds):
        busiest = cost.busiest
        table.add_row(
            cost.algorithm,
            show_seconds(cost.seconds),
            f"{ratio(cost, bound):.2f}",
            show_seconds(cost.barrier),
            shortened_host(busiest.name, _LONGEST_NAME) if busiest is not None else "",
            _bar(cost.seconds / slowest if slowest else 0.0),
        )
    return table


def codecs(plain: Cost, encoded: Sequence[Cost]) -> Table:
    """Return a table of what codecs make of one algorithm's time and of its busiest link, the plain one first."""
    title = f"{plain.algorithm}, encoded between machines"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("codec", no_wrap=True)
    table.add_column("predicted", justify="right", no_wrap=True)
    table.add_column("busiest link", no_wrap=True)
    for name in ("each way", "busy"):
        table.add_column(name, justify="right", no_wrap=True)
    slowest = max(cost.seconds for cost in (plain, *encoded))
    table.add_column("", no_wrap=True, min_width=_BAR)
    for cost in (plain, *encoded):
        busiest = cost.busiest
        table.add_row(
            cost.codec,
            show_seconds(cost.seconds),
            shortened_host(busiest.name, _LONGEST_NAME) if busiest is not None else "",
            show_bytes(round(busiest.bytes)) if busiest is not None else "",
            show_seconds(busiest.seconds) if busiest is not None else "",
            _bar(cost.seconds / slowest if slowest else 0.0),
        )
    return table


def ratio(cost: Cost, bound: Bound) -> float:
    """Return the predicted time divided by T*; 1 where there is nothing to do."""
    return cost.seconds / bound.seconds if bound.seconds else 1.0


def _bar(share: float) -> Text:
    eighths = round(8 * _BAR * min(1.0, share))
    return Text("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip(), "blue")
