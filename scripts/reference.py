"""Writes what docs/reference has from the source: tables of settings, commands with their options, and the API.

    python scripts/reference.py             # rewrite the pages
    python scripts/reference.py --check     # name the pages that differ from the source, and exit with 1

A page says where something goes by a comment, `<!-- settings: timeout ports -->`, `<!-- command: run -->` or
`<!-- api: paceline.Group -->`, and what lies between that comment and `<!-- end -->` is generated.
"""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

SCRIPTS = Path(__file__).parent
PAGES = sorted((SCRIPTS.parent / "docs" / "reference").glob("*.md"))
PART = re.compile(r"<!-- (settings|command|api): ([^>]*?) -->\n.*?<!-- end -->", re.DOTALL)
LEVEL = "#"


def parts() -> dict[str, Callable[[str], str]]:
    """The generator of each kind of part, by the word in the comment."""
    of = {
        name: runpy.run_path(str(SCRIPTS / f"{name}.py"))
        for name in ("docs_hook", "command_reference", "api_reference")
    }
    return {
        "settings": of["docs_hook"]["settings_table"],
        "command": of["command_reference"]["command_section"],
        "api": of["api_reference"]["section"],
    }


def written(page: str, generators: dict[str, Callable[[str], str]]) -> str:
    """The page with all of its parts generated anew."""

    def part(mark: re.Match[str]) -> str:
        return f"<!-- {mark[1]}: {mark[2]} -->\n\n{generators[mark[1]](mark[2]).strip()}\n\n<!-- end -->"

    return PART.sub(part, page)


def stale() -> Iterator[tuple[Path, str]]:
    """Each page that differs from what the source gives, with what it should hold."""
    generators = parts()
    for page in PAGES:
        text = page.read_text()
        if (new := written(text, generators)) != text:
            yield page, new


if __name__ == "__main__":
    found = list(stale())
    for path, text in found:
        if "--check" not in sys.argv:
            path.write_text(text)
        print(f"{path.name}: {'differs from the source' if '--check' in sys.argv else 'written'}")
    sys.exit(1 if found and "--check" in sys.argv else 0)
