"""What mkdocs.yml adds to mkdocs: the pages that lie beside docs/. Also reads the settings for the reference."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SETTINGS = ROOT / "src" / "paceline" / "settings" / "settings.py"
BESIDE = ("CONTRIBUTING.md", "SECURITY.md")

Setting = tuple[str, str, str]
"""A variable's name, its meaning and its default."""

_ROW = re.compile(r"(PACELINE_[A-Z_]+): (.*?)(?: Default: (.*)\.)?", re.DOTALL)
_OUTWARDS = re.compile(rf"\]\((?:\.\./)((?:\.\./)*(?:{'|'.join(BESIDE)}))")

_ELSEWHERE = re.compile(r"\[([^\]]+)\]\((?!http)[^).]*\)")
"""A link to a folder, which is not in the site."""


def settings() -> dict[str, Setting]:
    """The settings by the field that holds each, from the docstrings of the fields of `Settings`."""
    (cls,) = [
        node
        for node in ast.parse(SETTINGS.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "Settings"
    ]
    found = {}
    for field, text in zip(cls.body, cls.body[1:], strict=False):
        match (field, text):
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(docstring))):
                if row := _ROW.fullmatch(" ".join(inspect.cleandoc(docstring).split())):
                    found[name] = (row[1], row[2].rstrip("."), row[3] or "none")
    return found


def settings_table(fields: str) -> str:
    """The table of some fields of `Settings`, by their names. KeyError: there is no such field."""
    known = settings()
    rows = [known[name] for name in fields.split()]
    lines = [f"| `{name}` | {coded(meaning)} | {coded(default)} |" for name, meaning, default in rows]
    return "\n".join(["| Variable | Meaning and values | Default |", "| --- | --- | --- |", *lines])


def coded(text: str) -> str:
    """The text with variables marked as code."""
    return re.sub(r"(?<!`)\bPACELINE_[A-Z_]+", r"`\g<0>`", text)


def on_files(files: Any, config: Any) -> Any:
    """The pages beside docs/ stand in the site's first folder."""
    from mkdocs.structure.files import File

    for name in BESIDE:
        text = _ELSEWHERE.sub(r"\1", (ROOT / name).read_text().replace("](docs/", "]("))
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turns links that lead out of docs/ to where those pages stand in the site."""
    return _OUTWARDS.sub(r"](\1", markdown)
