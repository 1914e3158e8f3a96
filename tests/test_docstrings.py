"""Docstrings begin with a noun phrase or an imperative, and not with a clause that leaves its subject open."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = (ROOT / "src/paceline", ROOT / "bench/paceline_bench")
FILES = sorted(path for package in PACKAGES for path in package.glob("**/*.py"))
CLAUSE = re.compile(r"\s*(How|Of|What|When|Where|Whether|Which|Who|Whom|Whose|Why)\b")


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every string that is a statement: of modules, classes and functions, and after assignments."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def clauses(source: str) -> list[str]:
    found = ((line, CLAUSE.match(text)) for line, text in docstrings(source))
    return [f"{line}: {begin[1]}" for line, begin in found if begin]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_docstring_begins_with_a_clause(path: Path) -> None:
    assert not clauses(path.read_text())


def test_docstrings_of_every_kind_are_found() -> None:
    source = '''"""What a module has."""
LIMIT = 1
"""How much there may be."""
class Thing:
    """Who is there."""
    size: int
    """Where it ends, in bytes."""
    def usable(self) -> bool:
        """
        Whether it can be used.
        """
        self.known = False
        """When it became known."""
        return "Which"
async def close() -> None:
    """Close it. Why: nobody needs it."""
'''
    assert sorted(clauses(source)) == sorted(["1: What", "3: How", "5: Who", "7: Where", "9: Whether", "13: When"])
