"""Draws some rows of the first table of docs/benchmarks.md as bars, in docs/pictures/all-reduce.svg."""

from __future__ import annotations

import html
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PICTURE = DOCS / "pictures" / "all-reduce.svg"
SYSTEMS = {
    "through PyTorch: Paceline": ("Paceline", "#0f9d8a"),
    "Intel MPI": ("Intel MPI", "#8a8f98"),
    "Gloo": ("Gloo", "#d08a2e"),
}
"""The columns that are drawn, with what each is called and its colour."""

ROWS = ("2 ranks, 256 KiB", "2 ranks, 2 MiB", "2 ranks, 64 MiB", "4 ranks on 2 cores, 64 MiB")
WIDTH, LABEL, BAR, GAP, TOP = 640, 84, 18, 34, 30
FULL = WIDTH - LABEL - 110
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #24292f }
.head { font-weight: 600 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }
"""


def measured() -> dict[str, dict[str, float]]:
    """Microseconds by row and by column of the page's first table."""
    table = (
        DOCS.joinpath("benchmarks.md").read_text().partition("## All-reduce on one machine")[2].partition("\n## ")[0]
    )
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*$", table, re.MULTILINE)
    ]
    return {
        row[0]: {name: float(cell.replace(" ", "")) for name, cell in zip(lines[0][1:], row[1:], strict=True)}
        for row in lines[2:]
    }


def duration(microseconds: float) -> str:
    if microseconds < 1000:
        return f"{microseconds:.0f} µs"
    return f"{microseconds / 1000:.1f} ms" if microseconds < 10_000 else f"{microseconds / 1000:.0f} ms"


def drawn() -> str:
    """One group of bars for each row, as long as the times; the longest bar of a group has the full width."""
    times, y, parts = measured(), TOP, []
    for row in ROWS:
        parts.append(f'<text class="head" x="0" y="{y}">all-reduce, {html.escape(row)}</text>')
        longest = max(times[row][column] for column in SYSTEMS)
        for column, (name, colour) in SYSTEMS.items():
            y += BAR + 6
            long = max(2.0, FULL * times[row][column] / longest)
            parts.append(f'<text x="0" y="{y}">{name}</text>')
            parts.append(
                f'<rect x="{LABEL}" y="{y - BAR + 4}" width="{long:.0f}" height="{BAR}" rx="2" fill="{colour}"/>'
            )
            parts.append(f'<text x="{LABEL + long + 8:.0f}" y="{y}">{duration(times[row][column])}</text>')
        y += GAP
    height = y - GAP + 12
    title = "Time of an all-reduce: Paceline and Gloo through PyTorch, Intel MPI by itself"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img">\n<title>{title}</title>\n<style>{STYLE}</style>\n' + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(drawn())
