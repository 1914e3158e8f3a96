"""What the source and the examples may print, for tests that compare the pages with it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Printed:
    """Texts, and texts with gaps."""

    texts: str
    """All texts that stand in it, with a line for each."""

    templates: list[tuple[re.Pattern[str], int]]
    """Texts with gaps in them, and how many letters they have beside the gaps."""

    @classmethod
    def read(cls) -> Printed:
        texts: list[str] = []
        templates = []
        for file in [*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").glob("*.py")]:
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
                elif isinstance(node, ast.JoinedStr):
                    parts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
                    pattern = "".join(".+?" if part is None else re.escape(str(part)) for part in parts)
                    templates.append((re.compile(pattern), sum(len(str(part)) for part in parts if part is not None)))
        for file in [*ROOT.glob("engine/*/*.cpp"), *ROOT.glob("engine/*/*.hpp")]:
            for literals in re.findall(r'((?:"(?:[^"\\\n]|\\.)*"\s*)+)', file.read_text()):
                texts.append("".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', literals)))
        return cls("\n".join(" ".join(text.split()) for text in texts), templates)

    def says(self, words: str) -> bool:
        """Whether it says them as they are, in a text with gaps, or puts them together from runs of several words."""
        if words in self.texts:
            return True
        if any(letters * 2 >= len(words) and pattern.search(words) for pattern, letters in self.templates):
            return True
        rest, found, total = words.split(), 0, len(words.split())
        while rest:
            length = next((n for n in range(len(rest), 1, -1) if " ".join(rest[:n]) in self.texts), 0)
            found += length
            rest = rest[length or 1 :]
        return found * 2 >= total

    def within(self, text: str) -> bool:
        """Whether a text with gaps, of some length, is a part of `text`."""
        return any(letters > 8 and pattern.search(text) for pattern, letters in self.templates)
