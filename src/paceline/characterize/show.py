"""A characterisation as a table in the terminal and as a page in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.table import Table

from paceline.bench.report import columns, wrong
from paceline.characterize.answers import answers
from paceline.characterize.approaches import APPROACHES, CHOICES, NONE
from paceline.characterize.row import Configuration, Row
from paceline.formats.sizes import show_bytes

_WORDS = ("network", "model", "approach")
_TITLES = ("px", "batch", "ranks", "images/s", "quartiles", "efficiency", "step(ms)")
_PARTS = ("compute", "waiting", "negotiation", "copies", "transfer")


def ordered(rows: Sequence[Row]) -> list[Row]:
    """Return the rows by configuration, and in each the fastest first."""
    return sorted(rows, key=lambda row: (row.configuration, row.kind == NONE, -row.efficiency))


def table(rows: Sequence[Row]) -> Table:
    """Return a table with a row for each approach in each configuration; times are in ms."""
    left = ("network", "model", "approach")
    result = columns("network", "model", "px", "batch", "ranks", "approach", *_TITLES[3:], *_PARTS, "#wrong", left=left)
    found = ordered(rows)
    for number, row in enumerate(found):
        result.add_row(
            row.network,
            row.model,
            str(row.image_size),
            str(row.batch),
            str(row.ranks),
            row.approach,
            *_figures(row),
            wrong(row.wrong),
            style="bold" if row.approach == "paceline" else "",
            end_section=number + 1 < len(found) and found[number + 1].configuration != row.configuration,
        )
    return result


def page(rows: Sequence[Row]) -> str:
    """Return the page: answers first, then how to read the figures, then the figures of every configuration."""
    found = ordered(rows)
    parts = ["# Approaches to distributed training, measured"]
    for question, sentences in answers(found):
        parts += [f"## {question}", "\n".join(f"- {sentence}" for sentence in sentences)]
    parts.append(_reading(found))
    for configuration, some in groupby(found, key=lambda row: row.configuration):
        parts += _section(configuration, list(some))
    return "\n\n".join(parts) + "\n"


def _section(configuration: Configuration, rows: list[Row]) -> list[str]:
    title = f"{configuration.model}, {configuration.batch} images a rank, {configuration.ranks} ranks"
    first = rows[0]
    sentence = f"On {configuration.network}, with images of {configuration.image_size}×{configuration.image_size} px"
    sentence += f" and {show_bytes(first.gradient_bytes)} of gradients."
    if first.bound_ms:
        sentence += f" No all-reduce of these is faster than {first.bound_ms:.0f} ms on this network."
    titles = ("approach", "kind", *_TITLES[3:], *_PARTS)
    lines = [titles, ("---", "---", *("--:" for _ in titles[2:]))]
    lines += [(row.approach, row.kind, *_figures(row)) for row in rows]
    return [f"### {title}", sentence, "\n".join(f"| {' | '.join(line)} |" for line in lines)]


def _figures(row: Row) -> tuple[str, ...]:
    parts = (row.compute_ms, row.waiting_ms, row.negotiation_ms, row.copies_ms, row.transfer_ms)
    return (
        f"{row.images_per_s:.1f}",
        f"{row.images_per_s_q1:.1f}–{row.images_per_s_q3:.1f}",
        f"{row.efficiency:.1%}",
        f"{row.step_ms:.1f}",
        *("–" if part is None else f"{part:.1f}" for part in parts),
    )


def _reading(rows: Sequence[Row]) -> str:
    loads = [row.load for row in rows]
    used = sorted({row.approach for row in rows}, key=list(APPROACHES).index)
    names = "\n".join(f"- {name} ({APPROACHES[name].framework}): {APPROACHES[name].about}." for name in used)
    return f"""## How to read the figures

All approaches of a configuration were measured in turn, a few steps at a time, while the ranks of all others were
idle. Every rank computes with one thread. A figure is the median over the turns. The first step of every approach was
compared with a reference before anything was timed. The machine's load average was {min(loads):g} to {max(loads):g}.

The efficiency is the rate over that of the same ranks when they exchange nothing (the approach `none-…` of the same
framework), turn by turn. Ranks that share cores slow each other down with and without an exchange, which does not
count against an approach. The columns after `step(ms)` divide the step, in ms: computing; waiting for the last rank's
gradients; agreeing on an order; copying to and from buffers of fused gradients; and the rest, the transfer that no
computation hides. A dash means that the approach does not show this part, so that the transfer includes it.

{names}{_absent(used)}

## The figures"""


def _absent(used: Sequence[str]) -> str:
    absent = [name for name in CHOICES if name not in used]
    return f"\n\nNot measured: {', '.join(absent)}." if absent else ""
