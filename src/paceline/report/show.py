"""Shows the report as tables."""

from __future__ import annotations

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from paceline.formats.numbers import DASH, number, percent, size
from paceline.observe.figures import Figures
from paceline.observe.rates import Rates
from paceline.observe.report import Report

_COORDINATION = (
    "negotiation\nµs",
    "longest\nµs",
    "oversleep\nµs",
    "spin\nms",
    "CPU\nms",
    "cache\nhits",
    "fused\nbytes",
)
_TENSORS = 3
"""The number of tensors that are named for each rank."""


def show(report: Report, verdict: str, console: Console) -> None:
    """Print the report. verdict: what limits the job, in sentences."""
    console.print(render(report, verdict))


def render(report: Report, verdict: str) -> RenderableType:
    """Return the verdict and the tables: each rank's steps, the cost of coordination, late ranks, and missing ranks."""
    parts: list[RenderableType] = [_head(report), Text(verdict), Text(""), _steps(report)]
    if any(rank.figures.coordinators for rank in report.ranks):
        parts.append(coordination(((rank.figures, rank.rates) for rank in report.ranks), hosts=True))
    if any(rank.last for rank in report.ranks):
        parts.append(_last(report))
    parts += [Text(remark, "bold red") for remark in report.remarks]
    return Group(*parts)


def _head(report: Report) -> Text:
    steps = max((rank.rates.steps for rank in report.ranks), default=0.0)
    return Text(f"{report.title}, {steps:.0f} steps", "bold")


def _steps(report: Report) -> Table:
    loads = any(rank.figures.batches for rank in report.ranks)
    loading = ("data ms", "hidden") if loads else ()
    table = _table("per step", "step ms", "moved", "exposed ms", "exposed", *loading, "operations", "not seen")
    for rank in report.ranks:
        rates, figures = rank.rates, rank.figures
        table.add_row(
            *_who(figures),
            number(rates.step_ms),
            size(rates.bytes_per_step),
            number(rates.exposed_ms),
            percent(rates.exposed),
            *((number(rates.data_ms), percent(rates.hidden)) if loads else ()),
            str(figures.operations),
            str(figures.unseen + figures.passed) if figures.unseen + figures.passed else DASH,
        )
    return table


def coordination(ranks: Iterable[tuple[Figures, Rates]], *, hosts: bool) -> Table:
    """Return the table of what coordination costs each rank, for the report and for `paceline top`.

    hosts: whether the table shows the ranks' hosts.
    """
    rows = list(ranks)
    policies = sorted({policy for figures, _ in rows for policy in figures.policies.values()})
    table = _table(f"agreeing on an order (policy {', '.join(policies)}), per step", *_COORDINATION, host=hosts)
    for figures, rates in rows:
        table.add_row(*_who(figures)[: 1 + hosts], *_agreeing(rates))
    return table


def _agreeing(rates: Rates) -> list[str]:
    return [
        number(rates.negotiation_us),
        number(rates.longest_us),
        number(rates.oversleep_us),
        number(rates.spin_ms),
        number(rates.background_cpu_ms),
        percent(rates.cache_hits),
        size(rates.fused_bytes),
    ]


def _last(report: Report) -> Table:
    known = next(rank.last for rank in report.ranks if rank.last)
    table = _table(f"arrived last ({known.told})", "share", "late by ms", "most often for")
    for rank in report.ranks:
        if rank.last:
            most = list(rank.last.tensors.items())[:_TENSORS]
            tensors = ", ".join(f"{name} ({count})" for name, count in most)
            table.add_row(
                *_who(rank.figures), percent(rank.last.share), number(rank.last.late_ms), Text(tensors or DASH)
            )
    return table


def _who(figures: Figures) -> tuple[str, Text]:
    return str(figures.rank), Text(figures.host)


def _table(title: str, *columns: str, host: bool = True) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("rank", justify="right")
    if host:
        table.add_column("host")
    for column in columns:
        table.add_column(column, justify="left" if column == "most often for" else "right")
    return table
