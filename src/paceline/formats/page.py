"""A page of HTML in one file: it loads nothing, follows light and dark, prints, and can be read without a mouse."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""Whatever a page contains, it can fetch nothing."""


def page(title: str, sections: Iterable[str], data: object, *, style: str = "", script: str = "") -> str:
    """Return the page. sections: its HTML; see `section`. data: what the script finds by `JSON.parse(...)`, as JSON.

    style, script: CSS and JavaScript beside those of all pages. Everything but `title` and `data` must be escaped.
    """
    base = files("paceline.formats")
    embedded = json.dumps(data, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>
{(base / "page.css").read_text(encoding="utf-8")}{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<main id="main">
<h1>{escape(title)}</h1>
{"".join(sections)}</main>
<script type="application/json" id="data">{embedded}</script>
<script>
{script}</script>
</body>
</html>
"""


def section(name: str, title: str, *content: str) -> str:
    """Return a section with a heading. name: its id. content: HTML."""
    body = "\n".join(content)
    heading = f'<h2 id="{name}-title">{escape(title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">\n{heading}\n{body}\n</section>\n'


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of plain text. kind: its class, "" for none."""
    named = f' class="{kind}"' if kind else ""
    return f"<p{named}>{escape(text)}</p>"


def bar(parts: Iterable[tuple[str, str, float]], length: float = 1.0) -> str:
    """Return a bar of parts, for the eye alone: what it shows must be said beside it too.

    parts: the class of each, which gives its colour, what a mouse that rests on it is told, and its share of the bar.
    length: of the bar, where 1 is all the width that there is.
    """
    pieces = "".join(
        f'<span class="{kind}" style="flex-grow:{share:.5f}" title="{escape(told)}"></span>'
        for kind, told, share in parts
    )
    return f'<div class="bar" style="width:{length:.3%}" aria-hidden="true">{pieces}</div>'


def keys(names: Iterable[tuple[str, str]]) -> str:
    """Return what the colours of bars stand for. names: the class and the text of each."""
    items = "".join(f'<li><span class="key {kind}"></span>{escape(text)}</li>' for kind, text in names)
    return f'<ul class="keys">{items}</ul>'


def figure(caption: str, *content: str) -> str:
    """Return a figure. content: HTML."""
    return f'<figure><figcaption class="faint">{escape(caption)}</figcaption>{"".join(content)}</figure>'


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, words: Sequence[str] = ()) -> str:
    """Return a table that scrolls where it is too wide. words: the columns that hold text; the others hold numbers.

    The first column names the row. Cells are escaped.
    """
    kinds = ["" if column in words else ' class="number"' for column in columns]
    head = "".join(f'<th scope="col"{kind}>{escape(column)}</th>' for column, kind in zip(columns, kinds, strict=True))
    body = []
    for row in rows:
        first, *rest = (escape(str(cell)) for cell in row)
        cells = "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(rest, kinds[1:], strict=True))
        body.append(f'<tr><th scope="row"{kinds[0]}>{first}</th>{cells}</tr>')
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )
