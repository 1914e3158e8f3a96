"""A characterisation as one page of HTML: the answers, then each configuration with its bars and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from paceline.formats.page import bar, figure, keys, page, paragraph, section, table
from paceline.formats.sizes import show_bytes
from paceline_bench.characterize.answers import answers
from paceline_bench.characterize.approaches import APPROACHES, CHOICES
from paceline_bench.characterize.row import Configuration, Row
from paceline_bench.characterize.show import FIGURES, PARTS, ordered

_CLASSES = dict(zip(PARTS, ("computation", "last_rank", "negotiation", "copies", "transfer"), strict=True))
"""The classes of a step's parts in the style of all pages."""
_NAMES = dict(
    zip(
        PARTS,
        ("computes", "waits for the last rank", "agrees on an order", "copies", "transfers what nothing hides"),
        strict=True,
    )
)


def characterisation_page(rows: Sequence[Row]) -> str:
    """Return the page as HTML. There must be a row."""
    found = ordered(rows)
    return page("Approaches to distributed training, measured", _sections(found), [])


def _sections(rows: Sequence[Row]) -> Iterator[str]:
    (first, sentences), *others = answers(rows) or [("No approach was measured", [])]
    headline = [paragraph(sentences[0], "headline")] if sentences else []
    yield section("verdict", first, *headline, *map(paragraph, sentences[1:]))
    for number, (question, said) in enumerate(others):
        yield section(f"question-{number}", question, *map(paragraph, said))
    for number, (configuration, some) in enumerate(groupby(rows, key=lambda row: row.configuration)):
        yield _configuration(f"figures-{number}", configuration, list(some))
    yield _reading(rows)


def _configuration(name: str, configuration: Configuration, rows: Sequence[Row]) -> str:
    title = f"{configuration.model}, {configuration.batch} images a rank, {configuration.ranks} ranks"
    sentence = f"On {configuration.network}, with images of {configuration.image_size}×{configuration.image_size} px"
    sentence += f" and {show_bytes(rows[0].gradient_bytes)} of gradients."
    if bound := rows[0].bound_ms:
        sentence += f" No all-reduce of these is faster than {bound:.0f} ms on this network."
    longest = max(row.step_ms for row in rows)
    bars = "".join(f"<p>{escape(row.approach)}, {row.step_ms:.0f} ms</p>{_bar(row, longest)}" for row in rows)
    return section(
        name,
        title,
        paragraph(sentence),
        figure("Where a step of each approach goes", bars, keys((_CLASSES[part], _NAMES[part]) for part in PARTS)),
        table(
            f"{title}: times in ms",
            ("approach", "kind", *(one.heading for one in FIGURES)),
            ((row.approach, row.kind, *(one.text(row) for one in FIGURES)) for row in rows),
            words=("approach", "kind"),
        ),
    )


def _bar(row: Row, longest: float) -> str:
    spent = {part: getattr(row, f"{part}_ms") or 0.0 for part in PARTS}
    whole = sum(spent.values()) or 1.0
    parts = [(_CLASSES[part], f"{_NAMES[part]}: {ms:.1f} ms", ms / whole) for part, ms in spent.items() if ms > 0]
    return bar(parts, row.step_ms / longest)


def _reading(rows: Sequence[Row]) -> str:
    loads = [row.load for row in rows]
    used = sorted({row.approach for row in rows}, key=list(APPROACHES).index)
    absent = [name for name in CHOICES if name not in used]
    return section(
        "reading",
        "How to read the figures",
        paragraph(
            "All approaches of a configuration were measured in turn, a few steps at a time, while the ranks of all "
            "others were idle. Every rank computes with one thread. A figure is the median over the turns. The first "
            "step of every approach was compared with a reference before anything was timed. The machine's load "
            f"average was {min(loads):g} to {max(loads):g}."
        ),
        paragraph(
            "The efficiency is the rate over that of the same ranks when they exchange nothing (the approach “none-…” "
            "of the same framework), turn by turn. Ranks that share cores slow each other down with and without an "
            "exchange, which does not count against an approach. A dash means that an approach does not show this part "
            "of its step, so that the transfer includes it."
        ),
        table(
            "The approaches",
            ("approach", "framework", "what it is"),
            ((name, APPROACHES[name].framework, APPROACHES[name].about) for name in used),
            words=("approach", "framework", "what it is"),
        ),
        *([paragraph(f"Not measured: {', '.join(absent)}.")] if absent else []),
    )
